"""Waiting in tests: as short as it takes, and never for ever."""

from __future__ import annotations

import time
from typing import Any, Callable


def wait_for(condition: Callable[[], Any], seconds: float = 30.0) -> Any:
    """What *condition* returns as soon as that is true."""
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        assert time.monotonic() < deadline, f"not within {seconds} s: {condition}"
        time.sleep(0.01)
