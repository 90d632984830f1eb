"""Write the image archive of the stand-in: pause and busybox, in the format of ``docker save``."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

PAUSE = "localhost/pause:1"
BUSYBOX = "localhost/busybox:1"

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PASSWD = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
_GROUP = "root:x:0:\nnogroup:x:65534:\n"


class ImageError(Exception):
    """An image cannot be made; the message is one sentence for the user."""


@dataclass(frozen=True)
class _Image:
    name: str
    layer: bytes
    config: dict[str, object]


def write_archive(archive: Path, architecture: str, pause: Path, busybox: Path) -> None:
    """Write both images, made of two static programs, to one archive.

    The same inputs give the same bytes.
    """
    images = [
        _Image(PAUSE, _pause_layer(pause), {"Entrypoint": ["/pause"]}),
        _Image(BUSYBOX, _busybox_layer(busybox), {"Cmd": ["sh"], "Env": [f"PATH={_PATH}"]}),
    ]
    manifest = []
    with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as tar:
        for image in images:
            layer = hashlib.sha256(image.layer).hexdigest()
            config = json.dumps(
                {
                    "architecture": architecture,
                    "os": "linux",
                    "created": "1970-01-01T00:00:00Z",
                    "config": image.config,
                    "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer}"]},
                    "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "k3s stand-in"}],
                },
                sort_keys=True,
            ).encode()
            name = hashlib.sha256(config).hexdigest()
            _add_file(tar, f"{layer}/layer.tar", image.layer, 0o644)
            _add_file(tar, f"{name}.json", config, 0o644)
            manifest.append(
                {
                    "Config": f"{name}.json",
                    "RepoTags": [image.name],
                    "Layers": [f"{layer}/layer.tar"],
                }
            )
        _add_file(tar, "manifest.json", json.dumps(manifest).encode(), 0o644)


def _pause_layer(program: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        _add_file(tar, "pause", program.read_bytes(), 0o755)
    return buffer.getvalue()


def _busybox_layer(program: Path) -> bytes:
    applets = subprocess.run([program, "--list"], capture_output=True, text=True, check=False)
    if applets.returncode:
        raise ImageError(f"{program} --list failed; reinstall the package busybox-static")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for folder in ("bin", "dev", "etc", "home", "proc", "root", "sys", "usr", "usr/bin", "var"):
            _add_folder(tar, folder, 0o755)
        _add_folder(tar, "tmp", 0o1777)
        _add_file(tar, "etc/passwd", _PASSWD.encode(), 0o644)
        _add_file(tar, "etc/group", _GROUP.encode(), 0o644)
        _add_file(tar, "bin/busybox", program.read_bytes(), 0o755)
        for applet in sorted(set(applets.stdout.split()) - {"busybox"}):
            _add_link(tar, f"bin/{applet}", "busybox")
        _add_link(tar, "usr/bin/env", "../../bin/busybox")
    return buffer.getvalue()


def _add_file(tar: tarfile.TarFile, name: str, data: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    tar.addfile(entry, io.BytesIO(data))


def _add_folder(tar: tarfile.TarFile, name: str, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    tar.addfile(entry)


def _add_link(tar: tarfile.TarFile, name: str, target: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    tar.addfile(entry)
