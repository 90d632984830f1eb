# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the device tree says: model, SoC, and whether its NPU node is enabled."""

from __future__ import annotations

import re
from typing import NamedTuple

from .board_files import BoardFiles

# /proc/device-tree is an absolute link to the first, which container runtimes mask.
BASES = ("/sys/firmware/devicetree/base", "/proc/device-tree")

# "rockchip,rk3588s" names a SoC, "rockchip,rk3588s-orangepi-5" a board that names one on its way.
_SOC = re.compile(r"rockchip,(r[kv][0-9]{4}[a-z0-9]*)(?:-.*)?")

# RK3582 and RK3583 are RK3588 dies with parts turned off and run what is built for rk3588
# (https://docs.radxa.com/en/rock5/rock5c/app-development/rknn_toolkit2).
_SAME_FAMILY = {"rk3582": "rk3588", "rk3583": "rk3588"}

_NPU_NODE = re.compile(r"(?:rk)?npu@[0-9a-f]+")


class NpuNode(NamedTuple):
    """The NPU in the device tree.

    state: "enabled", "disabled" or "absent".
    name: of the node, for example "npu@fdab0000".
    driver: the driver that the node's `compatible` is for, "rknpu" or "rocket"; None if unknown.
    """

    state: str
    name: str | None
    driver: str | None


def split_strings(value: bytes) -> list[str]:
    """Strings of a device-tree property; entries that are not printable ASCII are dropped.

    >>> split_strings(b"radxa,rock-5c\\0rockchip,rk3588f\\0")
    ['radxa,rock-5c', 'rockchip,rk3588f']
    """
    return [
        entry.decode("ascii")
        for entry in value.split(b"\0")
        if entry and all(0x20 <= byte < 0x7F for byte in entry)
    ]


def soc_family(variant: str) -> str:
    """SoC without the letters of its variant: "rk3588" for "rk3588s2".

    RV names keep their letter, because RV1126B has another NPU than RV1126.
    """
    family = variant[:6] if variant.startswith("rk") else variant
    return _SAME_FAMILY.get(family, family)


def find_soc(compatible: list[str]) -> tuple[str | None, str | None]:
    """Family and most specific name of the SoC, both None if the board has no Rockchip SoC.

    Entries go from the board to the SoC, so the last Rockchip entry decides on the family and the
    first one of that family is the most specific. Vendor and upstream kernels list one board
    differently, see
    https://github.com/blakeblackshear/frigate/pull/10090.

    >>> find_soc(["rockchip,rk3588s-orangepi-5", "rockchip,rk3588"])
    ('rk3588', 'rk3588s')
    """
    names = [match.group(1) for match in map(_SOC.fullmatch, compatible) if match]
    if not names:
        return None, None
    family = soc_family(names[-1])
    return family, next(name for name in names if soc_family(name) == family)


def _base(files: BoardFiles) -> str | None:
    """The first device-tree directory that shows anything."""
    return next((base for base in BASES if files.names(base)), None)


def read_model(files: BoardFiles) -> str | None:
    """The board's name, for people only: it need not name the SoC and differs between kernels."""
    base = _base(files)
    strings = split_strings((base and files.read(f"{base}/model")) or b"")
    return strings[0].strip() or None if strings else None


def read_compatible(files: BoardFiles) -> list[str]:
    """The board's `compatible` entries, empty where there is no readable device tree."""
    base = _base(files)
    return split_strings((base and files.read(f"{base}/compatible")) or b"")


def read_npu_node(files: BoardFiles) -> NpuNode:
    """The device tree's NPU node; of several (one per core upstream) the first enabled one."""
    base = _base(files)
    if base is None:
        return NpuNode("absent", None, None)
    # Rockchip's trees and mainline's RK3588 have it at the top, other mainline trees below /soc.
    places = [base] + [f"{base}/{name}" for name in files.names(base) if name.startswith("soc")]
    disabled = NpuNode("absent", None, None)
    for place in places:
        for name in filter(_NPU_NODE.fullmatch, files.names(place)):
            # Without the property a node is enabled; only "okay" and "ok" say so too.
            status = split_strings(files.read(f"{place}/{name}/status") or b"okay")
            if status and status[0] in ("okay", "ok"):
                return NpuNode("enabled", name, _node_driver(files, f"{place}/{name}"))
            if disabled.name is None:
                disabled = NpuNode("disabled", name, _node_driver(files, f"{place}/{name}"))
    return disabled


def _node_driver(files: BoardFiles, node: str) -> str | None:
    """The two drivers match different `compatible` entries at the same place in the tree."""
    for entry in split_strings(files.read(f"{node}/compatible") or b""):
        for ending, driver in (("rknpu", "rknpu"), ("-rknn-core", "rocket")):
            if entry.endswith(ending):
                return driver
    return None
