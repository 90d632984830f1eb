"""Control groups of the machine, and what an edge leaves behind in them."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")


def unified() -> bool:
    """Whether this machine has cgroup v2 only, where each board gets a namespace of its own."""
    return (_ROOT / "cgroup.controllers").exists()


def hierarchies(mounts: str) -> list[str]:
    """Where the hierarchies of cgroup v1 are mounted, from the text of /proc/mounts."""
    fields = [line.split() for line in mounts.splitlines()]
    return [
        entry[1]
        for entry in fields
        if entry[2] in ("cgroup", "cgroup2") and _ROOT in Path(entry[1]).parents
    ]


def remove(name: str, root: Path = _ROOT) -> list[Path]:
    """Remove a top cgroup and all below it, in every hierarchy.

    Returns what could not be removed, because something still runs in it.
    """
    tops = [root / name, *(entry / name for entry in root.iterdir() if entry.is_dir())]
    left = []
    for top in tops:
        # A killed container's processes may take a moment to leave.
        for _ in range(20):
            for directory, _subdirectories, _files in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    Path(directory).rmdir()
            if not top.exists():
                break
            time.sleep(0.1)
        else:
            left.append(top)
    return left
