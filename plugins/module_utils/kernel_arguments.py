# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kernel arguments on one line: which there are, and adding or removing whole ones.

Whatever is not added or removed keeps its bytes, blanks and quotes among them.
"""

from __future__ import annotations

import re
from typing import Sequence

# As the kernel reads its command line: blanks separate, unless they are between double quotes.
# https://docs.kernel.org/admin-guide/kernel-parameters.html
_ARGUMENT = re.compile(r'(?:"[^"]*"|[^\s"])+', re.ASCII)

# Not those of Unicode: bytes of other encodings are characters of Latin-1 here.
_BLANKS = " \t\r\n"

# What may be added: no blanks, and nothing that a shell, U-Boot or the kernel reads differently.
_PLAIN = re.compile(r"[A-Za-z0-9_.,:=/+-]+")


def is_plain(argument: str) -> bool:
    """Whether an argument can stand in every kind of boot file without quotes."""
    return bool(_PLAIN.fullmatch(argument)) and argument != "--"


def split_arguments(line: str) -> list[str]:
    """The arguments for the kernel; those after "--" are for init.

    >>> split_arguments('root=/dev/mmcblk0p2 dyndbg="file x.c +p" -- single')
    ['root=/dev/mmcblk0p2', 'dyndbg="file x.c +p"']
    """
    return [match.group() for match in _matches(line)]


def edit_arguments(line: str, present: Sequence[str], absent: Sequence[str], lead: str = "") -> str:
    """Remove the arguments *absent* and add those of *present* that are not there.

    Args:
        line: the arguments, with or without a line end.
        present: what is to be there; it comes after the last argument for the kernel.
        absent: what is not to be there.
        lead: what separates an argument from what the caller has before *line*.

    Raises:
        ValueError: a quote is not closed, so that it would swallow what is added.

    >>> edit_arguments("quiet cgroup_disable=memory rw", ["cgroup_enable=memory"],
    ...                ["cgroup_disable=memory"])
    'quiet rw cgroup_enable=memory'
    """
    if line.count('"') % 2:
        raise ValueError("a double quote is not closed")
    for match in reversed(_matches(line)):
        if match.group() in absent:
            line = _cut(line, match.start(), match.end())
    there = _matches(line)
    known = {match.group() for match in there}
    missing = [word for word in dict.fromkeys(present) if word not in known]
    if not missing:
        return line
    added = " ".join(missing)
    if there:
        end = there[-1].end()
        return f"{line[:end]} {added}{line[end:]}"
    separator = " " if line.strip(_BLANKS) else ""
    return f"{lead}{added}{separator}{line}"


def _matches(line: str) -> list[re.Match[str]]:
    matches = []
    for match in _ARGUMENT.finditer(line):
        if match.group() == "--":
            break
        matches.append(match)
    return matches


def _cut(line: str, start: int, end: int) -> str:
    """Take out line[start:end] and the blanks that separated it from its neighbour."""
    before, after = line[:start], line[end:]
    if before.strip(_BLANKS):
        return before.rstrip(_BLANKS) + after
    return before + after.lstrip(" \t")
