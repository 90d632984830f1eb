# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One plugin for one resource on one board.

Two would overwrite each other's registration, and when one stops the resource of the other goes
with it (https://github.com/kubernetes/kubernetes/issues/121994). The lock is a file in the
kubelet's directory: there the service and a pod meet, and a starting kubelet removes only sockets.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from .endpoint import socket_prefix
from .kubelet import explain_errno

_SEARCHES = 100


class LockError(Exception):
    """The lock cannot be had, because of the file system."""


class HeldError(Exception):
    """Somebody else holds the lock; the text says who."""


class InstanceLock:
    """The right to serve *resource* through *directory*.

    Args:
        inherited: descriptor of the lock as another process of this plugin holds it, if that hands
            over to this one.
    """

    def __init__(self, directory: str, resource: str, inherited: int | None = None) -> None:
        self._path = Path(directory, socket_prefix(resource) + "lock")
        self._resource = resource
        self._descriptor = inherited

    @property
    def descriptor(self) -> int | None:
        """Of the file; None while the lock is not held."""
        return self._descriptor

    @property
    def is_held(self) -> bool:
        """Whether it is held and its file is still there for others to see."""
        return self._descriptor is not None and self._is_current(self._descriptor)

    def acquire(self) -> None:
        """Take the lock, or make sure that it is still held: its file vanishes with the directory.

        Raises:
            HeldError: another process has it.
            LockError: the file cannot be made.
        """
        if self.is_held:
            return
        self._close()
        try:
            self._descriptor = self._take()
        except OSError as error:
            raise LockError(explain_errno(str(self._path), error)) from error

    def _take(self) -> int:
        for _ in range(_SEARCHES):
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.read(descriptor, 4096).decode("utf-8", "replace").strip()
                os.close(descriptor)
                raise HeldError(
                    f"{self._resource} is served on this board already, by "
                    f"{holder or 'a process that is just starting'}; stop that one first"
                ) from None
            except OSError:
                os.close(descriptor)
                raise
            # Its last holder may have removed the file between open and lock.
            if self._is_current(descriptor):
                _sign(descriptor)
                return descriptor
            os.close(descriptor)
        raise OSError(0, "the lock file keeps changing")

    def _is_current(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.stat())
        except OSError:
            return False

    def sign(self) -> None:
        """Say in the file that this process holds the lock."""
        if self._descriptor is not None:
            _sign(self._descriptor)

    def release(self, keep_file: bool = False) -> None:
        """Give the lock back and remove its file, or keep that for a process that goes on."""
        if not keep_file and self.is_held:
            # Where it cannot be removed, whoever comes next takes it over.
            with suppress(OSError):
                self._path.unlink()
        self._close()

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _sign(descriptor: int) -> None:
    # A full disk takes the description, not the lock.
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, _describe_self().encode(), 0)


def _describe_self() -> str:
    """Who this is, for the other one's message: process, and unit or pod by its control group."""
    try:
        with Path("/proc/self/cgroup").open(encoding="utf-8") as stream:
            groups = [line.rstrip("\n").split(":", 2)[2] for line in stream]
    except (OSError, IndexError):
        groups = []
    group = max(groups, key=len, default="")
    place = f" in {group}" if group.strip("/") else ""
    return f"process {os.getpid()} on {os.uname().nodename}{place}\n"
