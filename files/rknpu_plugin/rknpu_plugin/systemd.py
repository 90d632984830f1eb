# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Talking to systemd: sd_notify(3) and sd_listen_fds(3), without its library."""

from __future__ import annotations

import os
import socket
import threading
from typing import Callable, Mapping, MutableMapping

_FIRST_DESCRIPTOR = 3


def notify(state: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Send *state*, for example "READY=1"; returns whether a service manager is listening."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            # A service manager that hangs must not stop the plugin.
            sender.setblocking(False)
            sender.sendto(state.encode(), address)
    except OSError:
        return False
    return True


def take_listener(environment: MutableMapping[str, str] = os.environ) -> socket.socket | None:
    """The socket of a socket unit, whose sole one it is; None if there is none for this process.

    Children do not get it, and do not hear of it.
    """
    words = {name: environment.pop(f"LISTEN_{name}", "") for name in ("PID", "FDS", "FDNAMES")}
    if words["PID"] != str(os.getpid()) or words["FDS"] in ("", "0"):
        return None
    os.set_inheritable(_FIRST_DESCRIPTOR, False)
    return socket.socket(fileno=_FIRST_DESCRIPTOR)


class Status:
    """The line that `systemctl status` shows: what the plugin does, or what is wrong with it.

    Args:
        listener: is told too what the plugin does.
    """

    def __init__(self, listener: Callable[[str], None] | None = None) -> None:
        self._doing = ""
        self._problem: str | None = None
        self._flaw: str | None = None
        self._listener = listener
        # Of two threads the later one has the last word.
        self._lock = threading.Lock()

    def tell(self, doing: str) -> None:
        """Say what the plugin does now."""
        self._doing = doing
        if self._listener is not None:
            self._listener(doing)
        if self._problem is None:
            self.repeat()

    def repeat(self) -> None:
        """Say it again, to a service manager that may not have heard it."""
        with self._lock:
            text = self._doing if self._problem is None else f"not healthy: {self._problem}"
            if self._flaw is not None:
                text = f"{text}; {self._flaw}"
            # A second line would be a message of its own.
            notify(f"STATUS={' '.join(text.split())}")

    def note(self, flaw: str | None) -> None:
        """Say what is wrong beside what the plugin is for, or that it no longer is."""
        if flaw != self._flaw:
            self._flaw = flaw
            self.repeat()

    def judge(self, problem: str | None) -> bool:
        """Say what is wrong, or that it no longer is; returns whether that is news."""
        changed = problem != self._problem
        self._problem = problem
        if changed:
            self.repeat()
        return changed


def watchdog_seconds(environment: Mapping[str, str] = os.environ) -> float | None:
    """How often the unit wants a sign of life, WatchdogSec=; None if it does not."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    text = environment.get("WATCHDOG_USEC", "")
    return int(text) / 1e6 if text.isdigit() and int(text) > 0 else None
