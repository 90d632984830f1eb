# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whatever is at the paths, reading gives an answer and no exception."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Iterator

import pytest
from ansible_collections.rocknpu.edge.plugins.module_utils.board import (
    read_board,
    read_load,
    read_npu,
)
from ansible_collections.rocknpu.edge.plugins.module_utils.board_files import (
    BoardFiles,
    is_char_device,
)
from ansible_collections.rocknpu.edge.plugins.module_utils.npu_problems import find_problems
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .golden import Golden, board_names, lay_out

READ = [
    "/dev/rknpu",
    "/dev/dma_heap",
    "/proc/config.gz",
    "/proc/device-tree",
    "/proc/interrupts",
    "/proc/rknpu/load",
    "/proc/sys/kernel/osrelease",
    "/sys/bus/platform/drivers",
    "/sys/bus/platform/drivers/RKNPU",
    "/sys/bus/platform/drivers/RKNPU/fdab0000.npu",
    "/sys/bus/platform/drivers/RKNPU/fdab0000.npu/drm",
    "/sys/class/misc/rknpu",
    "/sys/firmware/devicetree/base",
    "/sys/firmware/devicetree/base/compatible",
    "/sys/firmware/devicetree/base/model",
    "/sys/firmware/devicetree/base/npu@fdab0000",
    "/sys/firmware/devicetree/base/npu@fdab0000/status",
    "/sys/kernel/debug",
    "/sys/kernel/debug/rknpu",
    "/sys/kernel/debug/rknpu/load",
    "/sys/kernel/debug/rknpu/version",
    "/sys/module/rknpu",
    "/sys/module/rknpu/initstate",
    "/sys/module/rknpu/version",
]


def _place(golden: Golden, path: str, kind: str) -> None:
    target = golden.path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if kind == "directory":
        target.mkdir()
    elif kind == "garbage":
        target.write_bytes(bytes(range(256)) * 4)
    elif kind == "nul":
        target.write_bytes(b"\0" * 100)
    elif kind == "loop":
        target.symlink_to(target.name)
    elif kind == "dangling":
        target.symlink_to("nowhere")
    elif kind == "huge":
        with target.open("wb") as file:
            file.truncate(1 << 40)
    elif kind == "fifo":
        os.mkfifo(target)


