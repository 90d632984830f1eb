# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the archive that carries the device plugin and its Python packages to one kind of board.

Everything here runs on the control node: boards often have neither pip nor a way to a package
index. A kind of board is its Python version, its architecture and its C library.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Iterator, NamedTuple, Sequence

#: The package inside the source directory that the archive carries.
PACKAGE = "rknpu_plugin"

#: The file inside the source directory that names the packages of the board.
REQUIREMENTS = "requirements.txt"

#: Part of every digest; raised when the layout of the archive changes.
LAYOUT = "1"

#: Architectures for which Python wheels of all dependencies exist.
ARCHITECTURES = ("aarch64", "x86_64")

#: The oldest glibc that current wheels are built for (PEP 599, PEP 600).
OLDEST_GLIBC = (2, 17)

# pip reports a connection that failed with the exception; its words are the last part of it.
_BROKEN = re.compile(r"connection broken by '(.*)': /")
_LAST_PART = re.compile(r".*[:,] ['\"]?")
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")


class ArchiveError(Exception):
    """An expected failure; its text is one sentence for the user."""


class BoardKind(NamedTuple):
    """What decides which wheels fit a board."""

    python_version: str
    """Major and minor version, such as `3.11`."""
    architecture: str
    """As the board's own programs see it, not its kernel."""
    libc: str
    """`glibc` or `musl`."""
    libc_version: str
    """Major and minor version, such as `2.36`."""

    @classmethod
    def of(cls, python_version: str, architecture: str, libc: str, libc_version: str) -> BoardKind:
        """Return a kind of which Python's version may have more than two numbers.

        Raises:
            ArchiveError: `python_version` is none.
        """
        major, minor = parse_version(python_version, "python_version")
        return cls(f"{major}.{minor}", architecture, libc, libc_version)

    def __str__(self) -> str:
        return (
            f"Python {self.python_version} on {self.architecture} "
            f"with {self.libc} {self.libc_version}"
        )


def parse_version(text: str, what: str) -> tuple[int, int]:
    """Read `major.minor` from `text`, ignoring what follows.

    Raises:
        ArchiveError: `text` does not begin with two numbers; `what` names it.
    """
    found = re.match(r"(\d+)\.(\d+)(?![\d])", text)
    if found is None:
        raise ArchiveError(f"{what} must be a version such as 3.11, got {text!r}.")
    return int(found.group(1)), int(found.group(2))


def platform_tags(kind: BoardKind) -> list[str]:
    """Return the wheel platform tags that the board accepts, best first.

    Tags are those of PEP 600 (manylinux) and PEP 656 (musllinux). Both spellings of the oldest
    manylinux are needed: pip widens `manylinux2014` but does not see `manylinux_2_17` in it.

    Raises:
        ArchiveError: no wheels can fit this board.
    """
    if kind.architecture not in ARCHITECTURES:
        raise ArchiveError(
            f"There are no Python packages for architecture {kind.architecture!r}; "
            f"the plugin runs on {' and '.join(ARCHITECTURES)}."
        )
    major, minor = parse_version(kind.libc_version, "libc_version")
    if kind.libc == "musl":
        tags = [f"musllinux_{major}_{m}_{kind.architecture}" for m in range(minor, 0, -1)]
    else:
        if (major, minor) < OLDEST_GLIBC:
            raise ArchiveError(
                f"glibc {kind.libc_version} is too old for current Python packages, which need "
                "2.17 or newer; install a newer operating system on the board."
            )
        newest = range(minor, OLDEST_GLIBC[1] - 1, -1)
        tags = [f"manylinux_{major}_{m}_{kind.architecture}" for m in newest]
        tags.append(f"manylinux2014_{kind.architecture}")
    return tags


def package_files(source: Path) -> list[Path]:
    """Return the plugin's own files below `source`, relative to it and sorted.

    Symbolic links count as what they point to: the plugin shares files with this collection.

    Raises:
        ArchiveError: `source` does not hold the package.
    """
    if not (source / PACKAGE / "__init__.py").is_file():
        raise ArchiveError(f"{source} does not hold the package {PACKAGE}; install a whole copy.")
    files = []
    for directory, names, file_names in os.walk(str(source / PACKAGE), followlinks=True):
        names[:] = sorted(name for name in names if name != "__pycache__")
        for name in file_names:
            if not name.endswith(".pyc"):
                files.append((Path(directory) / name).relative_to(source))
    return sorted(files)


def read_requirements(path: Path) -> list[str]:
    """Return the requirement lines of the file at `path`.

    Raises:
        ArchiveError: the file cannot be read, or a line has an environment marker. pip evaluates
            markers for the Python it runs on, which is not the board's.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ArchiveError(f"Cannot read {path}: {error.strerror}.") from error
    lines = [line.split(" #")[0].strip() for line in text.splitlines()]
    requirements = [line for line in lines if line and not line.startswith("#")]
    for line in requirements:
        if ";" in line:
            raise ArchiveError(
                f"{path}: {line!r} has an environment marker, which pip would evaluate for the "
                "control node instead of the board; remove what follows the semicolon."
            )
    return requirements


def inputs_digest(source: Path, requirements: Sequence[str], kind: BoardKind) -> str:
    """Return the name of the release that these inputs make: 16 hexadecimal digits."""
    return digest_of((LAYOUT, *kind, *requirements), source, package_files(source))


def digest_of(texts: Sequence[str], source: Path, files: Sequence[Path]) -> str:
    """Return 16 hexadecimal digits that change with the texts, and with files below `source`."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode() + b"\0")
    for name in files:
        content = (source / name).read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def archive_name(digest: str, kind: BoardKind) -> str:
    """Return the file name of an archive, which also tells a person what it is for."""
    return f"rknpu-plugin-{digest}-py{kind.python_version}-{kind.architecture}.tar.gz"


