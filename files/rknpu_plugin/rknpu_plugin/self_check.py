# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the plugin works: its threads turn, and its socket answers as the kubelet sees it."""

from __future__ import annotations

import threading
import time
from typing import Callable

import grpc

from .api import deviceplugin_pb2 as api
from .health import HealthWatch
from .log import log
from .rpc import describe, open_channel
from .service import SERVICE
from .supervisor import Supervisor
from .systemd import Status, notify
from .watch import Wakeup

# While k3s starts on a small board, everything else has to wait for seconds.
ANSWER_SECONDS = 5.0
# Turns are a second apart; a busy board may be late, a stuck thread is later.
STUCK_SECONDS = 15.0


class SelfCheck:
    """The check behind /healthz, /readyz and the watchdog."""

    def __init__(self, supervisor: Supervisor, health: HealthWatch) -> None:
        self._supervisor = supervisor
        self._health = health

    def find_problem(self) -> str | None:
        """Why the plugin is broken; None if it works, also while it waits for a kubelet."""
        now = time.monotonic()
        if now - self._supervisor.last_turn > STUCK_SECONDS:
            return "the registration loop is stuck"
        if now - self._health.last_look > STUCK_SECONDS:
            return "the health watch is stuck"
        endpoint = self._supervisor.endpoint
        if endpoint is None or not endpoint.is_serving:
            return None
        problem = call_endpoint(endpoint.path)
        # An endpoint that was replaced meanwhile had reason not to answer.
        return problem if self._supervisor.endpoint is endpoint and endpoint.is_there() else None

    def find_unreadiness(self) -> str | None:
        """Why containers cannot be given shares yet; None once the kubelet has read the list."""
        endpoint = self._supervisor.endpoint
        if endpoint is None or not endpoint.service.list_was_read:
            return "the kubelet has not read the list of shares"
        return None


def call_endpoint(path: str) -> str | None:
    """Ask the plugin behind the socket *path* for its options; returns what failed."""
    try:
        with open_channel(path) as channel:
            call = channel.unary_unary(
                f"/{SERVICE}/GetDevicePluginOptions",
                request_serializer=api.Empty.SerializeToString,
                response_deserializer=api.DevicePluginOptions.FromString,
            )
            call(api.Empty(), timeout=ANSWER_SECONDS)
    except grpc.RpcError as error:
        return f"{path} does not answer: {describe(error)}"
    return None


class Watchdog(threading.Thread):
    """Feeds systemd's watchdog as long as the check holds.

    Args:
        seconds: the unit's WatchdogSec=.
        find_problem: the check.
        status: told about the result.
    """

    def __init__(
        self, seconds: float, find_problem: Callable[[], str | None], status: Status
    ) -> None:
        super().__init__(name="watchdog", daemon=True)
        self._seconds = seconds
        self._find_problem = find_problem
        self._status = status
        self._stopping = False
        self._wakeup = Wakeup()

    def run(self) -> None:
        while not self._stopping:
            problem = self._find_problem()
            if problem is None:
                notify("WATCHDOG=1")
            if self._status.judge(problem):
                if problem is None:
                    log.info("the plugin works again")
                else:
                    log.warning("the plugin does not work", reason=problem)
            self._wakeup.wait(self._seconds / 3)

    def stop(self) -> None:
        self._stopping = True
        self._wakeup.wake()
        self.join()
        self._wakeup.close()
