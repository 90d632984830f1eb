# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module: what it returns is what it documents, on any board, also in check mode."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.rocknpu.edge.plugins.module_utils import npu_problems
from ansible_collections.rocknpu.edge.plugins.modules import npu_info
from unit.board.golden import Golden, board_names, lay_out
from unit.module_process import run_module

RETURNED = yaml.safe_load(npu_info.RETURN)
DOCUMENTED_CODES = set(
    re.findall(r"V\((\w+)\)", " ".join(RETURNED["problems"]["contains"]["code"]["description"][1:]))
)
TYPES = {"str": str, "int": int, "bool": bool, "list": list, "dict": dict}


def _run(root: Path | str, **arguments: object) -> dict[str, Any]:
    return run_module(npu_info, {"root": str(root), **arguments})[0]


@pytest.mark.parametrize("name", ["missing", "file"])
def test_a_root_that_is_no_directory_is_no_board(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    returned = _run(tmp_path / name)
    assert returned["failed"] is True
    assert returned["msg"].startswith(f"{tmp_path / name} on this host is no directory")


def _make_devices(golden: Golden) -> None:
    """Real character devices in place of the files; only root can make them."""
    for path in golden.devices:
        mode = Path(path).stat().st_mode
        Path(path).unlink()
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        Path(path).chmod(stat.S_IMODE(mode))


@pytest.mark.parametrize("check_mode", [False, True])
def test_board_without_devices(check_mode: bool, tmp_path: Path) -> None:
    """The files that stand for devices are no devices: the module must not return them."""
    golden = lay_out("rk3588-rock5b-display", tmp_path)
    returned = _run(golden.root, _ansible_check_mode=check_mode)
    assert returned["changed"] is False
    assert returned["npu"]["nodes"] == []
    assert returned["npu"]["load"] == {"0": 63, "1": 65, "2": 64}
    assert [problem["code"] for problem in returned["problems"]] == [
        *("nodes_missing", "dma_heap_missing"),
    ]
    assert returned["usable"] is False


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make device nodes")
@pytest.mark.parametrize("name", ["rk3588-rock5b-display", "rk3588-dma-heap", "rk3588-rocket"])
def test_board_with_devices(name: str, tmp_path: Path) -> None:
    golden = lay_out(name, tmp_path)
    _make_devices(golden)
    returned = _run(golden.root)
    expect = golden.expect
    codes = [problem["code"] for problem in returned["problems"]]
    assert codes == expect.pop("problems")
    assert returned["usable"] == expect.pop("usable")
    assert {key: returned["npu"][key] for key in expect} == expect


def test_this_machine() -> None:
    returned = _run("/")
    assert returned["npu"]["kernel_release"] == os.uname().release
    assert returned["changed"] is False


@pytest.mark.parametrize("name", board_names())
def test_returned_is_documented(name: str, tmp_path: Path) -> None:
    golden = lay_out(name, tmp_path)
    board = npu_info.read_board(str(golden.root), golden.char_device)
    _check(board.to_dict(), RETURNED["npu"]["contains"])
    for problem in npu_problems.find_problems(board):
        _check(problem._asdict(), RETURNED["problems"]["contains"])
        assert problem.code in DOCUMENTED_CODES


def test_documented_codes_can_all_occur() -> None:
    found = {code for name in board_names() for code in _codes_of(name)}
    assert found == DOCUMENTED_CODES


@pytest.mark.parametrize("name", board_names())
def test_blocking_is_documented(name: str, tmp_path: Path) -> None:
    golden = lay_out(name, tmp_path)
    blocking = RETURNED["problems"]["contains"]["code"]["description"][1]
    for problem in npu_problems.find_problems(
        npu_info.read_board(str(golden.root), golden.char_device)
    ):
        assert problem.blocking == (f"V({problem.code})" in blocking)


def test_wrong_option_is_refused() -> None:
    returned = _run("/", path="/sys")
    assert returned["failed"] is True
    assert "path" in returned["msg"]


def _codes_of(name: str) -> list[str]:
    text = Path(lay_out.__code__.co_filename).with_name("boards") / f"{name}.tree"
    found = re.search(r"^expect problems = (.*)$", text.read_text(encoding="utf-8"), re.MULTILINE)
    assert found
    codes: list[str] = json.loads(found.group(1))
    return codes


def _check(value: dict[str, Any], documented: dict[str, Any]) -> None:
    """Keys and types as documented; null may stand for any of them."""
    assert value.keys() == documented.keys()
    for key, part in value.items():
        if part is None:
            continue
        assert isinstance(part, TYPES[documented[key]["type"]]), key
        if "contains" in documented[key]:
            _check(part, documented[key]["contains"])
        if "elements" in documented[key]:
            assert all(isinstance(item, TYPES[documented[key]["elements"]]) for item in part)
