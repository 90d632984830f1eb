# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The NPU's driver and its own device nodes, found through the bound driver, never by number.

Numbers of DRM nodes depend on what probed first: https://github.com/waydroid/waydroid/issues/1836.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .board_files import BoardFiles

DRIVERS = "/sys/bus/platform/drivers"
# The vendor's driver registers as "RKNPU", some ports as "rknpu"; mainline's is "rocket".
_KNOWN = ("rknpu", "rocket")
_DRM_NODE = re.compile(r"(card|renderD)([0-9]{1,9})")
_ACCEL_NODE = re.compile(r"accel([0-9]{1,9})")
# rocket's one DRM device hangs on this platform device, not on the cores (its file rocket_drv.c).
_ROCKET_DEVICE = "/sys/bus/platform/devices/rknn"


class Npu(NamedTuple):
    """The NPU as its driver shows it.

    driver: "rknpu", "rocket" or "none" - the driver bound to at least one device.
    mode: "drm" (/dev/dri nodes), "dma_heap" (/dev/rknpu), "accel" (/dev/accel) or "none".
    devices: names of the bound platform devices, for example ["fdab0000.npu"].
    nodes: the NPU's own device nodes that exist, card before render; never a symbolic link.
    """

    driver: str
    mode: str
    devices: list[str]
    nodes: list[str]


def find_npu(files: BoardFiles) -> Npu:
    """Find the bound driver and the nodes. Lists a few sysfs directories and opens no file."""
    for name in files.names(DRIVERS):
        driver = name.lower()
        if driver not in _KNOWN:
            continue
        devices = _bound_devices(files, f"{DRIVERS}/{name}")
        if not devices:
            continue
        if driver == "rocket":
            mode, candidates = "accel", _accel_nodes(files)
        else:
            mode, candidates = _rknpu_nodes(files, f"{DRIVERS}/{name}", devices)
        nodes = [path for path in candidates if files.is_char_device(path)]
        return Npu(driver, mode, devices, nodes)
    return Npu("none", "none", [], [])


def find_dma_heaps(files: BoardFiles) -> list[str]:
    """The DMA heaps that exist. Which ones a kernel has differs, and so do their numbers."""
    paths = [f"/dev/dma_heap/{name}" for name in files.names("/dev/dma_heap")]
    return [path for path in paths if files.is_char_device(path)]


def count_interrupts(files: BoardFiles, devices: list[str]) -> int | None:
    """Interrupts that the NPU's devices hold, one per core; None if none is listed.

    The driver requests them under its device's name and shares them with the IOMMU, so a line ends
    in "fdab9000.iommu, fdab0000.npu".
    """
    text = files.text("/proc/interrupts", 1024 * 1024) or ""
    wanted = set(devices)
    lines = [line for line in text.splitlines() if wanted & set(re.split(r"[,\s]+", line))]
    return len(lines) or None


def _bound_devices(files: BoardFiles, driver: str) -> list[str]:
    # Beside the devices a driver's directory holds control files and a link to its module.
    names = [name for name in files.names(driver) if name != "module"]
    return [name for name in names if files.is_directory(f"{driver}/{name}")]


def _rknpu_nodes(files: BoardFiles, driver: str, devices: list[str]) -> tuple[str, list[str]]:
    """Mode and possible nodes of the vendor driver, which is built for either DRM or DMA heaps."""
    drm: list[str] = []
    for device in devices:
        nodes = filter(None, map(_DRM_NODE.fullmatch, files.names(f"{driver}/{device}/drm")))
        # "card" sorts before "renderD".
        drm += [
            f"/dev/dri/{node.group()}"
            for node in sorted(nodes, key=lambda node: (node.group(1), int(node.group(2))))
        ]
    if drm:
        return "drm", drm
    # The misc device has no parent in sysfs, so its name is all there is.
    if files.is_directory("/sys/class/misc/rknpu") or files.is_char_device("/dev/rknpu"):
        return "dma_heap", ["/dev/rknpu"]
    return "none", []


def _accel_nodes(files: BoardFiles) -> list[str]:
    names = files.names(f"{_ROCKET_DEVICE}/accel")
    return [f"/dev/accel/{name}" for name in names if _ACCEL_NODE.fullmatch(name)]
