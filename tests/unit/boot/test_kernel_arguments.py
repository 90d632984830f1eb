# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whole arguments on one line: what is edited, and that nothing else is."""

from __future__ import annotations

import pytest
from ansible_collections.rocknpu.edge.plugins.module_utils.kernel_arguments import (
    edit_arguments,
    is_plain,
    split_arguments,
)
from hypothesis import given
from hypothesis import strategies as st

ON = ["cgroup_enable=memory", "cgroup_memory=1"]
OFF = ["cgroup_disable=memory"]

LINES = [
    ("", "cgroup_enable=memory cgroup_memory=1"),
    ("\r", "cgroup_enable=memory cgroup_memory=1\r"),
    ("root=/dev/mmcblk0p2 rw", "root=/dev/mmcblk0p2 rw cgroup_enable=memory cgroup_memory=1"),
    ("a  b\t\r", "a  b cgroup_enable=memory cgroup_memory=1\t\r"),
    # There already, in any order, also twice.
    ("cgroup_memory=1 a cgroup_enable=memory", None),
    ("cgroup_memory=1 cgroup_memory=1 cgroup_enable=memory cgroup_enable=memory", None),
    # Parts of other arguments do not count.
    ("xcgroup_memory=1", "xcgroup_memory=1 cgroup_enable=memory cgroup_memory=1"),
    ("cgroup_memory=10", "cgroup_memory=10 cgroup_enable=memory cgroup_memory=1"),
    ('x="cgroup_memory=1 "', 'x="cgroup_memory=1 " cgroup_enable=memory cgroup_memory=1'),
    ("a cgroup_disable=memory b", "a b cgroup_enable=memory cgroup_memory=1"),
    (" cgroup_disable=memory  b", " b cgroup_enable=memory cgroup_memory=1"),
    ("a  cgroup_disable=memory", "a cgroup_enable=memory cgroup_memory=1"),
    ("cgroup_disable=memory", "cgroup_enable=memory cgroup_memory=1"),
    ("cgroup_disable=memory,cpuset", None),
    # Behind "--" they would be init's.
    ("a -- b", "a cgroup_enable=memory cgroup_memory=1 -- b"),
    ("-- cgroup_memory=1", "cgroup_enable=memory cgroup_memory=1 -- cgroup_memory=1"),
]


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_line(line: str, expected: str | None) -> None:
    if expected is None and "cgroup_disable" in line:
        expected = f"{line} {' '.join(ON)}"
    assert edit_arguments(line, ON, OFF) == (line if expected is None else expected)


def test_a_quote_that_is_not_closed_would_swallow_what_is_added() -> None:
    with pytest.raises(ValueError, match="quote is not closed"):
        edit_arguments('dyndbg="file x', ON, OFF)


@pytest.mark.parametrize(
    ("argument", "plain"),
    [
        ("cgroup_enable=memory", True),
        ("systemd.unified_cgroup_hierarchy=1", True),
        ("a b", False),
        ("", False),
        ("--", False),
        ('a="b"', False),
        ("$(reboot)", False),
        ("a\n", False),
    ],
)
def test_plain(argument: str, plain: bool) -> None:
    assert is_plain(argument) is plain


WORDS = st.sampled_from(
    [*ON, *OFF, "quiet", "rw", 'x="a b"', "root=UUID=1", "cgroup_memory=10", "--", "\u00a0"]
)
BLANKS = st.sampled_from([" ", "  ", "\t", " \t "])
LINE = st.lists(st.tuples(WORDS, BLANKS)).map(
    lambda pairs: "".join(word + blank for word, blank in pairs)
)


@given(LINE, st.sampled_from(["", "\r", " ", "\r\n"]))
def test_any_line(line: str, end: str) -> None:
    edited = edit_arguments(line + end, ON, OFF)
    assert edit_arguments(edited, ON, OFF) == edited
    arguments = split_arguments(edited)
    assert set(ON) <= set(arguments)
    assert not set(OFF) & set(arguments)
    kept = [word for word in split_arguments(line) if word not in OFF]
    assert arguments[: len(kept)] == kept
    assert edited.endswith(end.lstrip(" ")) or "--" in line
    assert edited.partition("--")[1:] == (line + end).partition("--")[1:] or "--" not in line
