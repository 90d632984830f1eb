"""Progress on standard error; standard output stays free for results."""

from __future__ import annotations

import sys


def say(message: str) -> None:
    """Print one line of progress at once, also into a pipe."""
    print(f"virtual edge: {message}", file=sys.stderr, flush=True)
