# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeps the plugin registered: the loop around kubelets that come, restart and go."""

from __future__ import annotations

import time
from typing import Callable

from .endpoint import Endpoint, EndpointError, remove_stale_sockets
from .kubelet import Identity, Registration, find_identity, find_obstacle, socket_path
from .lock import InstanceLock, LockError
from .log import log
from .metrics import Metrics
from .rpc import warm_up
from .service import DevicePluginService
from .watch import DirectoryWatch, Wakeup

# How often everything is looked at although nothing seems to have happened.
LOOK_SECONDS = 2.0
# A kubelet opens the list right after the registration, and a stream that ends because the kubelet
# stops is followed by its socket's end: both get a moment before the plugin registers again.
OPEN_SECONDS = 5.0
REOPEN_SECONDS = 0.2
FIRST_RETRY_SECONDS = 0.01
LAST_RETRY_SECONDS = 5.0


class Supervisor:
    """Serves and registers until stop().

    The order on every change is fixed: stop the old server and wait, serve a new socket, register.

    Args:
        directory: the kubelet's device-plugin directory.
        resource: what is offered.
        make_service: makes the answering side of one registration, given what to call when lists
            are opened, read or left.
        registered: called after each accepted registration.
        settled: called when the kubelet has read the list, and when there is none to wait for.
        status: told in one sentence what the plugin is doing, on change.
        lock: the right to do all this.
        beside: whether another process of this plugin serves the resource still, and will go.
    """

    def __init__(
        self,
        directory: str,
        resource: str,
        make_service: Callable[[Callable[[], None]], DevicePluginService],
        metrics: Metrics,
        registered: Callable[[], None],
        settled: Callable[[], None],
        status: Callable[[str], None],
        lock: InstanceLock,
        beside: bool = False,
    ) -> None:
        self._directory = directory
        self._resource = resource
        self._make_service = make_service
        self._metrics = metrics
        self._registered = registered
        self._settled = settled
        self._status = status
        self._wakeup = Wakeup()
        self._watch = DirectoryWatch(directory, self._wakeup)
        self.lock = lock
        self._shared = beside
        self._is_swept = False
        # Its end may end this one's list, and then nothing else is to be waited for.
        self._reopen_seconds = 0.0 if beside else REOPEN_SECONDS
        self._endpoint: Endpoint | None = None
        self._stopping = False
        self._retry_seconds = FIRST_RETRY_SECONDS
        self._told = ""
        self.last_turn = time.monotonic()

    @property
    def endpoint(self) -> Endpoint | None:
        """What is being served now, if anything."""
        return self._endpoint

    def stop(self) -> None:
        """Make run() return; may be called from any thread."""
        self._stopping = True
        self._wakeup.wake()

    @property
    def shared(self) -> bool:
        """Whether the lock's file and the sockets are another process's too, see handover.py."""
        return self._shared

    @shared.setter
    def shared(self, shared: bool) -> None:
        self._shared = shared
        self._is_swept = False
        self._wakeup.wake()

    def run(self) -> None:
        """Serve until stop().

        Raises:
            HeldError: another instance serves this resource on this board.
        """
        identity: Identity | None = None
        try:
            while not self._stopping:
                found = self._wait_for_kubelet()
                if found is None:
                    break
                if found != identity:
                    identity = found
                    self._retry_seconds = FIRST_RETRY_SECONDS
                problem = self._serve(identity)
                if problem is not None:
                    self._metrics.registration_failures.inc()
                    self._tell(problem)
                self._pause(identity)
        finally:
            self._stop_endpoint()
            self._sweep()
            self.lock.release(keep_file=self.shared)
            self._watch.close()
            self._wakeup.close()

    def _wait(self, seconds: float) -> None:
        self.last_turn = time.monotonic()
        self._watch.wait(min(max(seconds, 0.0), LOOK_SECONDS))

    def _wait_for_kubelet(self) -> Identity | None:
        if find_identity(self._directory) is None:
            # The first registration is the one that pods wait for after a boot.
            warm_up()
        while not self._stopping:
            identity = find_identity(self._directory)
            if identity is not None:
                return identity
            self._tell_waiting()
            self._wait(LOOK_SECONDS)
        return None

    def _tell_waiting(self) -> None:
        obstacle = find_obstacle(self._directory)
        waiting = f"waiting for {socket_path(self._directory)}"
        if self._told == (obstacle or waiting):
            return
        if obstacle is not None:
            self._tell(obstacle)
        else:
            self._told = waiting
            self._status(waiting)
            log.info("waiting for the kubelet", socket=socket_path(self._directory))
        self._settled()

    def _serve(self, identity: Identity) -> str | None:
        """Serve, register and stay until that has to be done again; returns what failed."""
        try:
            self.lock.acquire()
            self._is_swept = False
            self._sweep()
            service = self._make_service(self._wakeup.wake)
            self._endpoint = Endpoint(self._directory, self._resource, service)
            self._endpoint.start()
            problem = self._register(self._endpoint, identity)
            if problem is None and not self._stopping:
                self._stay(self._endpoint, identity)
        except (EndpointError, LockError) as error:
            problem = str(error)
        finally:
            self._stop_endpoint()
        return problem

    def _register(self, endpoint: Endpoint, identity: Identity) -> str | None:
        registration = Registration(
            self._directory, endpoint.name, self._resource, self._wakeup.wake
        )
        try:
            while not registration.is_done:
                if self._stopping:
                    return None
                if find_identity(self._directory) not in (identity, None):
                    return "the kubelet was replaced while the plugin registered"
                self._wait(LOOK_SECONDS)
            problem = registration.find_problem()
        finally:
            registration.close()
        if problem is None:
            self._metrics.registrations.inc()
            self._told = ""
            self._status("registered with the kubelet")
            log.info("registered with the kubelet", socket=endpoint.path)
            self._registered()
        return problem

    def _stay(self, endpoint: Endpoint, identity: Identity) -> None:
        """Return when the plugin has to register again, and log why."""
        service = endpoint.service
        was_read = was_left = False
        deadline = time.monotonic() + OPEN_SECONDS
        while not self._stopping:
            self._sweep(endpoint.name)
            if find_identity(self._directory) not in (identity, None):
                log.info("the kubelet was restarted")
                return
            if not endpoint.is_there():
                log.info("the plugin's socket was removed", socket=endpoint.path)
                return
            now = time.monotonic()
            if service.list_was_read:
                if not was_read:
                    self._retry_seconds = FIRST_RETRY_SECONDS
                    log.info("the kubelet has read the list")
                    self._settled()
                was_read, was_left = True, False
                self._wait(LOOK_SECONDS)
                continue
            if service.list_was_left and not was_left:
                was_left = True
                deadline = now + self._reopen_seconds
                self._reopen_seconds = REOPEN_SECONDS
            if now >= deadline:
                log.warning("the kubelet does not read the list", socket=endpoint.path)
                return
            self._wait(deadline - now)

    def _sweep(self, own: str = "") -> None:
        """Remove the sockets of processes that were killed, once this one is alone."""
        if not (self.shared or self._is_swept) and self.lock.is_held:
            self._is_swept = True
            remove_stale_sockets(self._directory, self._resource, own)

    def _pause(self, identity: Identity) -> None:
        """Wait before the next attempt, longer each time, unless there is another kubelet."""
        deadline = time.monotonic() + self._retry_seconds
        self._retry_seconds = min(self._retry_seconds * 2, LAST_RETRY_SECONDS)
        while not self._stopping and find_identity(self._directory) == identity:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            self._wait(left)

    def _tell(self, problem: str) -> None:
        """Log a failure once, not at each attempt."""
        if problem != self._told:
            self._told = problem
            self._status(problem)
            log.warning("the plugin is not registered", reason=problem)

    def _stop_endpoint(self) -> None:
        endpoint, self._endpoint = self._endpoint, None
        if endpoint is not None:
            endpoint.stop()
