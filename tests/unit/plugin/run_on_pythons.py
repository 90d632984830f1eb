#!/usr/bin/env python3
"""Run the plugin's tests on every other Python from 3.8 to 3.14 that this machine has.

Each gets a virtual environment below $ROCKNPU_CACHE with the newest libraries that PyPI has for it;
Python 3.11 is tested with the versions that Debian 12 packages, too. The Python that runs this is
left to `make unit`. Without arguments for pytest, tests that are marked as slow are left out: they
are slow because they wait and repeat, not because of the language.

Usage: run_on_pythons.py [PYTEST ARGUMENT ...]
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
CACHE = Path(os.environ.get("ROCKNPU_CACHE", Path.home() / ".cache" / "rocknpu")) / "plugin-pythons"
VERSIONS = [f"3.{minor}" for minor in range(8, 15)]
THIS_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
REQUIREMENTS = (ROOT / "files" / "rknpu_plugin" / "requirements.txt").read_text().splitlines()
NEWEST = [line for line in REQUIREMENTS if not line.startswith("#")]
# Debian's protobuf 3.21.12 is 4.21.12 in the numbers of its Python library.
DEBIAN_12 = ["grpcio==1.51.1", "protobuf==4.21.12", "PyYAML==6.0", "prometheus-client==0.16.0"]
QUICK = ["-m", "not slow"]
# Up to Python 3.9 subprocess forks, and gRPC's handlers of that can hang the child.
ENVIRONMENT = {**os.environ, "GRPC_ENABLE_FORK_SUPPORT": "false"}


class Run(NamedTuple):
    """Tests to be run: an interpreter, and the libraries that it gets."""

    name: str
    python: str
    requirements: list[str]


def find_python(version: str) -> str | None:
    """An interpreter of this version, from pyenv or from PATH."""
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    candidates = [*map(str, pyenv), shutil.which(f"python{version}")]
    return next((path for path in candidates if path is not None and works(path)), None)


def works(python: str) -> bool:
    return subprocess.run([python, "-m", "venv", "--help"], capture_output=True).returncode == 0


def find_runs() -> list[Run]:
    runs = []
    for version in VERSIONS:
        python = find_python(version)
        if python is not None and version != THIS_VERSION:
            runs.append(Run(f"{version}-newest", python, NEWEST))
        if python is not None and version == "3.11":
            runs.append(Run(f"{version}-debian-12", python, DEBIAN_12))
    return runs


def make_environment(run: Run) -> str:
    """The interpreter of a virtual environment with the libraries and the tests' own."""
    environment = CACHE / run.name
    inside = environment / "bin" / "python"
    marker = environment / "requirements"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{run.name}.lock").open("w") as lock:
        # Other checkouts use the same environments.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not marker.exists() or marker.read_text() != repr(run.requirements):
            shutil.rmtree(environment, ignore_errors=True)
            check([run.python, "-m", "venv", str(environment)])
            install = [str(inside), "-m", "pip", "install", "-q", "--only-binary=:all:"]
            check([*install, *run.requirements, "pytest", "hypothesis"])
            marker.write_text(repr(run.requirements))
    return str(inside)


def check(command: list[str]) -> str:
    """What the command prints; raises with that if it fails."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}")
    return done.stdout


def test(run: Run) -> bool:
    """Run the tests and print one line, and what pytest said if they fail."""
    started = time.monotonic()
    try:
        inside = make_environment(run)
        arguments = sys.argv[1:] or QUICK
        pytest = [inside, "-m", "pytest", "-p", "no:cacheprovider", "tests/unit/plugin"]
        lines = check([*pytest, *arguments]).rstrip().splitlines()
    except RuntimeError as error:
        print(f"Python {run.name}: failed\n{error}", flush=True)
        return False
    seconds = time.monotonic() - started
    print(f"Python {run.name}: {lines[-1].strip('= ')} ({seconds:.0f} s)", flush=True)
    return True


def main() -> int:
    # The tests wait more than they compute.
    with ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as pool:
        passed = list(pool.map(test, find_runs()))
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
