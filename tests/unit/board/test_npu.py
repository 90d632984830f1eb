# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes and cores, in ways that a wrong rule would get wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rocknpu.edge.plugins.module_utils.board import (
    read_board,
    read_load,
    read_npu,
)

from .golden import Golden, lay_out

DRM = "/sys/bus/platform/drivers/RKNPU/fdab0000.npu/drm"


def _bound(root: Path, *nodes: str, driver: str = "RKNPU") -> Golden:
    golden = Golden(root.resolve())
    for node in nodes:
        golden.path(f"/sys/bus/platform/drivers/{driver}/fdab0000.npu/drm/{node}").mkdir(
            parents=True
        )
    return golden


def _nodes(golden: Golden) -> list[str]:
    return read_npu(str(golden.root), golden.char_device).nodes


def test_numbers_are_sorted_as_numbers(tmp_path: Path) -> None:
    golden = _bound(tmp_path, "card10", "card9", "renderD137", "renderD138", "controlD64")
    for node in ("card9", "card10", "renderD137", "renderD138", "controlD64"):
        golden.add_node(f"/dev/dri/{node}")
    assert _nodes(golden) == [
        f"/dev/dri/{node}" for node in ("card9", "card10", "renderD137", "renderD138")
    ]


@pytest.mark.parametrize("missing", ["card1", "renderD129"])
def test_one_of_the_two_nodes_may_be_absent(missing: str, tmp_path: Path) -> None:
    golden = lay_out("rk3588-rock5b-display", tmp_path)
    golden.path(f"/dev/dri/{missing}").unlink()
    left = {"card1", "renderD129"} - {missing}
    assert _nodes(golden) == [f"/dev/dri/{node}" for node in left]


def test_link_in_the_place_of_a_node_is_not_returned(tmp_path: Path) -> None:
    golden = _bound(tmp_path, "card1", "renderD129")
    golden.add_node("/dev/dri/card1")
    golden.add_node("/dev/dri/renderD128")
    golden.add_link("/dev/dri/renderD129", "renderD128")
    assert _nodes(golden) == ["/dev/dri/card1"]


def test_rknpu_link_is_never_a_node(tmp_path: Path) -> None:
    """https://github.com/invisiofficial/rk-llama.cpp/issues/19"""
    golden = lay_out("rk3588-dma-heap", tmp_path)
    golden.path("/dev/rknpu").unlink()
    golden.add_link("/dev/rknpu", "dri/renderD128")
    board = read_board(str(golden.root), golden.char_device)
    assert board.mode == "dma_heap"
    assert board.nodes == []
    assert board.rknpu_link == "dri/renderD128"


def test_regular_file_named_rknpu_is_not_a_node(tmp_path: Path) -> None:
    golden = lay_out("rk3588-dma-heap", tmp_path)
    golden.devices.discard(str(golden.path("/dev/rknpu")))
    assert _nodes(golden) == []


def test_misc_node_beside_drm_nodes_is_left_out(tmp_path: Path) -> None:
    """frepkovsky/rk3568-npu-ODROID-M1 registers both; one way to the NPU is enough."""
    golden = lay_out("rk3588-rock5b-display", tmp_path)
    golden.add_node("/dev/rknpu")
    golden.path("/sys/class/misc/rknpu").mkdir(parents=True)
    assert _nodes(golden) == ["/dev/dri/card1", "/dev/dri/renderD129"]


def test_driver_name_in_any_case(tmp_path: Path) -> None:
    golden = _bound(tmp_path, "card0", driver="RkNpu")
    golden.add_node("/dev/dri/card0")
    assert read_npu(str(golden.root), golden.char_device) == (
        *("rknpu", "drm", ["fdab0000.npu"]),
        ["/dev/dri/card0"],
    )


def test_driver_without_a_device_is_not_bound(tmp_path: Path) -> None:
    golden = Golden(tmp_path)
    golden.write("/sys/bus/platform/drivers/RKNPU/bind", b"")
    golden.path("/sys/module/rknpu").mkdir(parents=True)
    golden.add_link("/sys/bus/platform/drivers/RKNPU/module", "../../../../module/rknpu")
    assert read_npu(str(tmp_path)).driver == "none"


def test_unbinding_shows_at_the_next_reading(tmp_path: Path) -> None:
    golden = lay_out("rk3588-rock5b-display", tmp_path)
    assert read_npu(str(golden.root), golden.char_device).driver == "rknpu"
    golden.path("/sys/bus/platform/drivers/RKNPU/fdab0000.npu").unlink()
    assert read_npu(str(golden.root), golden.char_device) == ("none", "none", [], [])


def test_accel_nodes_of_other_drivers_are_not_the_npu(tmp_path: Path) -> None:
    golden = lay_out("rk3588-rocket", tmp_path)
    golden.path("/sys/devices/pci0000:00/0000:00:01.0/accel/accel1").mkdir(parents=True)
    golden.add_node("/dev/accel/accel1")
    assert _nodes(golden) == ["/dev/accel/accel0"]


def test_rocket_counts_bound_cores(tmp_path: Path) -> None:
    golden = lay_out("rk3588-rocket", tmp_path)
    golden.path("/sys/bus/platform/drivers/rocket/fdad0000.npu").unlink()
    assert read_board(str(golden.root), golden.char_device).cores == 2


def test_load_tells_the_cores_before_interrupts_and_the_soc(tmp_path: Path) -> None:
    golden = lay_out("rk3588-rock5b-display", tmp_path)
    golden.write("/sys/kernel/debug/rknpu/load", b"NPU load:  Core0: 12%, Core1:  0%,\n")
    assert read_board(str(golden.root), golden.char_device).cores == 2


def test_interrupts_tell_the_cores_without_a_load(tmp_path: Path) -> None:
    golden = lay_out("rk3588-rock5b-display", tmp_path)
    golden.path("/sys/kernel/debug/rknpu/load").unlink()
    assert read_board(str(golden.root), golden.char_device).cores == 3
    # Another device whose name merely contains the NPU's.
    golden.write("/proc/interrupts", b" 40: 1 GICv3 142 Level fdab0000.npu\n 41: 1 fdab0000.npu2\n")
    assert read_board(str(golden.root), golden.char_device).cores == 1


def test_soc_tells_the_cores_without_either(tmp_path: Path) -> None:
    golden = lay_out("rk3588-rock5b-display", tmp_path)
    golden.path("/sys/kernel/debug/rknpu/load").unlink()
    golden.path("/proc/interrupts").unlink()
    board = read_board(str(golden.root), golden.char_device)
    assert (board.cores, board.load, board.load_out_of_range) == (3, None, [])


def test_read_load_is_raw_and_board_load_is_clamped(tmp_path: Path) -> None:
    golden = lay_out("rk3588-masked-device-tree", tmp_path)
    assert read_load(str(golden.root)) == {0: 99, 1: 99, 2: 429496}
    assert read_board(str(golden.root)).load == {0: 99, 1: 99, 2: 100}


def test_load_is_read_from_procfs(tmp_path: Path) -> None:
    golden = lay_out("rk3566-orangepi3b-proc-only", tmp_path)
    assert read_load(str(golden.root)) == {0: 48}
