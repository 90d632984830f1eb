# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is on this board: SoC, kernel, NPU driver, nodes, cores, load.

Standard library only, Python 3.8 or newer. Reading never raises, never changes anything and never
wakes the NPU; what cannot be found out is None.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Callable

from .board_files import BoardFiles, is_char_device
from .device_tree import find_soc, read_compatible, read_model, read_npu_node
from .kernel import read_module_state, read_option, read_release
from .load import clamp_load, find_load_files, parse_load, read_version
from .load import read_load as read_load_file
from .npu import Npu, count_interrupts, find_dma_heaps, find_npu

__all__ = ["NPU_SOCS", "Board", "Npu", "parse_load", "read_board", "read_load", "read_npu"]

# Cores of the NPU by SoC the RKNPU driver serves, from the driver's own tables (rknpu_drv.c).
_CORES = {
    "rk3588": 3,
    "rk3583": 2,
    "rk3576": 2,
    "rk3568": 1,
    "rk3566": 1,
    "rk3562": 1,
    "rv1103": 1,
    "rv1106": 1,
    "rv1126b": 1,
}
NPU_SOCS = frozenset(_CORES)


@dataclass(frozen=True)
class Board:
    """A board and its NPU at the moment of reading.

    model: the board's name, for people only.
    compatible: entries of the device tree, most specific first.
    soc: SoC family, for example "rk3588" for all its variants; None if this is no Rockchip board.
    soc_variant: its most specific name, for example "rk3588s".
    kernel_release: as `uname -r` prints it.
    kernel_option: CONFIG_ROCKCHIP_RKNPU, "y", "m", "n", or None where no configuration was found.
    kernel_option_source: the file that says so.
    driver: the driver bound to the NPU, "rknpu", "rocket" (mainline, no RKNN runtime) or "none".
    driver_version: of RKNPU, for example "0.9.8".
    module: RKNPU in this kernel, "builtin", "loaded", "available" (not loaded) or "absent".
    mode: "drm", "dma_heap", "accel" or "none".
    devices: bound platform devices, for example ["fdab0000.npu"].
    cores: of the NPU; None if unknown.
    nodes: the NPU's own existing character devices, card before render.
    dma_heaps: existing /dev/dma_heap/* character devices.
    permissions: mode of each of these nodes, for example {"/dev/dri/card1": "0660"}.
    rknpu_link: target of /dev/rknpu where that is a symbolic link, which breaks the RKNN runtime.
    device_tree: state of the NPU's node, "enabled", "disabled" or "absent".
    device_tree_node: its name, for example "npu@fdab0000".
    device_tree_driver: the driver that this node is for, "rknpu" or "rocket"; None if unknown.
    debugfs_mounted: whether debugfs is mounted at /sys/kernel/debug.
    load_directory: where the driver's files load and version are.
    load: busy share of each core in percent, 0 to 100; None if it cannot be read.
    load_out_of_range: cores whose printed load was above 100, which old drivers do print; the
        load of these cores says nothing.
    """

    model: str | None
    compatible: list[str]
    soc: str | None
    soc_variant: str | None
    kernel_release: str | None
    kernel_option: str | None
    kernel_option_source: str | None
    driver: str
    driver_version: str | None
    module: str
    mode: str
    devices: list[str]
    cores: int | None
    nodes: list[str]
    dma_heaps: list[str]
    permissions: dict[str, str]
    rknpu_link: str | None
    device_tree: str
    device_tree_node: str | None
    device_tree_driver: str | None
    debugfs_mounted: bool
    load_directory: str | None
    load: dict[int, int] | None
    load_out_of_range: list[int]

    @property
    def default_shares(self) -> int:
        """Pods that may share the NPU unless told otherwise: 2 on several cores, 1 on one."""
        return 2 if (self.cores or _CORES.get(self.soc or "", 1)) > 1 else 1

    def to_dict(self) -> dict[str, Any]:
        """The board as JSON can carry it: core numbers are strings in `load`."""
        fields = asdict(self)
        fields["debugfs"] = {
            "mounted": fields.pop("debugfs_mounted"),
            "directory": fields.pop("load_directory"),
        }
        if self.load is not None:
            fields["load"] = {str(core): percent for core, percent in self.load.items()}
        fields["default_shares"] = self.default_shares
        return fields


def read_npu(root: str = "/", char_device: Callable[[str], bool] = is_char_device) -> Npu:
    """The bound driver and the nodes only, for checks that run every second.

    Costs a few directory listings in sysfs, about a millisecond on a board, and opens no file.
    """
    return find_npu(BoardFiles(root, char_device))


def read_load(root: str = "/") -> dict[int, int] | None:
    """The load of each core as the driver prints it, also above 100; None if it is unreadable.

    Costs one small file; the driver averages over one second, so more often is of no use.
    """
    files = BoardFiles(root)
    return read_load_file(files, find_load_files(files).directory)


def read_board(root: str = "/", char_device: Callable[[str], bool] = is_char_device) -> Board:
    """Read everything about a board. Costs some ten milliseconds, mostly for the kernel options.

    Args:
        root: directory that holds the board's /dev, /proc, /sys, /boot and /lib.
        char_device: the check for a character device, given a path below *root*; tests replace
            it, because only root can create device nodes.
    """
    files = BoardFiles(root, char_device)
    npu = find_npu(files)
    compatible = read_compatible(files)
    soc, soc_variant = find_soc(compatible)
    release = read_release(files)
    option = read_option(files, release)
    node = read_npu_node(files)
    load_files = find_load_files(files)
    load = read_load_file(files, load_files.directory)
    heaps = find_dma_heaps(files)
    permissions = {path: files.permissions(path) for path in npu.nodes + heaps}
    return Board(
        model=read_model(files),
        compatible=compatible,
        soc=soc,
        soc_variant=soc_variant,
        kernel_release=release,
        kernel_option=option.value,
        kernel_option_source=option.source,
        driver=npu.driver,
        driver_version=read_version(files, load_files.directory),
        module=read_module_state(files, release, option.value),
        mode=npu.mode,
        devices=npu.devices,
        cores=_count_cores(files, npu, load, soc_variant or "", soc or ""),
        nodes=npu.nodes,
        dma_heaps=heaps,
        permissions={path: mode for path, mode in permissions.items() if mode},
        rknpu_link=files.link_target("/dev/rknpu"),
        # The kernel makes no platform device for a disabled node, so a bound one proves it enabled.
        device_tree="enabled" if npu.devices else node.state,
        device_tree_node=node.name,
        device_tree_driver=node.driver,
        debugfs_mounted=load_files.mounted,
        load_directory=load_files.directory,
        load=None if load is None else clamp_load(load),
        load_out_of_range=sorted(core for core, percent in (load or {}).items() if percent > 100),
    )


def _count_cores(
    files: BoardFiles, npu: Npu, load: dict[int, int] | None, variant: str, family: str
) -> int | None:
    """Cores of the NPU, by the source that is nearest to the hardware.

    rocket binds one device per core. RKNPU prints one load per core it drives, which accounts for
    dies with a core turned off, and requests one interrupt per core, which every user can see. Old
    kernels request a single one where the device tree names none, so the load comes first. The
    SoC's name comes last: a vendor's tree may call an RK3583 an RK3588.
    """
    if npu.driver == "rocket":
        return len(npu.devices)
    if npu.driver == "rknpu":
        live = len(load) if load else count_interrupts(files, npu.devices)
        if live:
            return live
    # Sold with 5 of the 6 TOPS of three cores: https://github.com/radxa-docs/docs/pull/1506.
    return None if variant == "rk3582" else _CORES.get(variant, _CORES.get(family))
