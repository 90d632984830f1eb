# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of a host, how they are to be, and what it takes to get there."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Sequence


class FileProblemError(Exception):
    """What is there is not for this module to replace; the text says what, and what to do."""


@dataclass(frozen=True)
class Wanted:
    """How one file is to be.

    Attributes:
        state: "file", "directory", "link" or "absent".
        content: of a file.
        secret: whether nobody is to see the content.
        target: where a link leads.
        mode: permission bits of a file or directory.
        uid: its user; None leaves what is there.
        gid: its group, in the same way.
    """

    path: str
    state: str
    content: bytes = b""
    secret: bool = False
    target: str = ""
    mode: int = 0o644
    uid: int | None = None
    gid: int | None = None


@dataclass(frozen=True)
class Present:
    """How it is: the state as above or "other", and what that has."""

    state: str
    content: bytes = b""
    target: str = ""
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None


@dataclass(frozen=True)
class Change:
    """What has to be done for one file."""

    wanted: Wanted
    present: Present
    # Whether it has to be made anew; otherwise only mode and owner differ.
    anew: bool


def check_paths(files: Sequence[Wanted]) -> str | None:
    """Return the first reason why files cannot be brought into their states together, or None."""
    states: dict[str, str] = {}
    for wanted in files:
        # However it is written: a directory of the user's may end with a slash.
        path = os.path.normpath(wanted.path)
        if not path.startswith("/") or path == "/":
            return f'"{wanted.path}" must be an absolute path, and not /'
        if not all(map(_is_plain, (path, wanted.target))):
            return f"the path or target {path!r} has characters in it that no file name has"
        if path in states:
            return f"{path} must stand only once"
        inside = [other for other in states if other.startswith(f"{path}/")]
        if inside:
            return f"{path} must stand before {inside[0]}, which is to be in it"
        for parent in map(str, Path(path).parents):
            if states.get(parent, "directory") != "directory":
                return f"{path} cannot be in {parent}, which is to be {_ARTICLES[states[parent]]}"
        if wanted.state == "link" and not wanted.target:
            return f"the link {path} must have a target"
        states[path] = wanted.state
    return None


