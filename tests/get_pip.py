"""Bootstraps pip for ansible-test from the interpreter's own copy, without its download."""

from __future__ import annotations

import subprocess
import sys

# In a process of its own: ensurepip switches pip's configuration off for the rest of it.
subprocess.run([sys.executable, "-m", "ensurepip", "--default-pip"], check=True)
packages = [
    argument for argument in sys.argv[1:] if argument not in ("--no-setuptools", "--no-wheel")
]
sys.exit(subprocess.run([sys.executable, "-m", "pip", "install", *packages]).returncode)
