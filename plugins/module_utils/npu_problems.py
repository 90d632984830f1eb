# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What stands between a board and a usable NPU, each with its remedy."""

from __future__ import annotations

from typing import NamedTuple

from .board import NPU_SOCS, Board

_VENDOR_KERNEL = "Install the board vendor's kernel, such as linux-image-vendor-rk35xx, and reboot."


class Problem(NamedTuple):
    """One problem: a stable code, what is wrong, what to do, and whether no pod can use the NPU."""

    code: str
    message: str
    remedy: str
    blocking: bool


def is_usable(board: Board, problems: list[Problem]) -> bool:
    """Whether the NPU works for RKNN programs now or once its module is loaded."""
    return (
        not any(problem.blocking for problem in problems)
        and board.driver != "rocket"
        and (board.driver == "rknpu" or board.module == "available")
    )


def find_problems(board: Board) -> list[Problem]:
    """All problems of a board, the cause before its consequences."""
    if board.driver == "rknpu":
        return _node_problems(board) + _reading_problems(board)
    if board.driver == "rocket":
        return [_rocket_driver(board)]
    if board.soc is None:
        return [_not_rockchip(board)]
    if board.soc not in NPU_SOCS and board.device_tree == "absent":
        return [_soc_without_npu(board)]
    return _driver_problems(board)


def _driver_problems(board: Board) -> list[Problem]:
    """Why no driver is bound. A device tree can only be at fault where there is a driver for it."""
    if board.module == "absent":
        return [_driver_missing(board)]
    problems = [_module_not_loaded(board)] if board.module == "available" else []
    if board.device_tree == "absent" or board.device_tree_driver == "rocket":
        problems.append(_device_tree_missing(board))
    elif board.device_tree == "disabled":
        problems.append(_device_tree_disabled(board))
    elif not problems:
        problems.append(_driver_not_bound(board))
    return problems


def _node_problems(board: Board) -> list[Problem]:
    problems = []
    if not board.nodes:
        problems.append(_nodes_missing(board))
    if board.rknpu_link is not None:
        problems.append(_rknpu_link(board))
    closed = {
        path: mode for path, mode in board.permissions.items() if int(mode, 8) & 0o006 != 0o006
    }
    if closed:
        problems.append(_permissions(closed))
    if not board.dma_heaps:
        problems.append(_dma_heap_missing())
    return problems


def _reading_problems(board: Board) -> list[Problem]:
    """What hides the load or the SoC, but keeps no pod from the NPU."""
    problems = []
    if board.load_directory is None and not board.debugfs_mounted:
        problems.append(_debugfs_not_mounted())
    elif board.load is None:
        problems.append(_load_unavailable())
    if not board.compatible:
        problems.append(_device_tree_unreadable())
    return problems


def _kernel(board: Board) -> str:
    return f"kernel {board.kernel_release}" if board.kernel_release else "the running kernel"


def _not_rockchip(board: Board) -> Problem:
    name = f" ({board.model})" if board.model else ""
    return Problem(
        "not_rockchip",
        f"This machine{name} has no Rockchip SoC in its device tree.",
        "Nothing to do: it can be a node without an NPU. Set npu_state to absent to say so.",
        False,
    )


def _soc_without_npu(board: Board) -> Problem:
    return Problem(
        "soc_without_npu",
        f"The SoC {board.soc_variant} has no NPU for the RKNPU driver.",
        "Nothing to do: it can be a node without an NPU. Set npu_state to absent to say so.",
        False,
    )


def _driver_missing(board: Board) -> Problem:
    where = _kernel(board)
    if board.kernel_option == "m":
        detail = f"CONFIG_ROCKCHIP_RKNPU=m, but /lib/modules/{board.kernel_release} has no rknpu.ko"
        remedy = "Install the modules package of exactly this kernel, or: "
    elif board.kernel_option == "n":
        detail = f"CONFIG_ROCKCHIP_RKNPU is not set in {board.kernel_option_source}"
        remedy = ""
    else:
        detail = "no trace of it in sysfs or /lib/modules"
        remedy = ""
    return Problem(
        "driver_missing",
        f"The RKNPU driver is not in {where}: {detail}.",
        remedy + _VENDOR_KERNEL,
        True,
    )


def _rocket_driver(board: Board) -> Problem:
    return Problem(
        "rocket_driver",
        f"The NPU of {_kernel(board)} is driven by mainline's rocket driver, "
        "which the RKNN and RKLLM runtimes cannot use.",
        _VENDOR_KERNEL,
        True,
    )


