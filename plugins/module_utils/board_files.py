# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of a board below a root directory, read without ever raising.

A board is read as an ordinary user as well as by root, while drivers come and go, and in tests from
a directory. So whatever cannot be read is None or an empty list; callers decide what that means.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Callable

# Files of sysfs, procfs and the device tree are small; whoever expects more says so.
SMALL = 64 * 1024


def is_char_device(path: str) -> bool:
    """Whether *path* itself is a character device; a symbolic link to one is not.

    A link named /dev/rknpu that leads to a DRM node makes the RKNN runtime fail:
    https://github.com/invisiofficial/rk-llama.cpp/issues/19.
    """
    try:
        return stat.S_ISCHR(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


class BoardFiles:
    """Reads the files of a board, named by their absolute paths there.

    Args:
        root: directory that holds the board's /dev, /proc, /sys, /boot and /lib.
        char_device: the check for a character device, given a path below *root*.
    """

    def __init__(
        self, root: str = "/", char_device: Callable[[str], bool] = is_char_device
    ) -> None:
        try:
            # Empty for "/", so that a path of the board can simply be appended.
            self._root = os.path.realpath(root).rstrip("/")
        except ValueError:  # no path at all, for example one with a NUL
            self._root = os.devnull
        self._char_device = char_device

    def _locate(self, path: str) -> str | None:
        """Where *path* of the board is here; None if its links lead out of the root directory."""
        located = self._root + path
        if not self._root:
            return located
        try:
            resolved = os.path.realpath(located)
        except (OSError, ValueError):
            return None
        # An absolute link, as /proc/device-tree is, would show the machine that reads.
        return located if resolved.startswith(self._root + "/") else None

    def read(self, path: str, limit: int = SMALL) -> bytes | None:
        """Content of a regular file of at most *limit* bytes, else None."""
        located = self._locate(path)
        if located is None:
            return None
        try:
            # Without O_NONBLOCK a FIFO at this place would block for ever.
            descriptor = os.open(located, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError):
            return None
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            chunks: list[bytes] = []
            left = limit + 1
            while left > 0:
                chunk = os.read(descriptor, left)
                if not chunk:
                    return b"".join(chunks)
                chunks.append(chunk)
                left -= len(chunk)
            return None
        except OSError:
            return None
        finally:
            os.close(descriptor)

    def text(self, path: str, limit: int = SMALL) -> str | None:
        """Content of a small text file; bytes that are not UTF-8 are replaced."""
        content = self.read(path, limit)
        return None if content is None else content.decode("utf-8", "replace")

    def names(self, path: str) -> list[str]:
        """Names in a directory, sorted; empty if it is missing or may not be listed."""
        located = self._locate(path)
        if located is None:
            return []
        try:
            # Not iterdir(): a path object for each of hundreds of drivers costs too much.
            with os.scandir(located) as entries:
                return sorted(entry.name for entry in entries)
        except (OSError, ValueError):
            return []

    def is_directory(self, path: str) -> bool:
        """Whether *path* is a directory, also through a link."""
        located = self._locate(path)
        try:
            return located is not None and Path(located).is_dir()
        except OSError:
            return False

    def is_closed_directory(self, path: str) -> bool:
        """Whether *path* is a directory that the calling user may not list."""
        located = self._locate(path)
        return located is not None and self.is_directory(path) and not os.access(located, os.R_OK)

    def link_target(self, path: str) -> str | None:
        """What a symbolic link says, unresolved; None if *path* is no link."""
        # Not _locate(): the link itself is the question, wherever it leads.
        try:
            return os.readlink(self._root + path)
        except (OSError, ValueError):
            return None

    def is_char_device(self, path: str) -> bool:
        """Whether *path* itself is a character device, not a link to one."""
        located = self._locate(path)
        return located is not None and self._char_device(located)

    def permissions(self, path: str) -> str | None:
        """Permission bits as four octal digits, for example "0660"."""
        located = self._locate(path)
        if located is None:
            return None
        try:
            return format(stat.S_IMODE(os.lstat(located).st_mode), "04o")
        except (OSError, ValueError):
            return None
