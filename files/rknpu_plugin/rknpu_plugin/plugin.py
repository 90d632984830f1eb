# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The running plugin: its parts, and how they are wired."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from typing import Callable

from .allocation import Allocator
from .board import Board, read_board
from .board_files import is_char_device
from .config import KEYS, Address, Config
from .config_sources import ConfigError, LoadedConfig
from .device import Device
from .handover import Handover, Predecessor
from .health import HealthWatch
from .inventory import Inventory
from .lock import InstanceLock, LockError
from .log import log, set_up_logging
from .metrics import Metrics, StateCollector
from .podresources import Holder, list_holders
from .self_check import SelfCheck, Watchdog
from .service import DevicePluginService
from .share_list import ShareList
from .supervisor import Supervisor
from .systemd import Status, notify, watchdog_seconds
from .web import WebServer


class Plugin:
    """Everything that `serve` runs.

    Args:
        loaded: the configuration to start with.
        reload: reads the configuration again; raises ConfigError.
        char_device: the check for a character device; tests replace it.
        predecessor: the process that hands over to this one, if one does.
        listener: systemd's socket for metrics and health, if there is one.
    """

    def __init__(
        self,
        loaded: LoadedConfig,
        reload: Callable[[], LoadedConfig],
        char_device: Callable[[str], bool] = is_char_device,
        predecessor: Predecessor | None = None,
        listener: socket.socket | None = None,
    ) -> None:
        self.config = loaded.config
        self._reload = reload
        self._reloading = threading.Lock()
        self._char_device = char_device
        self._predecessor = predecessor
        self._listener = listener
        self._handover: Handover | None = None
        self._threads: list[HealthWatch | WebServer | Watchdog] = []
        self.metrics = Metrics()
        self._status = Status(predecessor.tell if predecessor else None)
        self.shares = ShareList()
        self._device = Device(self.config.host_root, char_device)
        self.inventory = Inventory(self._get_config, self._read_board, self._holders, self.shares)
        self._allocator = Allocator(self._get_config, self._device, lambda: self.inventory.cores)
        self.health = HealthWatch(self._device.glance, self._health_changed)
        self.supervisor = Supervisor(
            self.config.kubelet_dir,
            self.config.resource,
            self._make_service,
            self.metrics,
            registered=self.inventory.update,
            settled=self._settled,
            status=self._status.tell,
            lock=InstanceLock(
                self.config.kubelet_dir,
                self.config.resource,
                predecessor.lock if predecessor else None,
            ),
            beside=predecessor is not None,
        )
        self.check = SelfCheck(self.supervisor, self.health)
        self.metrics.registry.register(
            StateCollector(
                self._get_config,
                lambda: self.inventory.board,
                lambda: self.shares.current,
                lambda: self.check.find_unreadiness() is None,
                self._holders,
            )
        )

    def run(self) -> None:
        """Serve until stop().

        Raises:
            HeldError: another instance serves this resource on this board.
        """
        if self._predecessor is None:
            # Who comes second goes before it says that it is ready. Where the kubelet has not made
            # its directory yet, it goes when it has.
            with suppress(LockError):
                self.supervisor.lock.acquire()
        # The list is complete before anything is served, and the service manager hears when it is.
        self.health.look_once()
        self.inventory.update()
        self._log_missing_paths()
        self._start(self.health)
        seconds = watchdog_seconds()
        if seconds is not None:
            self._start(Watchdog(seconds, self.check.find_problem, self._status))
        if self._predecessor is None:
            self._start_web()
            notify("READY=1")
        else:
            self._predecessor.await_end(self._take_over)
        try:
            self.supervisor.run()
        finally:
            handover = self._handover
            if handover is None:
                notify("STOPPING=1")
            for thread in self._threads:
                thread.stop()
            if handover is not None:
                notify(f"MAINPID={handover.pid}")
                handover.let_go()
                log.info("handed over", process=handover.pid)

    def _start(self, thread: HealthWatch | WebServer | Watchdog) -> None:
        self._threads.append(thread)
        thread.start()

    def _start_web(self) -> None:
        if self.config.listen is None:
            self._drop_listener()
        else:
            self._start(
                WebServer(
                    self.config.listen,
                    self._listener,
                    self.metrics.registry,
                    self.check.find_problem,
                    self.check.find_unreadiness,
                    self._status.note,
                )
            )

    def _drop_listener(self) -> None:
        if self._listener is not None:
            log.warning(
                "systemd listens for metrics, which listen turns off: stop its socket unit",
                address=Address.of(self._listener),
            )
            self._listener.close()
            self._listener = None

    def stop(self) -> None:
        """Make run() return; may be called from any thread."""
        handover = self._handover
        if handover is not None:
            handover.cancel()
        self.supervisor.stop()

    def hand_over(self) -> None:
        """Have the release that is installed now take over, and go when it serves."""
        if os.getpid() == 1:
            log.error("there is no handover from a container's first process, replace the pod")
        elif self.supervisor.shared:
            log.warning("a handover is going on already")
        else:
            self._status.tell("handing over to another process")
            self.supervisor.shared = True
            self._handover = Handover(
                self.supervisor.lock.descriptor,
                self._listener,
                self.supervisor.stop,
                self._handover_failed,
            )
            self._handover.start()

    def _handover_failed(self, reason: str) -> None:
        self._handover = None
        self.supervisor.shared = False
        self.metrics.handover_failures.inc()
        self._status.tell(f"the handover failed, this process goes on: {reason}")
        log.error("the handover failed, this process goes on", reason=reason)

    def _settled(self) -> None:
        if self._predecessor is not None:
            self._predecessor.tell_ready()

    def _take_over(self) -> None:
        assert self._predecessor is not None
        self.supervisor.shared = False
        self.supervisor.lock.sign()
        # Lists of two processes may have crossed on their way.
        self.shares.repeat()
        notify("READY=1\nWATCHDOG=1")
        self._status.repeat()
        self._start_web()
        log.info("took over", process=self._predecessor.pid)
        # Made by the service manager when the service starts: its age tells which files are newer.
        with suppress(KeyError, OSError):
            os.utime(os.environ["RUNTIME_DIRECTORY"].split(":")[0])

    def reload(self) -> None:
        """Read the configuration again and put it in force; a broken one changes nothing."""
        # One at a time, because what was read first must not come into force last.
        with self._reloading:
            try:
                config = self._reload().config
                self._refuse_restart_keys(config)
            except ConfigError as error:
                self.metrics.reload_successful.set(0)
                for problem in error.problems:
                    log.error("the configuration was not reloaded", reason=problem)
                return
            self.metrics.reload_successful.set(1)
            changed = [
                key.name
                for key in KEYS
                if getattr(config, key.name) != getattr(self.config, key.name)
            ]
            self.config = config
            set_up_logging(config.log_format, config.log_level, config.resource)
            log.info("the configuration was reloaded", changed=",".join(changed) or "nothing")
            self.inventory.update()
            self._log_missing_paths()

    def follow(self) -> None:
        """Take over what has changed in the file, or stop where that takes a restart."""
        self.reload()
        try:
            self._refuse_restart_keys(self._reload().config)
        except ConfigError as error:
            if error.needs_restart:
                log.info("stopping, to be started anew with the changed configuration")
                self.stop()

    def _refuse_restart_keys(self, new: Config) -> None:
        problems = [
            f"{key.name}: cannot change while the plugin runs, {self._how_to_restart(key.name)}."
            for key in KEYS
            if not key.reloadable and getattr(self.config, key.name) != getattr(new, key.name)
        ]
        if problems:
            raise ConfigError(problems, needs_restart=True)

    def _how_to_restart(self, key: str) -> str:
        if key != "listen" or self._listener is None:
            return "restart it"
        return (
            f"systemd has handed over a socket on {Address.of(self._listener)}: change "
            "ListenStream= of the socket unit and restart both"
        )

    def _get_config(self) -> Config:
        return self.config

    def _read_board(self) -> Board:
        return read_board(self.config.host_root, self._char_device)

    def _holders(self) -> list[Holder] | None:
        return list_holders(self.config.kubelet_dir, self.config.resource)

    def _health_changed(self, healthy: bool) -> None:
        self.inventory.set_health(healthy)
        if not healthy:
            # Not before: most boards never need the texts.
            from .npu_problems import find_problems

            for problem in find_problems(self._read_board()):
                if problem.blocking:
                    log.warning(problem.message, code=problem.code, remedy=problem.remedy)

    def _make_service(self, streams_changed: Callable[[], None]) -> DevicePluginService:
        return DevicePluginService(
            self.shares,
            self._allocator,
            lambda: self.inventory.cores,
            self.metrics,
            streams_changed,
            self.health.look_soon,
        )

    def _log_missing_paths(self) -> None:
        for path in self._allocator.missing_paths():
            log.warning("a configured path is missing, containers go without it", path=path)
