#!/usr/bin/env python3
"""How long the site takes on the virtual edge: again, with one board more, and with ten boards.

Needs root, 8 GiB of memory and an idle machine. Makes an edge of its own and removes it; what is
built once is in the cache already, or is built before the clock starts. Prints one JSON line for
each figure, as run.py does; the exit code is 1 if a figure misses its bar.

Of the ten boards eight are light: they are set up as any other, over ssh, with the same files, and
their k3s joins and is Ready, but runs no containers (tests/virtual_edge/k3s_standin/README.md).
What is compared is Ansible's time for each board, not Kubernetes'.

Usage: site.py [WORD ...]   only groups of figures whose name contains one of the words
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EDGE = ["--name=bench", "--subnet=198.18.56.0/24"]
NET = "198.18.56"
THIRD = ("rk3588", "rk3588-node-03", 13)
LIGHT = [("light", f"light-{number}", 20 + number) for number in range(1, 9)]

_failed: list[str] = []


def report(name: str, value: float, unit: str, bar: float) -> None:
    ok = value <= bar
    line = {"name": name, "value": round(value, 3), "unit": unit, "bar": bar, "ok": ok}
    print(json.dumps(line), flush=True)
    if not ok:
        _failed.append(name)


def edge(command: str, boards: list[tuple[str, str, int]]) -> None:
    extra = [f"--extra={model}={name}:{host}" for model, name, host in boards]
    subprocess.run(
        [sys.executable, "-m", "virtual_edge", command, *EDGE, *extra],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        check=True,
        stdout=sys.stderr,
    )


def inventory(directory: Path, boards: list[tuple[str, str, int]]) -> list[str]:
    """The two boards of inventory/virtual, and these."""
    hosts = {
        name: {"ansible_host": f"{NET}.{host}", "k3s_node_ip": f"{NET}.{host}"}
        for _, name, host in boards
    }
    file = directory / f"{len(boards)}.json"
    groups = {"k3s_cluster": {"children": {"k3s_agent": {"hosts": hosts}}}}
    file.write_text(json.dumps(groups), encoding="utf-8")
    return ["-i", str(ROOT / "inventory" / "virtual"), "-i", str(file)]


def site(*arguments: str) -> float:
    """Run the site; returns its seconds."""
    start = time.monotonic()
    done = subprocess.run(
        ["ansible-playbook", *arguments, "site.yml"],
        cwd=ROOT,
        env={
            **os.environ,
            "ROCKNPU_EDGE": "bench",
            "ROCKNPU_EDGE_NET": NET,
            "ANSIBLE_NOCOLOR": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{done.stdout[-4000:]}{done.stderr}")
    return time.monotonic() - start


def three_boards(work: Path) -> None:
    """Two boards that are set up; the third is fresh; then everything once more."""
    edge("down", [])
    edge("up", [THIRD])
    hosts = inventory(work, [THIRD])
    site(*hosts, f"--limit=!{THIRD[1]}")
    report("fresh third board, --limit", site(*hosts, f"--limit={THIRD[1]}"), "s", 60)
    report("second run over three boards", min(site(*hosts) for _ in range(2)), "s", 25)


def ten_boards(work: Path) -> None:
    """The time for each board falls as there are more."""
    hosts = {2: inventory(work, []), 10: inventory(work, LIGHT)}
    fresh, again = {}, {}
    for count, arguments in hosts.items():
        edge("down", [])
        edge("up", LIGHT)
        fresh[count] = site(*arguments) / count
        again[count] = min(site(*arguments) for _ in range(2)) / count
    report("fresh boards, time of one among ten (bar: among two)", fresh[10], "s", fresh[2])
    report("second run, time of one among ten (bar: among two)", again[10], "s", again[2])


def main() -> int:
    words = sys.argv[1:]
    edge("build", [])
    with tempfile.TemporaryDirectory() as directory:
        try:
            for group in (three_boards, ten_boards):
                if not words or any(word in group.__name__ for word in words):
                    group(Path(directory))
        finally:
            edge("down", [])
    return 1 if _failed else 0


if __name__ == "__main__":
    sys.exit(main())
