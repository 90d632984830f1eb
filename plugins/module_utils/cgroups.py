# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Control groups as the kernel runs with them, whatever boot files say."""

from __future__ import annotations

from typing import NamedTuple

from .board_files import BoardFiles


class Cgroups(NamedTuple):
    """The control groups of a host.

    version: 2 for the unified hierarchy, 1 for the others (hybrid among them).
    running: names of the controllers that can be used.
    disabled: those that the kernel has, and that an argument at boot turned off.
    """

    version: int
    running: list[str]
    disabled: list[str]


def read_cgroups(files: BoardFiles) -> Cgroups:
    """Read the control groups, which the kernel lists in two places."""
    enabled: dict[str, bool] = {}
    for line in (files.text("/proc/cgroups") or "").splitlines():
        # "memory 0 39 0": name, hierarchy, number of groups, enabled.
        words = line.split()
        if len(words) == 4 and not line.startswith("#"):
            enabled[words[0]] = words[3] == "1"
    disabled = sorted(name for name, on in enabled.items() if not on)
    unified = files.text("/sys/fs/cgroup/cgroup.controllers")
    if unified is not None:
        return Cgroups(2, sorted(unified.split()), disabled)
    return Cgroups(1, sorted(name for name, on in enabled.items() if on), disabled)
