# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boards as text, one file per board in boards/, laid out as a directory for a test.

A line of a .tree file is one of

    # comment
    PATH/                  an empty directory
    PATH = TEXT            a file; \\n, \\0 and \\t in TEXT mean those characters
    PATH :                 a file of several lines, each of the next lines being "  | LINE"
    PATH gz= TEXT, PATH gz: the same, compressed with gzip
    PATH -> TARGET         a symbolic link
    PATH node MODE         a character device, laid out as an empty file: only root can make one
    expect KEY = JSON      what reading this board must give
"""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BOARDS = Path(__file__).with_name("boards")

_LINE = re.compile(
    r"(?P<path>/\S*?)(?:(?P<directory>/)| -> (?P<target>\S+)| node (?P<mode>[0-7]{4})"
    r"| (?P<gzip>gz)?(?:= ?(?P<text>.*)|(?P<block>:)))"
)
_EXPECT = re.compile(r"expect (?P<key>\w+) = (?P<value>.*)")
_BLOCK = re.compile(r"  \| ?(?P<line>.*)")
_ESCAPES = {r"\n": "\n", r"\0": "\0", r"\t": "\t", r"\\": "\\"}


@dataclass
class Golden:
    """A board laid out below `root`."""

    root: Path
    expect: dict[str, Any] = field(default_factory=dict)
    devices: set[str] = field(default_factory=set)

    def char_device(self, path: str) -> bool:
        """The check for a character device to read this board with."""
        return path in self.devices and Path(path).is_file() and not Path(path).is_symlink()

    def path(self, path: str) -> Path:
        """Where a path of the board is."""
        return self.root / path.lstrip("/")

    def write(self, path: str, content: bytes) -> None:
        """Write a file of the board, with its directories."""
        target = self.path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)

    def add_node(self, path: str, mode: int = 0o666) -> None:
        """Add a character device."""
        self.write(path, b"")
        self.path(path).chmod(mode)
        self.devices.add(str(self.path(path)))

    def add_link(self, path: str, target: str) -> None:
        """Add a symbolic link."""
        self.path(path).parent.mkdir(parents=True, exist_ok=True)
        self.path(path).symlink_to(target)


def board_names() -> list[str]:
    """Names of all boards."""
    return sorted(path.stem for path in BOARDS.glob("*.tree"))


def lay_out(name: str, root: Path, boards: Path = BOARDS) -> Golden:
    """Lay out the board called *name* below *root*."""
    golden = Golden(root.resolve())
    lines = (boards / f"{name}.tree").read_text(encoding="utf-8").splitlines()
    block: list[str] = []
    for number, line in reversed(list(enumerate(lines, 1))):
        part = _BLOCK.fullmatch(line)
        if part:
            block.insert(0, part["line"] + "\n")
        elif line and not line.startswith("#"):
            _add(golden, line, "".join(block), f"{name}.tree:{number}")
            block = []
    return golden


def _add(golden: Golden, line: str, block: str, where: str) -> None:
    expected = _EXPECT.fullmatch(line)
    if expected:
        golden.expect[expected["key"]] = json.loads(expected["value"])
        return
    entry = _LINE.fullmatch(line)
    if not entry:
        raise ValueError(f"{where}: not understood: {line}")
    path = entry["path"]
    if entry["directory"]:
        golden.path(path).mkdir(parents=True, exist_ok=True)
    elif entry["target"]:
        golden.add_link(path, entry["target"])
    elif entry["mode"]:
        golden.add_node(path, int(entry["mode"], 8))
    else:
        text = block if entry["block"] else _unescape(entry["text"])
        content = text.encode()
        golden.write(path, gzip.compress(content) if entry["gzip"] else content)


def _unescape(text: str) -> str:
    return re.sub(r"\\[n0t\\]", lambda match: _ESCAPES[match.group()], text)
