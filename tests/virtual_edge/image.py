"""The board image: a Debian with systemd, ssh, Python and runc, and what simulates hardware in it.

Two steps: mmdebstrap makes the Debian (minutes, kept in the cache by a digest of its recipe), then
the files of board/ go on top (seconds).
"""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
from pathlib import Path

from virtual_edge.debian import SUITE, bootstrap
from virtual_edge.locks import locked
from virtual_edge.podman import has_image
from virtual_edge.progress import say
from virtual_edge.shell import require, run

# No k3s, no containerd and no pip: whatever else a board needs arrives from the control node.
PACKAGES = (
    "ca-certificates",
    "dbus",
    "iproute2",
    "iptables",
    "kmod",
    "openssh-server",
    "procps",
    "python3",
    "runc",
    "sudo",
    "systemd",
    "systemd-sysv",
    "udev",
)
_OPTIONS = (
    "--variant=minbase",
    "--mode=root",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "--dpkgopt=force-unsafe-io",
    '--aptopt=Acquire::Languages "none"',
    "--aptopt=Acquire::Retries 3",
)
_HOOKS = (
    # sshd's keys come with each board; the id of the machine is made at its first boot.
    "rm -f $1/etc/ssh/ssh_host_*_key* && : >$1/etc/machine-id",
    "chroot $1 useradd --create-home --shell /bin/bash rock",
    "chroot $1 groupadd --system --force render",
    # board/usr/lib/virtual-board/udevadm stands before it.
    "mv $1/usr/bin/udevadm $1/usr/bin/udevadm.real",
    # A model says whether debugfs is mounted at boot.
    "rm $1/lib/systemd/system/sysinit.target.wants/sys-kernel-debug.mount",
    # Timers of a machine that lives for years, of no use in one that lives for minutes.
    "chroot $1 systemctl mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer "
    "e2scrub_all.timer e2scrub_reap.service",
)
_FILES = Path(__file__).parent / "board"
_LINKS = {
    "usr/bin/udevadm": "/usr/lib/virtual-board/udevadm",
    "usr/lib/virtual-board/systemd-udevd": "/usr/bin/udevadm.real",
    "usr/lib/virtual-board/python": "/usr/bin/python3",
    "etc/systemd/system/sysinit.target.wants/virtual-board.service": "../virtual-board.service",
}


def _files() -> list[tuple[str, bytes]]:
    found = [path for path in _FILES.rglob("*") if path.is_file()]
    return sorted((str(path.relative_to(_FILES)), path.read_bytes()) for path in found)


def _base_digest() -> str:
    recipe = "\0".join((SUITE, *PACKAGES, *_OPTIONS, *_HOOKS))
    return hashlib.sha256(recipe.encode()).hexdigest()[:12]


def digest() -> str:
    """Twelve hexadecimal digits that change with anything that goes into the image."""
    recipe = hashlib.sha256(_base_digest().encode())
    for name, content in _files():
        recipe.update(name.encode() + b"\0" + content + b"\0")
    recipe.update(repr(sorted(_LINKS.items())).encode())
    return recipe.hexdigest()[:12]


def tag() -> str:
    """Name of the image in podman."""
    return f"localhost/rocknpu-board:{digest()}"


def _base(cache: Path) -> Path:
    return cache / f"board-debian-{_base_digest()}.tar"


def is_built(cache: Path) -> bool:
    """Whether the slow step is done."""
    return _base(cache).exists()


def build(cache: Path) -> None:
    """Have the image in podman; each step is done at most once for each recipe.

    Raises:
        EdgeError: mmdebstrap failed, with what it said last.
    """
    with locked(cache / "board-image.lock", "another run builds the board image"):
        if has_image(tag()):
            return
        if not _base(cache).exists():
            options = [*_OPTIONS, f"--include={','.join(PACKAGES)}"]
            options += [f"--customize-hook={hook}" for hook in _HOOKS]
            bootstrap("the board image", _base(cache), options)
        say("putting the simulation into the board image (10 s) ...")
        whole = cache / "board-image.tar.tmp"
        try:
            shutil.copyfile(_base(cache), whole)
            _append(whole)
            require(["podman", "import", "--quiet", str(whole), tag()], timeout=600)
        finally:
            whole.unlink(missing_ok=True)


def _append(archive: Path) -> None:
    """Add the files of board/, owned by root. None of them may be in the archive already."""
    with tarfile.open(archive, "a", format=tarfile.PAX_FORMAT) as tar:
        for name, content in _files():
            entry = tarfile.TarInfo(f"./{name}")
            entry.size = len(content)
            entry.mode = 0o755 if content.startswith(b"#!") else 0o644
            if name.startswith("etc/sudoers.d/"):
                entry.mode = 0o440
            tar.addfile(entry, io.BytesIO(content))
        for name, target in _LINKS.items():
            entry = tarfile.TarInfo(f"./{name}")
            entry.type = tarfile.SYMTYPE
            entry.linkname = target
            tar.addfile(entry)


def remove_unused() -> None:
    """Remove images of earlier recipes that no container uses; the present one stays."""
    listed = require(["podman", "images", "--format", "{{.Repository}}:{{.Tag}}"]).split()
    for image in listed:
        if image.startswith("localhost/rocknpu-board:") and image != tag():
            # podman refuses to remove what a container uses.
            run(["podman", "rmi", image])
