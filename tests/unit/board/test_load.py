# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The driver's load and version texts, as public reports show them."""

from __future__ import annotations

import time

import pytest
from ansible_collections.rocknpu.edge.plugins.module_utils.load import (
    clamp_load,
    parse_load,
    parse_version,
)
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NPU load:  Core0:  0%, Core1:  0%, Core2:  0%,\n", {0: 0, 1: 0, 2: 0}),
        # https://github.com/ajokela/rktop/issues/5
        ("NPU load:  Core0: 63%, Core1: 65%, Core2: 64%,\n", {0: 63, 1: 65, 2: 64}),
        # https://github.com/airockchip/rknn-toolkit2/issues/269
        ("NPU load:  Core0:  21%, Core1:  11%, Core2:  0%,", {0: 21, 1: 11, 2: 0}),
        # two cores: derived from rknpu_debugger.c
        ("NPU load:  Core0:  0%, Core1:  0%,\n", {0: 0, 1: 0}),
        ("NPU load:  Core0: 100%, Core1:  0%, Core2:  0%,\n", {0: 100, 1: 0, 2: 0}),
        # one core has no label: https://github.com/nicolargo/glances/pull/3499
        ("NPU load:  0%\n", {0: 0}),
        ("NPU load: 48%\n", {0: 48}),
        # https://github.com/rockchip-linux/rknpu2/issues/102
        ("NPU load: Core0: 99%, Core1: 99%, Core2: 429496%", {0: 99, 1: 99, 2: 429496}),
        # https://github.com/rockchip-linux/rknn-toolkit2/issues/293
        ("NPU load: 20000%\n", {0: 20000}),
        # C's printf of 0 with precision 0
        ("NPU load:  Core0:   %, Core1:  5%,\n", {0: 0, 1: 5}),
        ("NPU load:   %\n", {0: 0}),
        ("\r\nNPU load: 7%\r\n", {0: 7}),
        # a core's number is taken as it is listed
        ("NPU load:  Core1: 3%, Core2: 4%,\n", {1: 3, 2: 4}),
    ],
)
def test_load(text: str, expected: dict[int, int]) -> None:
    assert parse_load(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "NPU load:\n",
        "NPU load: unavailable (device not ready)\n",
        # the RGA's load, https://github.com/MarcA711/Rockchip-FFmpeg-Builds/issues/3
        "num of scheduler = 3\n================= load ==================\n\t load = 0%\n",
        # a devfreq load, which is constant for this driver
        "100@1000000000Hz\n",
        # half a line is no reading: the missing core would look idle or absent
        "NPU load:  Core0: 63%, Core1: ",
        "NPU load:  Core0: 63%, Core1: x%,\n",
        "NPU load:  Core0: 63%, Core0: 65%,\n",
        "NPU load: -5%\n",
        "NPU load: 1e3%\n",
        "NPU load: ٤٢%\n",
        "NPU load: 123456789012345678901%\n",
        "xNPU load: 5%\n",
    ],
)
def test_other_texts_are_unknown_not_idle(text: str) -> None:
    assert parse_load(text) is None


@given(st.dictionaries(st.integers(0, 999), st.integers(0, 2**64 - 1), min_size=2))
def test_every_load_the_driver_prints_is_read_back(load: dict[int, int]) -> None:
    printed = "".join(f" Core{core}: {percent:2d}%," for core, percent in load.items())
    assert parse_load(f"NPU load: {printed}\n") == load


@given(st.integers(0, 2**64 - 1))
def test_every_load_of_one_core_is_read_back(percent: int) -> None:
    assert parse_load(f"NPU load: {percent:2d}%\n") == {0: percent}


@given(st.text() | st.text("NPUload: Cre0123456789%,\n\t").map("NPU load: ".__add__))
def test_any_text_is_a_load_or_unknown(text: str) -> None:
    load = parse_load(text)
    assert load is None or (load and all(core >= 0 <= percent for core, percent in load.items()))


@pytest.mark.parametrize(
    "text",
    [
        "NPU load: " + "Core0: 1%, " * 6000 + "x",
        "NPU load:" + " " * 65536,
        "NPU load: Core" + " " * 65536,
        "NPU load: Core0:" + " " * 65536,
        "NPU load: Core0: 1" + " " * 65536 + "x",
        "NPU load: 1" + " " * 65536 + "x",
    ],
    ids=["cores", "value", "label", "colon", "core", "single"],
)
def test_long_text_takes_no_time(text: str) -> None:
    """64 kB is the most that is read; a pattern that backtracks needs half a minute for it."""
    start = time.process_time()
    assert parse_load(text) is None
    assert time.process_time() - start < 1


@given(st.dictionaries(st.integers(0, 9), st.integers(0, 10**9)))
def test_clamped_load_is_a_percentage(load: dict[int, int]) -> None:
    clamped = clamp_load(load)
    assert clamped.keys() == load.keys()
    assert all(clamped[core] == (load[core] if load[core] <= 100 else 100) for core in load)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RKNPU driver: v0.9.8\n", "0.9.8"),
        ("RKNPU driver: v0.9.3\n", "0.9.3"),
        ("RKNPU driver: 0.9.8", "0.9.8"),
        ("0.9.8\n", "0.9.8"),
        ("RKNPU driver:\n", None),
        ("", None),
        ("RKNPU driver: v0.9\n", None),
        ("1.2.3.4\n", None),
    ],
)
def test_version(text: str, expected: str | None) -> None:
    assert parse_version(text) == expected


@given(st.tuples(*[st.integers(0, 9999)] * 3))
def test_every_version_is_read_back(numbers: tuple[int, int, int]) -> None:
    version = ".".join(map(str, numbers))
    assert parse_version(f"RKNPU driver: v{version}\n") == version
