# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the plugin tells Prometheus.

Names follow https://prometheus.io/docs/practices/naming/. What is not known has no series; it is
never 0.
"""

from __future__ import annotations

import platform
from typing import Callable, Iterator

import google.protobuf
import grpc
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics_core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector

from . import __version__
from .board import Board
from .config import Config, plain
from .log import last_error
from .podresources import Holder
from .share_list import Snapshot

_DEVICE = "npu0"


class Metrics:
    """Counters of events; other modules count on them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.allocations = self._counter(
            "rknpu_plugin_allocations", "Containers that were given shares."
        )
        self.allocation_failures = Counter(
            "rknpu_plugin_allocation_failures",
            "Requests for shares that were refused, by reason.",
            ["reason"],
            registry=self.registry,
        )
        for reason in ("unknown_share", "too_many_shares", "no_device"):
            self.allocation_failures.labels(reason)
        self.allocation_seconds = Histogram(
            "rknpu_plugin_allocation_duration_seconds",
            "Time to answer an allocation.",
            buckets=(0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.1),
            registry=self.registry,
        )
        self.registrations = self._counter(
            "rknpu_plugin_registrations", "Registrations that the kubelet accepted."
        )
        self.registration_failures = self._counter(
            "rknpu_plugin_registration_failures", "Attempts to register that failed."
        )
        self.list_updates = self._counter(
            "rknpu_plugin_list_updates", "Lists of shares that were sent to the kubelet."
        )
        self.reload_successful = Gauge(
            "rknpu_plugin_config_last_reload_successful",
            "Whether the latest reading of the configuration succeeded.",
            registry=self.registry,
        )
        self.reload_successful.set(1)
        self.handover_failures = self._counter(
            "rknpu_plugin_handover_failures",
            "Attempts to hand over to another process that failed, so that this one went on.",
        )
        ProcessCollector(registry=self.registry)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(name, text, registry=self.registry)


class StateCollector:
    """Reads the state of the plugin when Prometheus asks.

    Args:
        config: returns the configuration in force.
        board: returns the board as last read in full.
        shares: returns what is offered.
        kubelet_connected: whether the kubelet has read the list and keeps it open.
        holders: asks the kubelet who holds shares; None if it does not say.
    """

    def __init__(
        self,
        config: Callable[[], Config],
        board: Callable[[], Board],
        shares: Callable[[], Snapshot],
        kubelet_connected: Callable[[], bool],
        holders: Callable[[], list[Holder] | None],
    ) -> None:
        self._config = config
        self._board = board
        self._shares = shares
        self._kubelet_connected = kubelet_connected
        self._holders = holders

    def describe(self) -> Iterator[Metric]:
        """Nothing: without it, registering would collect, and so call the kubelet."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        yield from self._shares_by_state()
        yield from self._infos()
        yield _gauge(
            "rknpu_plugin_kubelet_connected",
            "Whether the kubelet has read the list of shares and keeps it open.",
            self._kubelet_connected(),
        )
        error = last_error()
        if error is not None:
            family = GaugeMetricFamily(
                "rknpu_plugin_last_error_timestamp_seconds",
                "When the latest warning or error was logged, and what it said.",
                labels=["message"],
            )
            family.add_metric([error.message[:200]], error.time)
            yield family

    def _shares_by_state(self) -> Iterator[Metric]:
        _, shares, healthy = self._shares()
        health = GaugeMetricFamily(
            "rknpu_device_healthy", "Whether the NPU can be used.", labels=["device"]
        )
        health.add_metric([_DEVICE], float(healthy))
        yield health
        family = GaugeMetricFamily(
            "rknpu_shares",
            "Shares of the NPU: advertised to the kubelet, withheld because the NPU is unhealthy, "
            "allocated to containers.",
            labels=["state"],
        )
        family.add_metric(["advertised"], len(shares))
        family.add_metric(["withheld"], 0 if healthy else len(shares))
        holders = self._holders()
        if holders is not None:
            family.add_metric(["allocated"], len({holder.share for holder in holders}))
        yield family
        if holders is not None:
            holding = GaugeMetricFamily(
                "rknpu_container_share",
                "A share that a container holds.",
                labels=["namespace", "pod", "container", "share"],
            )
            for holder in holders:
                holding.add_metric(list(holder), 1)
            yield holding

    def _infos(self) -> Iterator[Metric]:
        yield _info(
            "rknpu_plugin_build",
            "Versions of the plugin and of what it runs on.",
            {
                "version": __version__,
                "python": platform.python_version(),
                "grpc": str(grpc.__version__),
                "protobuf": google.protobuf.__version__,
            },
        )
        values = plain(self._config())
        yield _info(
            "rknpu_plugin_config",
            "The configuration in force; empty means the default of the board.",
            {name: _label(value) for name, value in values.items()},
        )
        board = self._board()
        yield _info(
            "rknpu_driver",
            "The NPU's driver.",
            {
                "driver": board.driver,
                "version": board.driver_version or "",
                "mode": board.mode,
                "soc": board.soc or "",
                "cores": _label(board.cores),
            },
        )


def _label(value: object) -> str:
    if value is None:
        return ""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _gauge(name: str, text: str, value: bool) -> Metric:
    return GaugeMetricFamily(name, text, value=float(value))


def _info(name: str, text: str, labels: dict[str, str]) -> Metric:
    return InfoMetricFamily(name, text, value=labels)
