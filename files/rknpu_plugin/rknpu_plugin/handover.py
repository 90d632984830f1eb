# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Another process takes over the resource without a gap, so that an upgrade is no outage.

The running plugin starts its own command again, which finds the release that is installed now. The
new process inherits the lock and systemd's socket for metrics, registers beside the old one, and
says when the kubelet has read its list. Only then the old one goes. If the new one does not get
there, it is ended and nothing has changed.

Kubelets from 1.25 on that know plugins by their resource alone disconnect the new one too when the
old one ends (https://github.com/kubernetes/kubernetes/pull/135437). There the new one registers
again, which takes milliseconds.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Callable, MutableMapping

from .watch import Wakeup

# Tells the new process which descriptors it inherits: those of the connection, of the lock and of
# the socket for metrics. Releases that know of no such socket do not look at the third one.
VARIABLE = "RKNPU_HANDOVER"
_NONE = -1
# A small board that does other things takes seconds to start Python.
START_SECONDS = 60.0
# A kubelet may have chosen the old process for an allocation just before the new one registered.
DRAIN_SECONDS = 1.0
_END_SECONDS = 5.0
_READY = b"ready"
_GO = b"go"


class Handover(threading.Thread):
    """The old process's side: starts the new one and waits until that can go on alone.

    Args:
        lock: descriptor of the lock, if it is held.
        listener: systemd's socket for metrics, if there is one.
        ready: called when this process should go, and in the end call let_go().
        failed: called with the reason instead; the new process has ended by then.
    """

    def __init__(
        self,
        lock: int | None,
        listener: socket.socket | None,
        ready: Callable[[], None],
        failed: Callable[[str], None],
    ) -> None:
        super().__init__(name="handover", daemon=True)
        self._lock = lock
        self._listener = listener
        self._ready = ready
        self._failed = failed
        self._channel, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._wakeup = Wakeup()
        self._cancelled = False
        self._words = ""
        # Of the new process.
        self.pid = 0

    def run(self) -> None:
        problem = self._hand_over()
        self._wakeup.close()
        if problem is None:
            time.sleep(DRAIN_SECONDS)
            self._ready()
        else:
            self._channel.close()
            self._failed(problem)

    def _hand_over(self) -> str | None:
        try:
            self.pid = self._start_command()
        except OSError as error:
            return f"the new process cannot be started: {error}"
        finally:
            self._theirs.close()
        return self._wait()

    def _start_command(self) -> int:
        command = read_command()
        wanted = [
            self._theirs.fileno(),
            self._lock,
            self._listener.fileno() if self._listener is not None else None,
        ]
        descriptors = [_NONE if number is None else os.dup(number) for number in wanted]
        while descriptors[-1] == _NONE:
            descriptors.pop()
        inherited = [number for number in descriptors if number != _NONE]
        # The watchdog of the unit is for whoever is its main process.
        environment = {key: text for key, text in os.environ.items() if key != "WATCHDOG_PID"}
        environment[VARIABLE] = ",".join(map(str, descriptors))
        try:
            for descriptor in inherited:
                os.set_inheritable(descriptor, True)
            # Unlike fork(), this runs nothing in a copy of a process that has threads.
            return os.posix_spawnp(command[0], command, environment)
        finally:
            for descriptor in inherited:
                os.close(descriptor)

    def _wait(self) -> str | None:
        """Return when the new process is ready, or has ended, with the reason."""
        deadline = time.monotonic() + START_SECONDS
        while not self._cancelled:
            left = deadline - time.monotonic()
            if left <= 0:
                self._end(signal.SIGTERM, signal.SIGKILL)
                return f"process {self.pid} was not ready after {START_SECONDS:.0f} s{self._words}"
            select.select([self._channel.fileno(), self._wakeup.fileno()], [], [], left)
            message = self._receive()
            if message == _READY:
                return None
            if message == b"":
                how = self._end(0, signal.SIGTERM, signal.SIGKILL)
                return f"process {self.pid} {how} before it was ready{self._words}"
            if message is not None:
                self._words = f"; its last words: {message.decode('utf-8', 'replace')}"
        self._end(signal.SIGTERM, signal.SIGKILL)
        return "the plugin is stopped"

    def _receive(self) -> bytes | None:
        """One message, nothing if the other side is gone, None if there is none yet."""
        try:
            return self._channel.recv(4096, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def _end(self, *signals: int) -> str:
        """End the new process by one signal after the other; returns how it ended."""
        for number in signals:
            os.kill(self.pid, number)
            deadline = time.monotonic() + _END_SECONDS
            while time.monotonic() < deadline:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid and os.WIFSIGNALED(status):
                    return f"was killed by signal {os.WTERMSIG(status)}"
                if pid:
                    return f"ended with exit code {os.WEXITSTATUS(status)}"
                time.sleep(0.02)
        return "does not end"

    def let_go(self) -> None:
        """Tell the new process that it is alone now."""
        with suppress(OSError):
            self._channel.send(_GO)
        self._channel.close()

    def cancel(self) -> None:
        """End the new process unless it is ready; returns when that is decided."""
        self._cancelled = True
        self._wakeup.wake()
        self.join()


def read_command() -> list[bytes]:
    """What this process was started with, however that was: as the kernel knows it."""
    return Path("/proc/self/cmdline").read_bytes().split(b"\0")[:-1]


class Predecessor(threading.Thread):
    """The new process's side: the process that it takes over from.

    Attributes:
        pid: its number.
        lock: descriptor of the lock that it holds, or None.
        listener: the socket for metrics that it has from systemd, or None.
    """

    def __init__(
        self,
        channel: socket.socket,
        lock: int | None,
        listener: socket.socket | None,
        environment: MutableMapping[str, str],
    ) -> None:
        super().__init__(name="predecessor", daemon=True)
        self.pid = os.getppid()
        self.lock = lock
        self.listener = listener
        self._channel = channel
        self._environment = environment
        # systemd listens to the main process of a unit alone, which this one is not yet.
        self._service_manager = environment.pop("NOTIFY_SOCKET", "")
        self._gone: Callable[[], None] = lambda: None

    @classmethod
    def find(cls, environment: MutableMapping[str, str] = os.environ) -> Predecessor | None:
        """The process that started this one to hand over to it; None if nobody did."""
        descriptors = [int(number) for number in environment.pop(VARIABLE, "").split(",") if number]
        if not descriptors:
            return None
        for descriptor in descriptors:
            if descriptor != _NONE:
                os.set_inheritable(descriptor, False)
        channel, lock, listener = [*descriptors, _NONE, _NONE][:3]
        return cls(
            socket.socket(fileno=channel),
            None if lock == _NONE else lock,
            None if listener == _NONE else socket.socket(fileno=listener),
            environment,
        )

    def await_end(self, gone: Callable[[], None]) -> None:
        """Call *gone* once it has gone, from a thread."""
        self._gone = gone
        self.start()

    def run(self) -> None:
        # Nothing but the word or its end comes: if it ends without one, somebody has to go on.
        with suppress(OSError):
            self._channel.recv(16)
        self._environment["NOTIFY_SOCKET"] = self._service_manager
        self._gone()

    def tell(self, doing: str) -> None:
        """Say what this process does, for the reason if it is never ready."""
        self._send(doing.encode()[:4096])

    def tell_ready(self) -> None:
        """Say that this process can go on alone."""
        self._send(_READY)

    def _send(self, message: bytes) -> None:
        with suppress(OSError):
            self._channel.send(message, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
