# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a directory's bytes lie, and what the host swaps to."""

from __future__ import annotations

import re
from typing import NamedTuple

from .board_files import BoardFiles

# A host with many containers has thousands of mounts.
_LARGE = 4 * 1024 * 1024

# SD cards and eMMC chips: /dev/mmcblk0p2.
_MMC = re.compile(r"mmcblk[0-9]")


class Mount(NamedTuple):
    """The mount that holds a directory: number and name of its device."""

    point: str
    number: str
    source: str


def find_mount(files: BoardFiles, path: str) -> Mount | None:
    """The mount that holds an absolute path, which need not exist yet."""
    found: Mount | None = None
    for line in (files.text("/proc/self/mountinfo", _LARGE) or "").splitlines():
        # "36 35 98:0 /root /mount/point options - type source options", with \040 for a blank.
        words, _dash, rest = line.partition(" - ")
        parts, tail = words.split(), rest.split()
        if len(parts) < 5 or len(tail) < 2:
            continue
        point = parts[4].replace(r"\040", " ")
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        # Of two mounts at one point the later one hides the other.
        if inside and (found is None or len(point) >= len(found.point)):
            found = Mount(point, parts[2], tail[1])
    return found


def is_on_mmc(files: BoardFiles, path: str) -> bool | None:
    """Whether a directory lies on an SD card or eMMC; None if that cannot be found out."""
    mount = find_mount(files, path)
    if mount is None:
        return None
    # The source may be called /dev/root; btrfs has no number of a device; LVM has devices below.
    block = f"/sys/dev/block/{mount.number}"
    names = [mount.source, files.link_target(block) or "", *files.names(f"{block}/slaves")]
    return any(_MMC.search(name) for name in names)


def read_swaps(files: BoardFiles) -> list[str]:
    """Devices and files that the host swaps to."""
    lines = (files.text("/proc/swaps") or "").splitlines()[1:]
    return [line.split()[0].replace(r"\040", " ") for line in lines if line.strip()]
