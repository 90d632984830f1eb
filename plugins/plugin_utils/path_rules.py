# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules for variables that hold paths: of the control node, and in the device plugin's lists."""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

#: Letters out of r, w and m, each at most once.
PERMISSIONS = r"(?!.*(.).*\1)[rwm]+"


def file_to_write(value: Any) -> str | None:
    """Check that a file of the control node can be written, in directories that may be missing."""
    path = _on_control_node(value)
    if path is None or str(value).endswith("/"):
        return "must be the path of a file on the control node"
    try:
        if path.is_dir():
            return "must be the path of a file on the control node, where it is a directory"
        if not path.exists():
            return _find_obstacle(path.parent)
    except OSError as error:
        return f"cannot be written on the control node ({error.strerror})"
    return None if os.access(path, os.W_OK) else "is a file that this user may not write"


def directory_to_write(value: Any) -> str | None:
    """Check that a directory of the control node can be written in, or be made."""
    path = _on_control_node(value)
    if path is None:
        return "must be the path of a directory on the control node"
    try:
        return _find_obstacle(path)
    except OSError as error:
        return f"cannot be made on the control node ({error.strerror})"


def _on_control_node(value: Any) -> Path | None:
    if not isinstance(value, str) or not value or "\0" in value:
        return None
    try:
        return Path(value).expanduser().absolute()
    except RuntimeError:  # the home of somebody who is not there
        return None


def _find_obstacle(directory: Path) -> str | None:
    """Look at what is there of a directory: is it one, and may something be made in it?"""
    while not (directory.exists() or directory.is_symlink()):
        directory = directory.parent
    if not directory.is_dir():
        return f"cannot be made on the control node, where {directory} is no directory"
    if not os.access(directory, os.W_OK | os.X_OK):
        return f"cannot be made on the control node, where this user may not write to {directory}"
    return None


def device_path(entry: str) -> str | None:
    """Return the path in /dev/NAME or /dev/NAME:PERMISSIONS, None if it is neither."""
    path, colon, permissions = entry.partition(":")
    found = _absolute(path)
    if found is None or not found.startswith("/dev/"):
        return None
    return found if not colon or re.fullmatch(PERMISSIONS, permissions) else None


def mount_target(entry: str) -> str | None:
    """Return the path in the container of HOST, HOST:CONTAINER or HOST:CONTAINER:ro|rw, if any."""
    host, *rest = entry.split(":")
    if len(rest) > 2 or (len(rest) == 2 and rest[1] not in ("ro", "rw")):
        return None
    target = _absolute(rest[0] if rest else host)
    return target if _absolute(host) and target != "/" else None


def _absolute(path: str) -> str | None:
    sound = path.startswith("/") and "\0" not in path and ".." not in path.split("/")
    return posixpath.normpath("/" + path.lstrip("/")) if sound else None
