# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Default routes, and the programs that listen on ports."""

from __future__ import annotations

import re
from typing import Iterable, NamedTuple

from .board_files import BoardFiles

# Tables of sockets and routes grow with what is open.
_LARGE = 4 * 1024 * 1024

_LISTEN = "0A"
_UP, _REJECT = 0x1, 0x200


class Listener(NamedTuple):
    """Who has a TCP port: program and unit are None where that cannot be found out."""

    port: int
    program: str | None
    unit: str | None


def has_default_route(files: BoardFiles) -> bool:
    """Whether packets to anywhere have a way, be it one that leads nowhere."""
    for line in (files.text("/proc/net/route", _LARGE) or "").splitlines()[1:]:
        words = line.split()
        if len(words) > 7 and words[1] == words[7] == "00000000" and _leads(words[3]):
            return True
    for line in (files.text("/proc/net/ipv6_route", _LARGE) or "").splitlines():
        words = line.split()
        if len(words) > 9 and words[0] == "0" * 32 and words[1] == "00" and _leads(words[8]):
            return True
    return False


def _leads(flags: str) -> bool:
    number = int(flags, 16)
    return bool(number & _UP) and not number & _REJECT


def find_listeners(files: BoardFiles, ports: Iterable[int]) -> list[Listener]:
    """Programs that listen on any of the TCP ports, one for each port."""
    wanted = set(ports)
    found: dict[int, str] = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in (files.text(table, _LARGE) or "").splitlines()[1:]:
            words = line.split()
            if len(words) > 9 and words[3] == _LISTEN:
                port = int(words[1].rpartition(":")[2], 16)
                if port in wanted:
                    found.setdefault(port, words[9])
    owners = _find_owners(files, set(found.values())) if found else {}
    return [
        Listener(port, *owners.get(inode, (None, None))) for port, inode in sorted(found.items())
    ]


def _find_owners(files: BoardFiles, inodes: set[str]) -> dict[str, tuple[str | None, str | None]]:
    """Program and unit by the number of a socket; only root sees those of other users."""
    owners: dict[str, tuple[str | None, str | None]] = {}
    sockets = {f"socket:[{inode}]": inode for inode in inodes}
    for process in filter(str.isdigit, files.names("/proc")):
        for descriptor in files.names(f"/proc/{process}/fd"):
            target = files.link_target(f"/proc/{process}/fd/{descriptor}")
            if target in sockets:
                owners[sockets[target]] = _describe(files, process)
        if len(owners) == len(inodes):
            break
    return owners


def _describe(files: BoardFiles, process: str) -> tuple[str | None, str | None]:
    program = (files.text(f"/proc/{process}/comm") or "").strip() or None
    units = re.findall(r"[^/\n]+\.service", files.text(f"/proc/{process}/cgroup") or "")
    return program, units[-1] if units else None
