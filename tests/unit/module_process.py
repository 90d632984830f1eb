# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Modules as Ansible runs them: each in a process of its own, with arguments and answer in JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import ModuleType
from typing import Any

# What a module logs on its host is printed as well.
_RUN = """
import runpy, sys, syslog
syslog.syslog = lambda *words: print("log:", *words, file=sys.stderr)
runpy.run_module(sys.argv.pop(), run_name="__main__", alter_sys=True)
"""


def run_module(
    module: ModuleType,
    arguments: dict[str, Any],
    *,
    path: str | None = None,
    umask: int = -1,
) -> tuple[dict[str, Any], str]:
    """Run a module; returns its answer, and everything that it printed and logged.

    path: where it finds programs. umask: that of its process, by default that of the tests.
    """
    done = subprocess.run(
        [sys.executable, "-c", _RUN, module.__name__],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}),
        capture_output=True,
        text=True,
        check=False,
        umask=umask,
        env={
            **os.environ,
            "PATH": path or os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        },
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout), done.stdout + done.stderr
