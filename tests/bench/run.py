#!/usr/bin/env python3
"""Measure the device plugin and hold it against its bars.

Prints one JSON line for each figure: name, value, unit, bar, ok. The exit code is 1 if a figure
misses its bar. The plugin runs as a process of its own, on a board in a directory and against a
kubelet that behaves as Kubernetes does (tests/unit/plugin/kubelet_stub.py). Needs no root.

Usage: run.py [WORD ...]   only groups of figures whose name contains one of the words
"""

from __future__ import annotations

import json
import shutil
import signal
import socket
import statistics
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Iterator

sys.path[:0] = [
    str(Path(__file__).parents[1]),
    str(Path(__file__).parents[2] / "files/rknpu_plugin"),
]

from unit.plugin.board_tree import BoardTree  # noqa: E402
from unit.plugin.kubelet_stub import KubeletStub  # noqa: E402
from unit.plugin.plugin_process import PluginProcess  # noqa: E402

_failed = []


def report(name: str, value: float, unit: str, bar: float) -> None:
    ok = value <= bar
    line = {"name": name, "value": round(value, 3), "unit": unit, "bar": bar, "ok": ok}
    print(json.dumps(line), flush=True)
    if not ok:
        _failed.append(name)


class Bench:
    """A fresh board and a kubelet, in a directory whose sockets' paths are short enough."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.board = BoardTree(work / "board")
        self.board.add_heaps("system", "cma")
        (work / "kubelet").mkdir()
        self.kubelet = KubeletStub(work / "kubelet")


@contextmanager
def bench() -> Iterator[Bench]:
    work = Path(tempfile.mkdtemp(prefix="rk"))
    try:
        made = Bench(work)
        with made.kubelet:
            yield made
    finally:
        shutil.rmtree(work)


def milliseconds(start: float, end: float) -> float:
    return (end - start) * 1000


def kubelet_appears() -> None:
    values = []
    for _ in range(7):
        with bench() as b, PluginProcess(b.work) as plugin:
            plugin.wait_log("waiting for the kubelet")
            time.sleep(0.5)
            b.kubelet.start()
            client = b.kubelet.wait_client()
            values.append(milliseconds(b.kubelet.started, client.registered))
    report("kubelet.sock appears to registered", statistics.median(values), "ms", 50)


def process_start() -> None:
    values = []
    with bench() as b:
        b.kubelet.start()
        for number in range(1, 8):
            start = time.monotonic()
            with PluginProcess(b.work):
                client = b.kubelet.wait_client(number)
                values.append(milliseconds(start, client.registered))
    report("process start to registered", statistics.median(values), "ms", 500)


def recovery() -> None:
    with bench() as b, PluginProcess(b.work):
        b.kubelet.start()
        client = b.kubelet.wait_client(1)
        values = []
        for number in range(2, 12):
            start = time.monotonic()
            (b.kubelet.directory / client.endpoint).unlink()
            client = b.kubelet.wait_client(number)
            values.append(milliseconds(start, client.registered))
        report("own socket deleted to registered", statistics.median(values), "ms", 1000)
        values = []
        for number in range(12, 22):
            start = time.monotonic()
            b.kubelet.end_streams([client])
            client = b.kubelet.wait_client(number)
            values.append(milliseconds(start, client.registered))
        report("stream ended to registered", statistics.median(values), "ms", 1000)


def device() -> None:
    lost, back = [], []
    with bench() as b, PluginProcess(b.work, shares=2):
        b.kubelet.start()
        b.kubelet.wait_client()
        for turn in range(5):
            time.sleep(0.2 * turn)
            start = time.monotonic()
            b.board.remove_nodes("renderD129")
            b.kubelet.wait(lambda: b.kubelet.allocatable == 0, what="Unhealthy")
            lost.append(time.monotonic() - start)
            time.sleep(0.2 * turn)
            start = time.monotonic()
            b.board.make_nodes("renderD129")
            b.kubelet.wait(lambda: b.kubelet.allocatable == 2, what="Healthy")
            back.append(time.monotonic() - start)
    # The worst, not the median: the bar is a promise.
    report("device lost to Unhealthy sent, worst of 5", max(lost), "s", 2)
    report("device back to Healthy sent, worst of 5", max(back), "s", 2)


def restarts_and_allocations() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}/metrics"
    with bench() as b, PluginProcess(b.work, shares=4, listen=f"127.0.0.1:{port}") as plugin:
        b.kubelet.start()
        b.kubelet.wait_client(1)
        scrape(url)
        for number in range(2, 12):
            b.kubelet.restart()
            b.kubelet.wait_client(number)
        time.sleep(1)
        threads, descriptors = plugin.threads, plugin.descriptors
        values = []
        for number in range(12, 112):
            b.kubelet.restart()
            client = b.kubelet.wait_client(number)
            values.append(milliseconds(b.kubelet.started, client.listings[0].time))
        report("kubelet restart to list read", statistics.median(values), "ms", 60)
        for _ in range(1000):
            b.kubelet.allocate(["npu0-share-1"])
        scrape(url)
        time.sleep(1)
        report("memory after 100 restarts and 1000 allocations", plugin.rss_mib, "MiB", 45)
        # The answering pool starts threads as calls need them; restarts empty it.
        b.kubelet.restart()
        b.kubelet.wait_client(112)
        time.sleep(1)
        report("threads leaked in 100 restarts", max(plugin.threads - threads, 0), "threads", 0)
        leaked = max(plugin.descriptors - descriptors, 0)
        report("descriptors leaked in 100 restarts", leaked, "descriptors", 0)


def scrape(url: str) -> None:
    with urllib.request.urlopen(url) as answer:
        assert b"rknpu_shares" in answer.read()


def allocate() -> None:
    with bench() as b, PluginProcess(b.work, shares=4):
        b.kubelet.start()
        b.kubelet.wait_client()
        for _ in range(200):
            b.kubelet.allocate(["npu0-share-1"])
        values = []
        for _ in range(3000):
            start = time.perf_counter()
            b.kubelet.allocate(["npu0-share-1"])
            values.append(milliseconds(start, time.perf_counter()))
    values.sort()
    report("Allocate, median of 3000", values[1500], "ms", 0.8)
    report("Allocate, 99th percentile of 3000", values[2970], "ms", 4)


def idle() -> None:
    with bench() as b, PluginProcess(b.work, listen="127.0.0.1:19476") as plugin:
        b.kubelet.start()
        b.kubelet.wait_client()
        time.sleep(2)
        start, used = time.monotonic(), plugin.cpu_seconds
        time.sleep(60)
        share = (plugin.cpu_seconds - used) / (time.monotonic() - start)
    report("idle CPU over 60 s", share * 100, "% of a core", 0.3)


def long_list() -> None:
    values = []
    with bench() as b:
        file = b.work / "config.yaml"
        file.write_text("shares: 100\n")
        with PluginProcess(b.work, config=file) as plugin:
            b.kubelet.start()
            b.kubelet.wait_client()
            for count in (99, 100) * 8:
                file.write_text(f"shares: {count}\n")
                start = time.monotonic()
                plugin.signal(signal.SIGHUP)
                b.kubelet.wait(lambda count=count: len(b.kubelet.devices) == count, what=str(count))
                values.append(milliseconds(start, b.kubelet.clients[-1].listings[-1].time))
    report("list of 100 shares, change to sent", statistics.median(values), "ms", 20)


GROUPS: list[Callable[[], None]] = [
    kubelet_appears,
    process_start,
    recovery,
    device,
    restarts_and_allocations,
    allocate,
    long_list,
    idle,
]


def main() -> int:
    words = sys.argv[1:]
    # The first gRPC server of a process is slow; that is the kubelet's time, not the plugin's.
    with bench() as warm:
        warm.kubelet.start()
    for group in GROUPS:
        if not words or any(word in group.__name__ for word in words):
            group()
    return 1 if _failed else 0


if __name__ == "__main__":
    sys.exit(main())
