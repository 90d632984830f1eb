#!/usr/bin/env python3
"""Run the plugin's tests on every Python from 3.8 to 3.14 that this machine has.

Each gets a virtual environment below $ROCKNPU_CACHE with the newest libraries that PyPI has for it;
Python 3.11 is tested with the versions that Debian 12 packages, too. Arguments go to pytest.

Usage: run_on_pythons.py [PYTEST ARGUMENT ...]
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
CACHE = Path(os.environ.get("ROCKNPU_CACHE", Path.home() / ".cache" / "rocknpu")) / "plugin-pythons"
VERSIONS = [f"3.{minor}" for minor in range(8, 15)]
REQUIREMENTS = ROOT / "files" / "rknpu_plugin" / "requirements.txt"
NEWEST = ["-r", str(REQUIREMENTS)]
# Debian's protobuf 3.21.12 is 4.21.12 in the numbers of its Python library.
DEBIAN_12 = ["grpcio==1.51.1", "protobuf==4.21.12", "PyYAML==6.0", "prometheus-client==0.16.0"]


def find_pythons() -> dict[str, str]:
    """An interpreter for each version, from PATH or from pyenv."""
    found = {}
    for version in VERSIONS:
        pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
        path = next((str(path) for path in pyenv if works(str(path))), None) or shutil.which(
            f"python{version}"
        )
        if path is not None and works(path):
            found[version] = path
    return found


def works(python: str) -> bool:
    return subprocess.run([python, "-m", "venv", "--help"], capture_output=True).returncode == 0


def make_environment(python: str, name: str, requirements: list[str]) -> str | None:
    """The interpreter of a virtual environment with the libraries and the tests' own."""
    environment = CACHE / name
    inside = environment / "bin" / "python"
    marker = environment / "requirements"
    if not marker.exists() or marker.read_text() != repr(requirements):
        shutil.rmtree(environment, ignore_errors=True)
        subprocess.run([python, "-m", "venv", str(environment)], check=True)
        install = [str(inside), "-m", "pip", "install", "-q", "--only-binary=:all:"]
        done = subprocess.run([*install, *requirements, "pytest", "hypothesis"])
        if done.returncode:
            return None
        marker.write_text(repr(requirements))
    return str(inside)


def main() -> int:
    arguments = sys.argv[1:]
    pythons = find_pythons()
    runs = [(version, python, "newest", NEWEST) for version, python in pythons.items()]
    if "3.11" in pythons:
        runs.append(("3.11", pythons["3.11"], "debian-12", DEBIAN_12))
    results = {}
    for version, python, label, requirements in runs:
        name = f"{version}-{label}"
        print(f"== Python {version}, {label} libraries", flush=True)
        inside = make_environment(python, name, requirements)
        if inside is None:
            results[name] = "the libraries cannot be installed"
            continue
        versions = [inside, "-m", "rknpu_plugin", "version"]
        subprocess.run(versions, cwd=REQUIREMENTS.parent, check=False)
        pytest = [inside, "-m", "pytest", "-p", "no:cacheprovider", "tests/unit/plugin", *arguments]
        code = subprocess.run(pytest, cwd=ROOT, check=False).returncode
        results[name] = "passed" if code == 0 else f"failed ({code})"
    for name, result in results.items():
        print(f"{name:<16} {result}")
    missing = [version for version in VERSIONS if version not in pythons]
    if missing:
        print(f"not on this machine: {', '.join(missing)}")
    return 0 if results and all(result == "passed" for result in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
