#!/usr/bin/env python3
"""The plugin on the virtual edge, against the real kubelet: how long the resource is away.

Needs root and an edge whose boards are up and set up (`make site`). Prints one JSON line for each
figure, as run.py does; the exit code is 1 if a figure misses its bar. What is measured ends when
/readyz of the plugin says that the kubelet has read the list; that the API server shows the same
number of shares again is waited for, and fails if it does not come.

Usage: on_edge.py [EDGE [BOARD]]   (default: edge rk3588-node-01)
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import Callable

RESOURCE = "rocknpu.device/npu"
PORT = 9475
REPEAT = 3
# A kubelet reports its node every ten seconds.
API_SECONDS = 60.0

_failed: list[str] = []


def report(name: str, value: float, unit: str, bar: float) -> None:
    ok = value <= bar
    line = {"name": name, "value": round(value, 3), "unit": unit, "bar": bar, "ok": ok}
    print(json.dumps(line), flush=True)
    if not ok:
        _failed.append(name)


class Board:
    """A board of the edge, in its container."""

    def __init__(self, edge: str, name: str) -> None:
        self.name = name
        self._container = f"rocknpu-{edge}-{name}"
        address = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        inspect = ["podman", "inspect", "--format", address, self._container]
        self._address = subprocess.check_output(inspect, text=True).strip()

    def run(self, command: str) -> str:
        shell = ["podman", "exec", self._container, "sh", "-ec", command]
        done = subprocess.run(shell, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{self.name}: {command}: {done.stderr.strip()}")
        return done.stdout

    def is_ready(self) -> bool:
        url = f"http://{self._address}:{PORT}/readyz"
        try:
            with urllib.request.urlopen(url, timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def allocatable(self) -> int:
        path = f"{{.status.allocatable.{RESOURCE.replace('.', chr(92) + '.')}}}"
        get = f"k3s kubectl get node {self.name} -o 'jsonpath={path}'"
        return int(self.run(get) or 0)


def wait_for(condition: Callable[[], bool], what: str, seconds: float) -> float:
    """When *condition* became true, on the monotonic clock."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.02)
    return time.monotonic()


def measure(board: Board, command: str) -> float:
    """Seconds from *command* until the kubelet has read the list of a new plugin."""
    before = board.allocatable()
    old = board.run("systemctl show --property=MainPID --value rknpu-plugin").strip()
    start = time.monotonic()
    board.run(command)
    wait_for(
        lambda: (
            board.run("systemctl show --property=MainPID --value rknpu-plugin").strip()
            not in (old, "0")
        ),
        "a new plugin",
        30,
    )
    end = wait_for(board.is_ready, "the kubelet's reading", 30)
    wait_for(lambda: board.allocatable() == before, f"{before} shares in the API", API_SECONDS)
    return end - start


KILL = "systemctl kill --signal=KILL rknpu-plugin"
# As the role does it: another directory, then the link, then a restart.
SWITCH = """
cd /opt/rknpu-plugin
ln -s {release} next && mv -T next current
systemctl restart rknpu-plugin
"""


def main() -> int:
    edge, name = ([*sys.argv[1:3], "", ""])[:2]
    board = Board(edge or "edge", name or "rk3588-node-01")
    wait_for(board.is_ready, "a plugin that is ready", 30)
    killed = sorted(measure(board, KILL) for _ in range(REPEAT))
    report("plugin killed to list read, median of 3", killed[REPEAT // 2], "s", 3)
    release = board.run("readlink /opt/rknpu-plugin/current").strip()
    board.run(f"cd /opt/rknpu-plugin && cp -a {release} bench-copy")
    try:
        upgrade = measure(board, SWITCH.format(release="bench-copy"))
    finally:
        downgrade = measure(board, SWITCH.format(release=release))
        board.run("rm -r /opt/rknpu-plugin/bench-copy")
    report("plugin replaced by another release to list read", max(upgrade, downgrade), "s", 3)
    return 1 if _failed else 0


if __name__ == "__main__":
    sys.exit(main())