KINDS = ["directory", "garbage", "nul", "loop", "dangling", "huge", "fifo"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", READ)
def test_anything_in_the_place_of_one_file(path: str, kind: str, tmp_path: Path) -> None:
    golden = Golden(tmp_path)
    _place(golden, path, kind)
    board = read_board(str(tmp_path), golden.char_device)
    assert board.nodes == []
    assert board.load is None
    json.dumps([board.to_dict(), find_problems(board)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", READ)
def test_anything_in_the_place_of_one_file_of_a_board(path: str, kind: str, tmp_path: Path) -> None:
    golden = lay_out("rk3588-rock5b-display", tmp_path)
    target = golden.path(path)
    if target.exists() or target.is_symlink():
        target.rename(tmp_path / "taken-away")
    _place(golden, path, kind)
    board = read_board(str(golden.root), golden.char_device)
    assert set(board.nodes) <= {"/dev/dri/card1", "/dev/dri/renderD129"}
    json.dumps([board.to_dict(), find_problems(board)])


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(st.sampled_from([path for path in READ if "/" in path[1:]]), st.binary()))
def test_any_content(tmp_path: Path, contents: dict[str, bytes]) -> None:
    root = tmp_path / os.urandom(8).hex()
    golden = Golden(root)
    for path, content in sorted(contents.items()):
        parents = golden.path(path).parents
        if not golden.path(path).exists() and not any(parent.is_file() for parent in parents):
            golden.write(path, content)
    board = read_board(str(root), golden.char_device)
    assert board.nodes == []
    json.dumps([board.to_dict(), find_problems(board)])


@pytest.mark.parametrize("root", ["/nonexistent", "", "nul\0byte", "/dev/null"])
def test_impossible_root(root: str) -> None:
    assert read_board(root).devices == []
    assert read_npu(root).nodes == []
    assert read_load(root) is None


def test_this_machine() -> None:
    """Whatever machine runs the tests: it is read, as the user that runs them."""
    board = read_board()
    assert board.kernel_release == os.uname().release
    json.dumps(board.to_dict())


def test_null_device_is_a_device_and_a_link_to_it_is_not(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/null")
    (tmp_path / "file").touch()
    assert is_char_device("/dev/null")
    assert not is_char_device(str(tmp_path / "link"))
    assert not is_char_device(str(tmp_path / "file"))
    assert not is_char_device(str(tmp_path / "missing"))
    assert not is_char_device("nul\0byte")


def test_file_of_exactly_the_limit_is_read(tmp_path: Path) -> None:
    Golden(tmp_path).write("/file", b"x" * 10)
    files = BoardFiles(str(tmp_path))
    assert files.read("/file", 10) == b"x" * 10
    assert files.read("/file", 9) is None


_READ_AS_USER = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from module_utils.board import read_board
from module_utils.npu_problems import find_problems, is_usable
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
board = read_board(sys.argv[2], lambda path: os.path.isfile(path) and not os.path.islink(path))
problems = find_problems(board)
codes = [problem.code for problem in problems]
print(json.dumps(dict(board.to_dict(), problems=codes, usable=is_usable(board, problems))))
"""


def _read_as_user(golden: Golden) -> dict[str, Any]:
    """Read in a process of an ordinary user: for root no permission counts."""
    plugins = Path(find_problems.__code__.co_filename).parents[1]
    command = [sys.executable, "-c", _READ_AS_USER, str(plugins), str(golden.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A directory that other users may enter, unlike tmp_path."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


def test_ordinary_user_sees_all_but_the_load(open_path: Path) -> None:
    """debugfs is 0700; the rest of a board is open."""
    golden = lay_out("rk3588-rock5b-display", open_path)
    golden.path("/sys/kernel/debug").chmod(0)
    try:
        read = _read_as_user(golden)
    finally:
        golden.path("/sys/kernel/debug").chmod(0o700)
    assert read["debugfs"] == {"mounted": True, "directory": None}
    assert read["load"] is None
    assert read["cores"] == 3
    assert read["driver_version"] == "0.9.8"
    assert read["nodes"] == ["/dev/dri/card1", "/dev/dri/renderD129"]
    assert read["problems"] == ["permissions", "load_unavailable"]
    assert read["usable"] is True


@pytest.mark.parametrize("closed", ["/sys", "/proc", "/dev", "/sys/bus", "/sys/firmware"])
def test_ordinary_user_before_a_closed_directory(closed: str, open_path: Path) -> None:
    golden = lay_out("rk3588-rock5b-display", open_path)
    mode = golden.path(closed).stat().st_mode
    golden.path(closed).chmod(0)
    try:
        read = _read_as_user(golden)
    finally:
        golden.path(closed).chmod(mode)
    whole = golden.expect
    assert all(
        read[key] in (whole[key], None, [], False, "none", "absent")
        for key in (
            *("model", "soc", "kernel_option", "driver", "mode", "devices", "device_tree", "load"),
        )
    )


@pytest.mark.parametrize("name", board_names())
def test_reading_wakes_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading freq powers the NPU up and volt may crash the kernel: neither may be opened."""
    golden = lay_out(name, tmp_path)
    for file in ("freq", "volt", "power", "reset"):
        golden.write(f"/sys/kernel/debug/rknpu/{file}", b"1000000000\n")
    opened = []
    real_open = os.open

    def recording_open(path: Path, flags: int) -> int:
        opened.append(str(path))
        assert flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) == 0
        return real_open(path, flags)

    monkeypatch.setattr(os, "open", recording_open)
    read_board(str(golden.root), golden.char_device)
    assert opened
    in_debugfs = {
        Path(path).name for path in opened if "/rknpu/" in path and "/module/" not in path
    }
    assert in_debugfs <= {"load", "version"}
    assert not any("/dev/" in path for path in opened)


def test_cheap_reading_opens_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    golden = lay_out("rk3588-rock5b-display", tmp_path)

    def refuse(*_: object) -> int:
        raise AssertionError("opened a file")

    monkeypatch.setattr(os, "open", refuse)
    assert read_npu(str(golden.root), golden.char_device).nodes
