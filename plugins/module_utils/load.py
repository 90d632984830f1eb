# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Load and version as the RKNPU driver prints them in debugfs or procfs (rknpu_debugger.c).

Only the files `load` and `version` are ever read. Reading `freq` powers the NPU up, and `volt`
can crash the kernel where the device tree names no regulator for the NPU.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .board_files import BoardFiles

DEBUGFS = "/sys/kernel/debug"
# With CONFIG_ROCKCHIP_RKNPU_PROC_FS the same files are in /proc, readable by every user.
DIRECTORIES = (f"{DEBUGFS}/rknpu", "/proc/rknpu")

# The kernel's numbers have at most 20 digits. A number may be blank: that is how C's "%2.d" prints
# 0, though the kernel's own printf writes the digit.
_PERCENT = r"[ \t]*(?:(?P<percent>[0-9]{1,20})[ \t]*)?%"
_SINGLE = re.compile(_PERCENT)
_CORE = re.compile(rf"Core[ \t]*(?P<core>[0-9]{{1,3}})[ \t]*:{_PERCENT}")
_VERSION = re.compile(r"(?:^|[\s:v])([0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4})(?=\s|$)")


class LoadFiles(NamedTuple):
    """Whether debugfs is mounted, and the directory of the driver's files if there is one."""

    mounted: bool
    directory: str | None


def parse_load(text: str) -> dict[int, int] | None:
    """Busy share of each core in percent, as printed; None if the text is not the driver's.

    A single-core NPU is printed without a label and becomes core 0. Old drivers do not clamp, so
    values above 100 occur (https://github.com/rockchip-linux/rknpu2/issues/102); see clamp_load().

    >>> parse_load("NPU load:  Core0: 63%, Core1: 65%, Core2: 64%,")
    {0: 63, 1: 65, 2: 64}
    >>> parse_load("NPU load: 48%")
    {0: 48}
    """
    for line in text.splitlines():
        label, colon, values = line.partition(":")
        if colon and label.strip() == "NPU load":
            return _parse_values(values.strip())
    return None


def _parse_values(text: str) -> dict[int, int] | None:
    single = _SINGLE.fullmatch(text)
    if single:
        return {0: int(single["percent"] or 0)}
    load: dict[int, int] = {}
    # With several cores a comma follows each of them, the last one too.
    for part in (text[:-1] if text.endswith(",") else text).split(","):
        core = _CORE.fullmatch(part.strip())
        if not core or int(core["core"]) in load:
            return None
        load[int(core["core"])] = int(core["percent"] or 0)
    return load


def clamp_load(load: dict[int, int]) -> dict[int, int]:
    """The load with every value above 100 cut to 100, as newer drivers do themselves."""
    return {core: min(percent, 100) for core, percent in load.items()}


def parse_version(text: str) -> str | None:
    """Version in "0.9.8" or "RKNPU driver: v0.9.8"; None if there is none.

    >>> parse_version("RKNPU driver: v0.9.8")
    '0.9.8'
    """
    found = _VERSION.search(text)
    return found.group(1) if found else None


def find_load_files(files: BoardFiles) -> LoadFiles:
    """Where the driver's load file is for the calling user: debugfs first, then procfs."""
    # The mount point is an empty directory; a mounted debugfs never is, and it is closed to users.
    mounted = bool(files.names(DEBUGFS)) or files.is_closed_directory(DEBUGFS)
    for directory in DIRECTORIES:
        if files.is_directory(directory):
            return LoadFiles(mounted, directory)
    return LoadFiles(mounted, None)


def read_load(files: BoardFiles, directory: str | None) -> dict[int, int] | None:
    """The load of each core as printed; None if it is unreadable. Does not wake the NPU."""
    text = files.text(f"{directory}/load") if directory else None
    return parse_load(text) if text else None


def read_version(files: BoardFiles, directory: str | None) -> str | None:
    """The RKNPU driver's version; None where no driver shows one."""
    # sysfs first: debugfs is closed to users.
    places = ["/sys/module/rknpu/version"] + ([f"{directory}/version"] if directory else [])
    return next(filter(None, (parse_version(files.text(place) or "") for place in places)), None)
