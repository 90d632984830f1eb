"""Running other programs."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from virtual_edge.errors import EdgeError


def run(
    command: Sequence[str], *, timeout: float = 120, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program and return its result, whatever its exit code; its output is text.

    Args:
        command: the program and its arguments.
        timeout: seconds until it is given up.
        stdin: text for its standard input, which is empty otherwise.

    Raises:
        EdgeError: the program is not there, or it took longer than *timeout*.
    """
    # Not DEVNULL together with input: subprocess takes one of the two.
    source = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, check=False, **source
        )
    except FileNotFoundError:
        raise EdgeError(f"The program {command[0]} is missing: install it and run again.") from None
    except subprocess.TimeoutExpired:
        shown = " ".join(command[:4])
        raise EdgeError(
            f"`{shown} ...` did not end within {timeout:.0f} s: look at the load of this machine "
            "and run again."
        ) from None


def require(command: Sequence[str], *, timeout: float = 120, stdin: str | None = None) -> str:
    """Run a program that must succeed and return its standard output.

    Raises:
        EdgeError: with the last lines of what the program said.
    """
    result = run(command, timeout=timeout, stdin=stdin)
    if result.returncode:
        said = " | ".join((result.stderr or result.stdout).strip().splitlines()[-3:])
        raise EdgeError(f"`{' '.join(command[:4])} ...` failed ({result.returncode}): {said}")
    return result.stdout
