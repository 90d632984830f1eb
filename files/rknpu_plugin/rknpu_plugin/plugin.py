# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The running plugin: its parts, and how they are wired."""

from __future__ import annotations

from typing import Callable

from .allocation import Allocator
from .board import Board, read_board
from .board_files import is_char_device
from .config import KEYS, Config
from .config_sources import ConfigError, LoadedConfig
from .device import Device
from .health import HealthWatch
from .inventory import Inventory
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
    """

    def __init__(
        self,
        loaded: LoadedConfig,
        reload: Callable[[], LoadedConfig],
        char_device: Callable[[str], bool] = is_char_device,
    ) -> None:
        self.config = loaded.config
        self._reload = reload
        self._char_device = char_device
        self.metrics = Metrics()
        self._status = Status()
        self.shares = ShareList()
        self._device = Device(self.config.host_root, char_device)
        self.inventory = Inventory(self._get_config, self._read_board, self._holders, self.shares)
        self._allocator = Allocator(self._get_config, self._device, lambda: self.inventory.cores)
        self.health = HealthWatch(self._device.look, self._health_changed)
        self.supervisor = Supervisor(
            self.config.kubelet_dir,
            self.config.resource,
            self._make_service,
            self.metrics,
            registered=self.inventory.update,
            status=self._status.tell,
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
        # The list is complete before anything is served, and the service manager hears when it is.
        self.health.look_once()
        self.inventory.update()
        self._log_missing_paths()
        threads = self._start_threads()
        notify("READY=1")
        try:
            self.supervisor.run()
        finally:
            notify("STOPPING=1")
            for thread in threads:
                thread.stop()

    def _start_threads(self) -> list[HealthWatch | WebServer | Watchdog]:
        threads: list[HealthWatch | WebServer | Watchdog] = [self.health]
        if self.config.listen is not None:
            threads.append(
                WebServer(
                    self.config.listen,
                    self.metrics.registry,
                    self.check.find_problem,
                    self.check.find_unreadiness,
                )
            )
        seconds = watchdog_seconds()
        if seconds is not None:
            threads.append(Watchdog(seconds, self.check.find_problem, self._status))
        for thread in threads:
            thread.start()
        return threads

    def stop(self) -> None:
        """Make run() return; may be called from any thread."""
        self.supervisor.stop()

    def reload(self) -> None:
        """Read the configuration again and put it in force; a broken one changes nothing."""
        try:
            config = self._reload().config
            _refuse_restart_keys(self.config, config)
        except ConfigError as error:
            self.metrics.reload_successful.set(0)
            for problem in error.problems:
                log.error("the configuration was not reloaded", reason=problem)
            return
        self.metrics.reload_successful.set(1)
        changed = [
            key.name for key in KEYS if getattr(config, key.name) != getattr(self.config, key.name)
        ]
        self.config = config
        set_up_logging(config.log_format, config.log_level, config.resource)
        log.info("the configuration was reloaded", changed=",".join(changed) or "nothing")
        self.inventory.update()
        self._log_missing_paths()

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


def _refuse_restart_keys(old: Config, new: Config) -> None:
    problems = [
        f"{key.name}: cannot change while the plugin runs, restart it."
        for key in KEYS
        if not key.reloadable and getattr(old, key.name) != getattr(new, key.name)
    ]
    if problems:
        raise ConfigError(problems)
