# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Device trees: `compatible` lists of real boards, and the state of the NPU's node."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rocknpu.edge.plugins.module_utils.board_files import BoardFiles
from ansible_collections.rocknpu.edge.plugins.module_utils.device_tree import (
    find_soc,
    read_compatible,
    read_model,
    read_npu_node,
    split_strings,
)
from hypothesis import given
from hypothesis import strategies as st

from .golden import Golden

BASE = "/sys/firmware/devicetree/base"


@pytest.mark.parametrize(
    ("compatible", "soc", "variant"),
    [
        # Captured on boards: ThomasKaiser/sbc-bench, results/.
        (b"rockchip,rk3588s-orangepi-5\0rockchip,rk3588\0", "rk3588", "rk3588s"),
        (b"rockchip,rk3588-orangepi-5-max\0rockchip,rk3588\0", "rk3588", "rk3588"),
        (b"radxa,rock-5b\0rockchip,rk3588\0", "rk3588", "rk3588"),
        (b"radxa,rock-5a\0rockchip,rk3588\0", "rk3588", "rk3588"),
        (b"radxa,rock-4d-spi\0radxa,rock-4d\0rockchip,rk3576\0", "rk3576", "rk3576"),
        (b"khadas,edge2\0rockchip,rk3588\0", "rk3588", "rk3588"),
        (b"hardkernel,odroid-m2\0rockchip,rk3588\0", "rk3588", "rk3588"),
        (b"rockchip,rk3566-orangepi-3b\0rockchip,rk3566\0", "rk3566", "rk3566"),
        (b"friendlyelec,nanopi-r5s\0rockchip,rk3568\0", "rk3568", "rk3568"),
        # https://github.com/blakeblackshear/frigate/pull/20441
        (b"radxa,rock-5c\0rockchip,rk3588f\0", "rk3588", "rk3588f"),
        # https://github.com/blakeblackshear/frigate/pull/10090
        (b"xunlong,orangepi-5\0rockchip,rk3588s\0", "rk3588", "rk3588s"),
        # Upstream device trees.
        (b"radxa,e52c\0rockchip,rk3582\0rockchip,rk3588s\0", "rk3588", "rk3582"),
        (b"firefly,rk3588s-roc-pc\0rockchip,rk3588s\0", "rk3588", "rk3588s"),
        (b"mixtile,blade3\0rockchip,rk3588\0", "rk3588", "rk3588"),
        (b"armsom,sige5\0rockchip,rk3576\0", "rk3576", "rk3576"),
        # Variants by their letters.
        (b"vendor,board\0rockchip,rk3588s2\0", "rk3588", "rk3588s2"),
        (b"vendor,board\0rockchip,rk3583\0", "rk3588", "rk3583"),
        (b"vendor,board\0rockchip,rk3566t\0", "rk3566", "rk3566t"),
        (b"vendor,board\0rockchip,rk3562\0", "rk3562", "rk3562"),
        (b"vendor,board\0rockchip,rv1126b\0", "rv1126b", "rv1126b"),
        (b"vendor,board\0rockchip,rv1126\0", "rv1126", "rv1126"),
        (b"pine64,rockpro64\0rockchip,rk3399\0", "rk3399", "rk3399"),
        # Not Rockchip, or not a device tree at all.
        (b"raspberrypi,5-model-b\0brcm,bcm2712\0", None, None),
        (b"", None, None),
        (b"\0\0\0", None, None),
        (b"rockchip,\0", None, None),
        (b"rockchip\0", None, None),
        (b"radxa,rock-5crockchip,rk3588f", None, None),
        (b"\xff\xfe\0rockchip,rk3588\0", "rk3588", "rk3588"),
        (b"rockchip,rk\xb2588\0", None, None),
    ],
)
def test_soc(compatible: bytes, soc: str | None, variant: str | None) -> None:
    assert find_soc(split_strings(compatible)) == (soc, variant)


@given(st.binary())
def test_any_bytes_are_a_soc_or_none(compatible: bytes) -> None:
    soc, variant = find_soc(split_strings(compatible))
    assert (soc is None) == (variant is None)


