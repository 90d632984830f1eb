"""A Debian in an archive, made by mmdebstrap."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from virtual_edge.errors import EdgeError
from virtual_edge.progress import say

SUITE = "bookworm"


def bootstrap(what: str, archive: Path, options: Sequence[str]) -> None:
    """Make a Debian, which takes minutes; the archive appears whole or not at all.

    Args:
        what: it is for, such as "the board image".
        options: of mmdebstrap.

    Raises:
        EdgeError: mmdebstrap failed, with what it said last.
    """
    say(f"building {what} from Debian {SUITE} packages (1 to 3 minutes, once) ...")
    started = time.monotonic()
    scratch = archive.with_suffix(".tmp")
    command = ["mmdebstrap", *options, "--format=tar", SUITE, str(scratch)]
    said: list[str] = []
    try:
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                said = [*said[-4:], line.strip()]
                if line.startswith("I: ") and line.rstrip().endswith("..."):
                    say(f"  {line[len('I: ') :].strip()}")
        if process.returncode:
            raise EdgeError(
                f"mmdebstrap could not build {what}: {' | '.join(said)}: look at the network and "
                "the Debian mirror, then run again."
            )
        scratch.replace(archive)
    finally:
        scratch.unlink(missing_ok=True)
    say(f"Debian for {what} built in {time.monotonic() - started:.0f} s")
