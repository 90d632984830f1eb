"""A service manager that listens, as systemd does for units of Type=notify."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Iterator


@contextmanager
def service_manager(work: Path) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yields the path of its socket and a function that returns the next message."""
    path = work / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(path))
        server.settimeout(30)
        yield str(path), lambda: server.recv(4096).decode()


def receive_until(receive: Callable[[], str], wanted: str | Callable[[str], bool]) -> list[str]:
    """Everything up to the message *wanted*, or to one that fulfils it."""
    seen: list[str] = []
    while not seen or not (wanted(seen[-1]) if callable(wanted) else wanted == seen[-1]):
        seen.append(receive())
    return seen
