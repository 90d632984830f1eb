# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernel's options and modules."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from ansible_collections.rocknpu.edge.plugins.module_utils.board_files import BoardFiles
from ansible_collections.rocknpu.edge.plugins.module_utils.kernel import (
    parse_option,
    read_module_state,
    read_option,
    read_release,
)
from hypothesis import given
from hypothesis import strategies as st

from .golden import Golden

RELEASE = "6.1.115-vendor-rk35xx"
PLACES = [
    "/proc/config.gz",
    f"/boot/config-{RELEASE}",
    f"/lib/modules/{RELEASE}/config",
    f"/usr/src/linux-headers-{RELEASE}/.config",
]

# https://github.com/airockchip/rknn-toolkit2/issues/68
FIREFLY = """\
# RKNPU
CONFIG_ROCKCHIP_RKNPU=y
CONFIG_ROCKCHIP_RKNPU_DEBUG_FS=y
# CONFIG_ROCKCHIP_RKNPU_PROC_FS is not set
# CONFIG_ROCKCHIP_RKNPU_FENCE is not set
# CONFIG_ROCKCHIP_RKNPU_SRAM is not set
CONFIG_ROCKCHIP_RKNPU_DRM_GEM=y
# end of RKNPU
"""


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (FIREFLY, "y"),
        ("CONFIG_ROCKCHIP_RKNPU=m\n", "m"),
        ("CONFIG_ROCKCHIP_RKNPU=m", "m"),
        ("CONFIG_ROCKCHIP_RKNPU=y\r\n", "y"),
        # Armbian's mainline kernel has no line at all, others say "is not set": both mean no.
        ("CONFIG_DRM_ACCEL=y\nCONFIG_DRM_ACCEL_ROCKET=m\n", "n"),
        ("# CONFIG_ROCKCHIP_RKNPU is not set\n", "n"),
        # Only the whole key counts.
        ("# CONFIG_ROCKCHIP_RKNPU is not set\nCONFIG_ROCKCHIP_RKNPU_DEBUG_FS=y\n", "n"),
        ("CONFIG_ROCKCHIP_RKNPU_DRM_GEM=y\n", "n"),
        ("#CONFIG_ROCKCHIP_RKNPU=y\nCONFIG_DRM=y\n", "n"),
        ("XCONFIG_ROCKCHIP_RKNPU=y\nCONFIG_DRM=y\n", "n"),
        # The last line wins.
        ("CONFIG_ROCKCHIP_RKNPU=m\nCONFIG_ROCKCHIP_RKNPU=y\n", "y"),
        ("CONFIG_ROCKCHIP_RKNPU=y\n# CONFIG_ROCKCHIP_RKNPU is not set\n", "n"),
        # Not a kernel configuration: unknown.
        ("", None),
        ("<html>404</html>\n", None),
        ("ROCKCHIP_RKNPU=y\n", None),
    ],
)
def test_option(config: str, expected: str | None) -> None:
    assert parse_option(config) == expected


@given(st.text())
def test_any_text_has_an_option_or_none(text: str) -> None:
    assert parse_option(text) in ("y", "m", "n", None)


_OTHER = st.from_regex(r"CONFIG_[A-Z0-9_]{1,30}=(?:[ym]|[0-9]{1,5})", fullmatch=True).filter(
    lambda line: not line.startswith("CONFIG_ROCKCHIP_RKNPU=")
)


@given(st.lists(_OTHER, min_size=1), st.lists(_OTHER), st.sampled_from("ym"))
def test_option_is_found_among_others(before: list[str], after: list[str], value: str) -> None:
    line = f"CONFIG_ROCKCHIP_RKNPU={value}"
    assert parse_option("\n".join([*before, line, *after])) == value
    assert parse_option("\n".join(before + after)) == "n"