def _module_not_loaded(board: Board) -> Problem:
    return Problem(
        "module_not_loaded",
        f"The RKNPU driver of {_kernel(board)} is a module that is not loaded.",
        "Run 'modprobe rknpu' and name it in /etc/modules-load.d; "
        "the role rocknpu.edge.npu does both.",
        False,
    )


def _device_tree_disabled(board: Board) -> Problem:
    return Problem(
        "device_tree_disabled",
        f"The NPU's node {board.device_tree_node} is disabled in the device tree.",
        "Enable the board's NPU overlay, for example rk3568-npu-enable in /boot/armbianEnv.txt "
        "or with rsetup, and reboot.",
        True,
    )


def _device_tree_missing(board: Board) -> Problem:
    found = "no node for the NPU"
    if board.device_tree_driver == "rocket":
        found = f"the node {board.device_tree_node} for mainline's rocket driver only"
    return Problem(
        "device_tree_missing",
        f"The device tree has {found}, though the kernel has the RKNPU driver.",
        "Boot with the device tree of the vendor's kernel, or with the overlay that comes with an "
        "out-of-tree driver (fdtfile, fdt or overlays in the boot configuration).",
        True,
    )


def _driver_not_bound(board: Board) -> Problem:
    return Problem(
        "driver_not_bound",
        f"The RKNPU driver is in {_kernel(board)}, but not bound to {board.device_tree_node}.",
        "Look for 'RKNPU' in the kernel's log (dmesg); often the device tree does not belong to "
        "this kernel.",
        True,
    )


def _nodes_missing(board: Board) -> Problem:
    expected = {
        "drm": "its nodes in /dev/dri do not exist as character devices",
        "dma_heap": "/dev/rknpu does not exist as a character device",
    }.get(board.mode, "it has registered neither DRM nodes nor /dev/rknpu")
    return Problem(
        "nodes_missing",
        f"The RKNPU driver is bound to {', '.join(board.devices)}, but {expected}.",
        "Check that /dev is a devtmpfs (in a container: that the host's /dev is mounted) and run "
        "'udevadm trigger --subsystem-match=drm --subsystem-match=misc'; if nothing appears, look "
        "for 'RKNPU' in the kernel's log (dmesg).",
        True,
    )


def _rknpu_link(board: Board) -> Problem:
    return Problem(
        "rknpu_link",
        f"/dev/rknpu is a symbolic link to {board.rknpu_link}, which makes the RKNN runtime report "
        "hw_version = -1.",
        "Remove the link and the udev rule or script that makes it.",
        False,
    )


def _permissions(closed: dict[str, str]) -> Problem:
    listed = ", ".join(f"{path} ({mode})" for path, mode in closed.items())
    return Problem(
        "permissions",
        f"Users other than the owner and the group cannot read and write {listed}.",
        "The role rocknpu.edge.npu opens them by a udev rule (npu_device_mode, npu_device_group); "
        "with a mode like 0660 pods need the group in supplementalGroups.",
        False,
    )


def _dma_heap_missing() -> Problem:
    return Problem(
        "dma_heap_missing",
        "There is no DMA heap in /dev/dma_heap, and newer RKNN runtimes open /dev/dma_heap/system.",
        "Use a kernel with CONFIG_DMABUF_HEAPS_SYSTEM, as vendor kernels have.",
        False,
    )


def _debugfs_not_mounted() -> Problem:
    return Problem(
        "debugfs_not_mounted",
        "debugfs is not mounted at /sys/kernel/debug, so the NPU's load cannot be read.",
        "Run 'systemctl start sys-kernel-debug.mount'; the role rocknpu.edge.npu does it.",
        False,
    )


def _load_unavailable() -> Problem:
    return Problem(
        "load_unavailable",
        "The NPU's load cannot be read.",
        "Read it as root, debugfs is closed to other users. A kernel built without "
        "CONFIG_ROCKCHIP_RKNPU_DEBUG_FS and CONFIG_ROCKCHIP_RKNPU_PROC_FS has no load.",
        False,
    )


def _device_tree_unreadable() -> Problem:
    return Problem(
        "device_tree_unreadable",
        "The device tree cannot be read, so the SoC is unknown.",
        "In a container /sys/firmware is masked: mount the host's /sys at another place.",
        False,
    )
