#!/usr/bin/env python3
"""The plugin on the virtual edge, against the real kubelet: how long the resource is away.

Needs root and an edge whose boards are up and set up (`make site`). Prints one JSON line for each
figure, as run.py does; the exit code is 1 if a figure misses its bar. What can be allocated is
asked of the kubelet itself, every few milliseconds: its report to the API server comes seconds
later and would hide what is short.

Usage: on_edge.py [EDGE [BOARD]]   (default: edge rk3588-node-01)
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Iterator

REPEAT = 3

_failed: list[str] = []


def report(name: str, value: float, unit: str, bar: float) -> None:
    ok = value <= bar
    line = {"name": name, "value": round(value, 3), "unit": unit, "bar": bar, "ok": ok}
    print(json.dumps(line), flush=True)
    if not ok:
        _failed.append(name)


WATCH = (Path(__file__).parent / "watch_allocatable.py").read_text()
WATCHING = "/run/watch-allocatable"


class Allocatable:
    """How many shares the kubelet would give away, and since when."""

    def __init__(self, lines: Iterator[str]) -> None:
        self.history: list[tuple[float, int]] = []
        self._lines = lines
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._lines:
            moment, shares = line.split()
            self.history.append((float(moment), int(shares)))

    @property
    def now(self) -> int | None:
        return self.history[-1][1] if self.history else None

    def wait(self, wanted: Callable[[int], bool], since: float, seconds: float = 120.0) -> float:
        """When the number of shares was first as *wanted* after *since*."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for moment, shares in self.history:
                if moment > since and wanted(shares):
                    return moment
            time.sleep(0.005)
        sys.exit(f"not within {seconds:.0f} s; the shares were {self.history}")

    def lowest(self, since: float) -> int:
        before = [shares for moment, shares in self.history if moment <= since][-1:]
        return min([*before, *(shares for moment, shares in self.history if moment > since)])


class Board:
    """A board of the edge, in its container."""

    def __init__(self, edge: str, name: str) -> None:
        self._name = name
        self._container = f"rocknpu-{edge}-{name}"

    def run(self, command: str) -> str:
        shell = ["podman", "exec", self._container, "sh", "-ec", command]
        done = subprocess.run(shell, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{self._name}: {command}: {done.stderr.strip()}")
        return done.stdout.strip()

    def plugin(self) -> str:
        """The number of the plugin's main process."""
        return self.run("systemctl show --property=MainPID --value rknpu-plugin")

    @contextmanager
    def allocatable(self) -> Iterator[Allocatable]:
        self.run(f"touch {WATCHING}")
        python = ["env", "PYTHONPATH=/opt/rknpu-plugin/current", "python3", "-c", WATCH, WATCHING]
        command = ["podman", "exec", self._container, *python]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            allocatable = Allocatable(process.stdout)
            allocatable.wait(lambda shares: shares > 0, 0.0)
            yield allocatable
        finally:
            self.run(f"rm {WATCHING}")
            process.wait()


def plugin_killed(board: Board) -> None:
    values = []
    with board.allocatable() as allocatable:
        all_shares = allocatable.now
        for _ in range(REPEAT):
            start = time.monotonic()
            board.run("systemctl kill --signal=KILL rknpu-plugin")
            lost = allocatable.wait(lambda shares: shares == 0, start)
            values.append(allocatable.wait(lambda shares: shares == all_shares, lost) - start)
            time.sleep(2)
    report("plugin killed to shares allocatable, median of 3", sorted(values)[1], "s", 3)


def plugin_upgraded(board: Board) -> None:
    """As the role does it: another directory, the link, and the word to hand over."""
    release = board.run("readlink /opt/rknpu-plugin/current")
    missing, values = [], []
    with board.allocatable() as allocatable:
        all_shares = allocatable.now
        board.run(f"cd /opt/rknpu-plugin && cp -a {release} bench-copy")
        try:
            for name in ("bench-copy", release):
                old = board.plugin()
                start = time.monotonic()
                board.run(
                    f"cd /opt/rknpu-plugin && ln -s {name} next && mv -T next current &&"
                    " systemctl kill --kill-who=main --signal=USR2 rknpu-plugin"
                )
                while board.plugin() in (old, "0"):
                    if time.monotonic() - start > 90:
                        sys.exit(board.run("journalctl --unit rknpu-plugin --lines 8 --output cat"))
                values.append(time.monotonic() - start)
                time.sleep(2)
                missing.append((all_shares or 0) - allocatable.lowest(start))
        finally:
            board.run(
                f"cd /opt/rknpu-plugin && ln -sfn {release} current && rm -rf bench-copy next"
            )
    report("plugin upgraded, shares missing at the worst moment", max(missing), "shares", 0)
    report("plugin upgraded, request to the new process alone", max(values), "s", 10)


def kubelet_restarted(board: Board) -> None:
    """From the kubelet's new socket to its reading of the list, by the board's own clock."""
    unit = board.run("systemctl list-units --plain --no-legend 'k3s*.service' | cut -d' ' -f1")
    values = []
    for _ in range(REPEAT):
        cursor = board.run("date +@%s.%N")
        board.run(f"systemctl restart {unit}")
        deadline = time.monotonic() + 120
        while True:
            lines = board.run(
                f"journalctl --unit rknpu-plugin --since {cursor} --output=short-unix --no-pager"
                " --grep 'has read the list' --quiet || true"
            ).splitlines()
            if lines or time.monotonic() > deadline:
                break
            time.sleep(0.5)
        made = float(board.run("stat --format %.Z /var/lib/kubelet/device-plugins/kubelet.sock"))
        values.append((float(lines[-1].split()[0]) - made) * 1000)
    report("kubelet.sock appears to list read, median of 3", sorted(values)[1], "ms", 1000)


def device_lost(board: Board) -> None:
    lost, back = [], []
    with board.allocatable() as allocatable:
        all_shares = allocatable.now
        for _ in range(REPEAT):
            start = time.monotonic()
            board.run("/usr/lib/virtual-board/nodes lose")
            lost.append(allocatable.wait(lambda shares: shares == 0, start) - start)
            time.sleep(1)
            start = time.monotonic()
            board.run("/usr/lib/virtual-board/nodes return")
            back.append(allocatable.wait(lambda shares: shares == all_shares, start) - start)
            time.sleep(1)
    report("device lost to no share allocatable, worst of 3", max(lost), "s", 2)
    report("device back to shares allocatable, worst of 3", max(back), "s", 2)


ROWS: list[Callable[[Board], None]] = [
    plugin_killed,
    plugin_upgraded,
    device_lost,
    kubelet_restarted,
]


def main() -> int:
    edge, name = ([*sys.argv[1:3], "", ""])[:2]
    board = Board(edge or "edge", name or "rk3588-node-01")
    for row in ROWS:
        row(board)
    return 1 if _failed else 0


if __name__ == "__main__":
    sys.exit(main())