@pytest.mark.parametrize("place", PLACES)
def test_every_place_is_read(place: str, tmp_path: Path) -> None:
    content = FIREFLY.encode()
    Golden(tmp_path).write(place, gzip.compress(content) if place.endswith("gz") else content)
    assert read_option(BoardFiles(str(tmp_path)), RELEASE) == ("y", place)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"\x1f\x8b",
        gzip.compress(FIREFLY.encode())[:-12],
        b"\x1f\x8b" + bytes(range(256)),
        bytes(range(256)) * 10,
        gzip.compress(b"CONFIG_X=y\n" * 1_000_000),
    ],
    ids=["empty", "header", "cut", "garbage-gzip", "garbage", "bomb"],
)
def test_broken_file_is_passed_over_and_is_no_no(place: str, broken: bytes, tmp_path: Path) -> None:
    golden = Golden(tmp_path)
    golden.write(place, broken)
    files = BoardFiles(str(tmp_path))
    assert read_option(files, RELEASE) == (None, None)
    if place != PLACES[-1]:
        golden.write(PLACES[-1], b"CONFIG_ROCKCHIP_RKNPU=m\n")
        assert read_option(files, RELEASE) == ("m", PLACES[-1])


def test_option_of_another_kernel_is_not_read(tmp_path: Path) -> None:
    Golden(tmp_path).write("/boot/config-5.10.110", FIREFLY.encode())
    assert read_option(BoardFiles(str(tmp_path)), RELEASE) == (None, None)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"5.10.160-rockchip-rk3588\n", "5.10.160-rockchip-rk3588"),
        (b"6.12.25+rpt-rpi-2712\n", "6.12.25+rpt-rpi-2712"),
        (b"5.10.66-24-rockchip-gcb09ad15af75\n", "5.10.66-24-rockchip-gcb09ad15af75"),
        (b"../../etc\n", None),
        (b"6.1\nx\n", None),
        (b"\xff\n", None),
        (b"", None),
    ],
)
def test_release(content: bytes, expected: str | None, tmp_path: Path) -> None:
    Golden(tmp_path).write("/proc/sys/kernel/osrelease", content)
    assert read_release(BoardFiles(str(tmp_path))) == expected


@pytest.mark.parametrize(
    ("files", "option", "expected"),
    [
        ({}, None, "absent"),
        ({}, "n", "absent"),
        ({}, "m", "absent"),
        # An option of the running kernel that says y is enough.
        ({}, "y", "builtin"),
        ({"/sys/module/rknpu/version": "0.9.8\n"}, "n", "builtin"),
        ({"/sys/module/rknpu/initstate": "live\n"}, "n", "loaded"),
        # A driver that is there without a module: built in, with neither version nor parameters.
        ({"/sys/bus/platform/drivers/RKNPU/bind": ""}, "n", "builtin"),
        (
            {f"/lib/modules/{RELEASE}/modules.builtin": "kernel/drivers/rknpu/rknpu.ko\n"},
            None,
            "builtin",
        ),
        (
            {f"/lib/modules/{RELEASE}/modules.dep": "kernel/drivers/rknpu/rknpu.ko:\n"},
            "m",
            "available",
        ),
        (
            {f"/lib/modules/{RELEASE}/modules.dep": "updates/dkms/rknpu.ko.zst: a.ko\n"},
            "n",
            "available",
        ),
        ({f"/lib/modules/{RELEASE}/modules.dep": "extra/rknpu.ko.xz:\n"}, None, "available"),
        # Others' modules, and modules that merely need it.
        ({f"/lib/modules/{RELEASE}/modules.dep": "extra/x.ko: extra/rknpu.ko\n"}, None, "absent"),
        ({f"/lib/modules/{RELEASE}/modules.dep": "extra/not_rknpu.ko:\n"}, None, "absent"),
        ({"/lib/modules/5.10.110/modules.dep": "extra/rknpu.ko:\n"}, None, "absent"),
    ],
)
def test_module_state(
    files: dict[str, str], option: str | None, expected: str, tmp_path: Path
) -> None:
    golden = Golden(tmp_path)
    for path, text in files.items():
        golden.write(path, text.encode())
    assert read_module_state(BoardFiles(str(tmp_path)), RELEASE, option) == expected