@given(
    st.lists(st.from_regex(r"[a-z]{2,9},[a-z0-9-]{1,20}", fullmatch=True), max_size=4),
    st.sampled_from(["rk3588", "rk3576", "rk3568", "rk3566", "rk3562"]),
    st.from_regex(r"[a-z]?[0-9]?", fullmatch=True),
)
def test_board_entries_do_not_hide_the_soc(boards: list[str], family: str, letters: str) -> None:
    entries = [*boards, f"rockchip,{family}{letters}"]
    compatible = "".join(f"{entry}\0" for entry in entries).encode()
    assert split_strings(compatible) == entries
    assert find_soc(entries)[0] == family


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        # https://github.com/CERALIVE/CeraUI/pull/150
        (b"Radxa ROCK 5B+\0", "Radxa ROCK 5B+"),
        # https://github.com/adafruit/Adafruit_Python_PlatformDetect/pull/381
        (b"Radxa ROCK 3 Model B\0", "Radxa ROCK 3 Model B"),
        (b"RK3588 OPi 5 Max", "RK3588 OPi 5 Max"),
        (b" \0", None),
        (b"\xff\xff\0", None),
        (b"", None),
    ],
)
def test_model(content: bytes, expected: str | None, tmp_path: Path) -> None:
    golden = Golden(tmp_path)
    golden.write(f"{BASE}/model", content)
    assert read_model(BoardFiles(str(tmp_path))) == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (None, "enabled"),
        (b"okay\0", "enabled"),
        (b"ok\0", "enabled"),
        (b"disabled\0", "disabled"),
        (b"disabled", "disabled"),
        (b"reserved\0", "disabled"),
        (b"fail\0", "disabled"),
    ],
)
@pytest.mark.parametrize("place", ["", "/soc"])
def test_npu_node(status: bytes | None, expected: str, place: str, tmp_path: Path) -> None:
    golden = Golden(tmp_path)
    node = f"{BASE}{place}/npu@fde40000"
    golden.write(f"{node}/compatible", b"rockchip,rk3568-rknpu\0")
    if status is not None:
        golden.write(f"{node}/status", status)
    assert read_npu_node(BoardFiles(str(tmp_path))) == (expected, "npu@fde40000", "rknpu")


def test_one_enabled_core_is_enough(tmp_path: Path) -> None:
    golden = Golden(tmp_path)
    for core, status in (("fdab0000", b"disabled\0"), ("fdac0000", b"okay\0")):
        golden.write(f"{BASE}/npu@{core}/status", status)
    assert read_npu_node(BoardFiles(str(tmp_path))) == ("enabled", "npu@fdac0000", None)


@pytest.mark.parametrize(
    ("compatible", "driver"),
    [
        (b"rockchip,rk3588-rknpu\0", "rknpu"),
        (b"rockchip,rk3568-rknpu\0rockchip,rknpu\0", "rknpu"),
        (b"rockchip,rknpu\0", "rknpu"),
        (b"rockchip,rk3588-rknn-core\0", "rocket"),
        (b"rockchip,npu\0", None),
        (b"", None),
    ],
)
def test_driver_of_the_node(compatible: bytes, driver: str | None, tmp_path: Path) -> None:
    Golden(tmp_path).write(f"{BASE}/npu@fdab0000/compatible", compatible)
    assert read_npu_node(BoardFiles(str(tmp_path))).driver == driver


def test_other_nodes_are_no_npu(tmp_path: Path) -> None:
    golden = Golden(tmp_path)
    for name in ("npu-opp-table", "gpu@fb000000", "iommu@fdab9000", "npu", "pvtm@fdab0000"):
        golden.write(f"{BASE}/{name}/status", b"okay\0")
    assert read_npu_node(BoardFiles(str(tmp_path))) == ("absent", None, None)


def test_proc_is_read_where_sys_is_masked(tmp_path: Path) -> None:
    """https://github.com/airockchip/rknn-toolkit2/issues/33"""
    golden = Golden(tmp_path)
    golden.path("/sys/firmware").mkdir(parents=True)
    golden.write("/proc/device-tree/compatible", b"radxa,rock-5b\0rockchip,rk3588\0")
    assert read_compatible(BoardFiles(str(tmp_path))) == ["radxa,rock-5b", "rockchip,rk3588"]


def test_link_out_of_the_root_is_not_followed(tmp_path: Path) -> None:
    """/proc/device-tree is an absolute link; the machine that reads is not the board."""
    golden = Golden(tmp_path / "board")
    golden.add_link("/proc/device-tree", str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "compatible").write_bytes(b"rockchip,rk3588\0")
    assert read_compatible(BoardFiles(str(golden.root))) == []
