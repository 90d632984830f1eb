"""Locks between runs of this program."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from virtual_edge.progress import say


@contextmanager
def locked(path: Path, reason: str) -> Iterator[None]:
    """Hold a lock file; wait for whoever holds it, telling why. It ends with the process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{reason}; waiting for it ...")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
