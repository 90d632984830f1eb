# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every board in boards/ is read as its file expects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.rocknpu.edge.plugins.module_utils.board import read_board, read_npu
from ansible_collections.rocknpu.edge.plugins.module_utils.npu_problems import (
    find_problems,
    is_usable,
)

from .golden import board_names, lay_out

# What each board's file has to state, so that no board is checked halfway.
ALWAYS = {
    *("soc", "soc_variant", "kernel_option", "driver", "driver_version", "module", "mode"),
    *("devices", "cores", "nodes", "dma_heaps", "device_tree", "load", "default_shares"),
    *("problems", "usable"),
}


@pytest.mark.parametrize("name", board_names())
def test_board(name: str, tmp_path: Path) -> None:
    golden = lay_out(name, tmp_path)
    assert golden.expect.keys() >= ALWAYS
    board = read_board(str(golden.root), golden.char_device)
    problems = find_problems(board)
    read = board.to_dict()
    read["problems"] = [problem.code for problem in problems]
    read["usable"] = is_usable(board, problems)
    assert {key: read[key] for key in golden.expect} == golden.expect


@pytest.mark.parametrize("name", board_names())
def test_cheap_reading_agrees(name: str, tmp_path: Path) -> None:
    golden = lay_out(name, tmp_path)
    npu = read_npu(str(golden.root), golden.char_device)
    assert {key: golden.expect[key] for key in npu._fields} == npu._asdict()


@pytest.mark.parametrize("name", board_names())
def test_nodes_are_devices_and_no_links(name: str, tmp_path: Path) -> None:
    golden = lay_out(name, tmp_path)
    board = read_board(str(golden.root), golden.char_device)
    for path in board.nodes + board.dma_heaps:
        assert golden.char_device(str(golden.path(path)))
        assert board.permissions[path] == format(golden.path(path).stat().st_mode & 0o7777, "04o")


@pytest.mark.parametrize("name", board_names())
def test_dictionary_is_json(name: str, tmp_path: Path) -> None:
    golden = lay_out(name, tmp_path)
    read = read_board(str(golden.root), golden.char_device).to_dict()
    assert json.loads(json.dumps(read)) == read


@pytest.mark.parametrize("name", board_names())
def test_problems_are_sentences_with_a_remedy(name: str, tmp_path: Path) -> None:
    golden = lay_out(name, tmp_path)
    for problem in find_problems(read_board(str(golden.root), golden.char_device)):
        assert problem.message.endswith(".")
        assert problem.remedy.endswith(".")
        assert "None" not in problem.message + problem.remedy


def test_reading_changes_nothing(tmp_path: Path) -> None:
    golden = lay_out("rk3588-rock5b-display", tmp_path)
    before = sorted((str(path), path.lstat().st_mtime_ns) for path in tmp_path.rglob("*"))
    read_board(str(golden.root), golden.char_device)
    assert sorted((str(path), path.lstat().st_mtime_ns) for path in tmp_path.rglob("*")) == before
