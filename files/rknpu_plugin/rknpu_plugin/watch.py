# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waiting for something to happen: a change in a directory, or a word from another thread."""

from __future__ import annotations

import ctypes
import os
import select
import threading
from contextlib import suppress
from pathlib import Path

# inotify(7) and <sys/inotify.h>
_IN_NONBLOCK = os.O_NONBLOCK
_IN_CLOEXEC = os.O_CLOEXEC
_EVENTS = 0x4 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800  # attrib, move, create, delete, self
# Without inotify (its instances and watches can run out on busy nodes) the caller looks this often.
POLL_SECONDS = 0.05


class Wakeup:
    """Lets any thread end a wait.

    Unlike threading.Event, whose time limit follows the wall clock in older Pythons: there, a clock
    set back by an hour makes a wait of a second last an hour.
    """

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._closed = False
        # The number of a closed descriptor may be another file's by the time of the write.
        self._lock = threading.Lock()

    def fileno(self) -> int:
        return self._read

    def wake(self) -> None:
        """End the wait, or the next one; after close() nothing happens."""
        # A full pipe is full of wake-ups.
        with self._lock, suppress(BlockingIOError):
            if not self._closed:
                os.write(self._write, b"x")

    def wait(self, seconds: float) -> None:
        """Return after a wake-up or *seconds*."""
        select.select([self._read], [], [], seconds)
        self.clear()

    def clear(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self._read, 4096):
                pass

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._read)
                os.close(self._write)


class DirectoryWatch:
    """Waits for changes in a directory, which may come and go itself.

    Where the directory is missing, its nearest existing parent is watched.
    """

    def __init__(self, directory: str, wakeup: Wakeup) -> None:
        self._directory = Path(directory)
        self._wakeup = wakeup
        self._inotify = _Inotify.open()
        self._watched: tuple[Path, int, int] | None = None

    def wait(self, seconds: float) -> None:
        """Return after a change, a wake-up or *seconds*; sooner without cause is possible."""
        watched = self._watched
        if self._inotify is None or not self._arm(self._inotify):
            self._wakeup.wait(min(seconds, POLL_SECONDS))
        elif self._watched == watched:
            select.select([self._inotify.fileno(), self._wakeup.fileno()], [], [], seconds)
            self._inotify.drain()
            self._wakeup.clear()
        # Else the watch is new, and what happened before it was in place has left no event.

    def _arm(self, inotify: _Inotify) -> bool:
        """Watch the directory or its nearest parent; returns whether something is watched."""
        for path in (self._directory, *self._directory.parents):
            try:
                status = path.stat()
            except OSError:
                continue
            target = (path, status.st_dev, status.st_ino)
            if target != self._watched:
                self._watched = None
                try:
                    inotify.watch(str(path))
                except OSError:
                    break
                self._watched = target
            return True
        return False

    def close(self) -> None:
        if self._inotify is not None:
            self._inotify.close()


class _Inotify:
    """The kernel's file system events for one directory, through the C library."""

    def __init__(self, library: ctypes.CDLL, descriptor: int) -> None:
        self._library = library
        self._descriptor = descriptor
        self._watch = -1

    @classmethod
    def open(cls) -> _Inotify | None:
        try:
            library = ctypes.CDLL(None, use_errno=True)
            descriptor = library.inotify_init1(_IN_NONBLOCK | _IN_CLOEXEC)
        except (OSError, AttributeError):
            return None
        return cls(library, descriptor) if descriptor >= 0 else None

    def fileno(self) -> int:
        return self._descriptor

    def watch(self, path: str) -> None:
        """Watch *path* instead of what was watched before."""
        if self._watch >= 0:
            self._library.inotify_rm_watch(self._descriptor, self._watch)
        self._watch = self._library.inotify_add_watch(self._descriptor, os.fsencode(path), _EVENTS)
        if self._watch < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)

    def drain(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self._descriptor, 65536):
                pass

    def close(self) -> None:
        os.close(self._descriptor)