def _is_plain(text: str) -> bool:
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def read_present(path: Path) -> Present:
    """Read what is at *path*; OSError says why it cannot be read."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return Present("absent")
    uid, gid, mode = found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)
    if stat.S_ISLNK(found.st_mode):
        return Present("link", target=os.readlink(path), uid=uid, gid=gid)
    if stat.S_ISDIR(found.st_mode):
        return Present("directory", mode=mode, uid=uid, gid=gid)
    if stat.S_ISREG(found.st_mode):
        return Present("file", content=path.read_bytes(), mode=mode, uid=uid, gid=gid)
    return Present("other", mode=mode, uid=uid, gid=gid)


def find_change(wanted: Wanted) -> Change | None:
    """Compare one file with what is wanted.

    Returns:
        None if it is so already.

    Raises:
        FileProblemError: something is there that holds more than what is wanted there.
        OSError: what is there cannot be read.
    """
    path = Path(wanted.path)
    nearest = next(parent for parent in path.parents if os.path.lexists(parent))
    if not nearest.is_dir():
        raise FileProblemError(f"{nearest} is no directory, so {path} cannot be in it")
    present = read_present(path)
    if present.state == "directory" and wanted.state != "directory":
        raise FileProblemError(f"{path} is a directory and is to be {_ARTICLES[wanted.state]}")
    if wanted.state == "directory" and present.state not in ("directory", "absent"):
        # A link to one will do, and its mode is that of another place.
        if path.is_dir():
            return None
        raise FileProblemError(f"{path} is to be a directory and is none")
    anew = present.state != wanted.state or (
        (present.content, present.target) != (wanted.content, wanted.target)
    )
    if anew or (wanted.state in ("file", "directory") and _differs(wanted, present)):
        return Change(wanted, present, anew)
    return None


_ARTICLES = {"file": "a file", "link": "a link", "absent": "removed as a file"}


def _differs(wanted: Wanted, present: Present) -> bool:
    return (
        wanted.mode != present.mode
        or wanted.uid not in (None, present.uid)
        or wanted.gid not in (None, present.gid)
    )


def make_change(change: Change) -> None:
    """Do what has to be done; raises OSError if that is not possible."""
    wanted, path = change.wanted, Path(change.wanted.path)
    if wanted.state == "absent":
        path.unlink()
        return
    _make_directories(path.parent)
    if change.anew and wanted.state in ("file", "link"):
        _replace(change)
        return
    if change.anew:
        path.mkdir()
    _own(path, change)
    path.chmod(wanted.mode)


def _make_directories(path: Path) -> None:
    if path.is_dir():
        return
    _make_directories(path.parent)
    # Of a path with .. in it, this may be one that has just been made.
    if not path.is_dir():
        path.mkdir()
        # Whatever the umask is: who reads the files has to get there.
        path.chmod(0o755)


def _replace(change: Change) -> None:
    wanted, path = change.wanted, Path(change.wanted.path)
    # Beside it, where it gets the labels that security modules give to files of this directory.
    # With another ending, because programs read all files of a directory by theirs, and a power cut
    # may leave this one.
    new = path.with_name(f".{path.name[:50]}.{secrets.token_hex(4)}")
    try:
        if wanted.state == "link":
            new.symlink_to(wanted.target)
            _own(new, change)
        else:
            new.touch(mode=0o600, exist_ok=False)
            _own(new, change)
            new.chmod(wanted.mode)
            with new.open("r+b") as file:
                file.write(wanted.content)
                file.flush()
                # Boards lose power at any time, and an empty file would stay.
                os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            new.unlink()
        raise


def _own(path: Path, change: Change) -> None:
    """Give a file to its owner; without one, to whom it belonged."""
    wanted, present, found = change.wanted, change.present, path.lstat()
    uid = present.uid if wanted.uid is None else wanted.uid
    gid = present.gid if wanted.gid is None else wanted.gid
    if uid in (None, found.st_uid) and gid in (None, found.st_gid):
        return
    try:
        os.lchown(path, -1 if uid is None else uid, -1 if gid is None else gid)
    except PermissionError:
        # Otherwise nobody has asked for it.
        if wanted.uid is not None or wanted.gid is not None:
            raise


def describe_change(change: Change) -> list[dict[str, Any]]:
    """The differences as Ansible displays them."""
    wanted, present = change.wanted, change.present
    found: list[dict[str, Any]] = []
    if change.anew and _is_confidential(change):
        found.append({"prepared": f"{wanted.path}: the content is secret\n"})
    elif change.anew:
        found.append(
            {
                "before_header": wanted.path,
                "after_header": wanted.path,
                "before": _text(present),
                "after": _text(wanted),
            }
        )
    if wanted.state in ("file", "directory") and present.mode is not None:
        before, after = _attributes(present), _attributes(wanted)
        after = {key: after[key] if after[key] is not None else before[key] for key in after}
        if before != after:
            path = {"path": wanted.path}
            found.append({"before": {**path, **before}, "after": {**path, **after}})
    return found


def _is_confidential(change: Change) -> bool:
    """Whether one of the two contents is secret: what others may not read is shown to nobody else.

    A file that was for its owner alone and stays so shows the content that it is given openly.
    """
    wanted, present = change.wanted, change.present
    was_private = present.state == "file" and not (present.mode or 0) & 0o077
    stays_private = wanted.state == "file" and not wanted.mode & 0o077
    return wanted.secret or (was_private and not stays_private)


def _text(side: Wanted | Present) -> str:
    if side.state == "file":
        return side.content.decode("utf-8", "replace")
    return {"link": f"a link to {side.target}\n", "absent": ""}.get(side.state, f"{side.state}\n")


def _attributes(side: Wanted | Present) -> dict[str, Any]:
    mode = None if side.mode is None else f"{side.mode:04o}"
    return {"mode": mode, "uid": side.uid, "gid": side.gid}