def pip_arguments(
    python: str, requirements: Sequence[str], kind: BoardKind, target: Path
) -> list[str]:
    """Return the command that unpacks the board's wheels into `target`."""
    command = [python, "-m", "pip", "install", "--target", str(target)]
    command += ["--only-binary=:all:", "--implementation", "cp"]
    command += ["--python-version", kind.python_version, "--no-compile", "--no-input", "--quiet"]
    command += ["--disable-pip-version-check", "--no-warn-script-location"]
    for tag in platform_tags(kind):
        command += ["--platform", tag]
    return [*command, "--", *requirements]


def explain_pip(output: str) -> str:
    """Return in a few words why pip failed, without credentials of an index address."""
    errors = [line[7:].strip() for line in output.splitlines() if line.startswith("ERROR: ")]
    lines = errors or [line.strip() for line in output.splitlines() if line.strip()]
    reason = lines[-1].rstrip(".") if lines else "pip gave no reason"
    broken = _BROKEN.findall(output)
    if broken:
        words = _LAST_PART.sub("", broken[-1]).split(" (")[0].rstrip(".'\")")
        reason = f"the package index cannot be reached ({words})"
    return _CREDENTIALS.sub("***@", reason)


def install_packages(
    python: str, requirements: Sequence[str], kind: BoardKind, target: Path
) -> None:
    """Unpack the board's wheels into `target`.

    Raises:
        ArchiveError: pip is missing or found no fitting packages.
    """
    result = subprocess.run(
        pip_arguments(python, requirements, kind, target),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if result.returncode == 0:
        return
    if "No module named pip" in result.stdout:
        raise ArchiveError(
            f"{python}, which runs ansible-playbook, has no pip; install it there "
            "(Debian and Ubuntu: the package python3-pip)"
        )
    raise ArchiveError(explain_pip(result.stdout))


def fill_tree(
    python: str, source: Path, requirements: Sequence[str], kind: BoardKind, root: Path
) -> None:
    """Put the plugin and the board's packages into the directory `root`.

    Raises:
        ArchiveError: the packages cannot be had.
    """
    install_packages(python, requirements, kind, root)
    # Commands that packages bring would start with the control node's interpreter.
    shutil.rmtree(str(root / "bin"), ignore_errors=True)
    for file in package_files(source):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(str(source / file), str(root / file))


def write_archive(root: Path, path: Path) -> None:
    """Pack the files below `root` into a tar.gz at `path`, the same bytes for the same files.

    Owner, time and order are fixed; a file may be read by all and run by all if its owner may.
    Links are not packed as links: `root` was copied with their content.
    """
    with contextlib.ExitStack() as stack:
        raw = stack.enter_context(path.open("wb"))
        zipped = stack.enter_context(gzip.GzipFile("", "wb", 6, raw, mtime=0))
        archive = stack.enter_context(
            tarfile.open(fileobj=zipped, mode="w", format=tarfile.GNU_FORMAT)
        )
        for entry in sorted(root.rglob("*")):
            info = archive.gettarinfo(str(entry), str(entry.relative_to(root)))
            info.uid = info.gid = info.mtime = 0
            info.uname = info.gname = "root"
            info.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
            if info.isreg():
                with entry.open("rb") as content:
                    archive.addfile(info, content)
            else:
                archive.addfile(info)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path`: boards of one kind share one build."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build_archive(
    python: str, source: Path, requirements: Sequence[str], kind: BoardKind, archive: Path
) -> bool:
    """Make sure that `archive` is there; return whether it had to be built.

    An archive appears whole or not at all, and what an interrupted build left is removed.

    Raises:
        ArchiveError: the cache cannot be written, or the packages cannot be had.
    """
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with locked(archive.with_name(f".{archive.name}.lock")):
            return _build_locked(python, source, requirements, kind, archive)
    except OSError as error:
        where = error.filename or archive.parent
        raise ArchiveError(
            f"Cannot write the plugin archive: {where}: {error.strerror}; "
            "name a directory that you may write as cache_dir."
        ) from error


def _build_locked(
    python: str, source: Path, requirements: Sequence[str], kind: BoardKind, archive: Path
) -> bool:
    if archive.is_file():
        return False
    prefix = f".{archive.name}.build-"
    for left_over in archive.parent.glob(f"{prefix}*"):
        shutil.rmtree(str(left_over), ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=str(archive.parent)) as name:
        work = Path(name)
        root = work / "root"
        root.mkdir()
        try:
            fill_tree(python, source, requirements, kind, root)
        except ArchiveError as error:
            raise ArchiveError(
                f"The plugin's packages for {kind} are not in {archive.parent}, and pip cannot "
                f"get them: {error}. Run this once where a package index is reachable (pip's own "
                f"settings, such as PIP_INDEX_URL, are used), or copy {archive.name} into that "
                "directory from a control node that has it."
            ) from error
        write_archive(root, work / "archive")
        (work / "archive").replace(archive)
    return True
