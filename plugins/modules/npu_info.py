#!/usr/bin/python
# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ansible module that reads a board's NPU."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: npu_info
short_description: Read the NPU of a Rockchip board
version_added: 1.0.0
description:
  - Returns what a board's kernel shows of its NPU, among it the SoC, the bound driver, the device
    nodes, the cores and the load, and a list of the problems that keep programs from using it.
  - Everything comes from files in C(/sys), C(/proc), C(/dev), C(/boot) and C(/lib/modules). No
    command is run, and the NPU is not woken up.
  - Works on any machine. One without a Rockchip SoC is reported as such.
options:
  root:
    description:
      - Directory that holds the board's C(/sys), C(/proc), C(/dev), C(/boot) and C(/lib).
      - Other values than C(/) are for root file systems mounted elsewhere.
    type: path
    default: /
extends_documentation_fragment:
  - rocknpu.edge.reads_only
requirements:
  - python >= 3.8
notes:
  - Run it with C(become=true). An ordinary user cannot look into debugfs, and then RV(npu.load) is
    null on most kernels.
seealso:
  - module: rocknpu.edge.node_capacity
author:
  - The rocknpu.edge authors (@rocknpu)
"""

EXAMPLES = r"""
- name: Read the NPU
  rocknpu.edge.npu_info:
  become: true
  register: board

- name: Stop if no pod could use it
  ansible.builtin.assert:
    that: board.usable
    fail_msg: "{{ board.problems | map(attribute='message') | join(' ') }}"

- name: Show the nodes and the load
  ansible.builtin.debug:
    msg: "{{ board.npu.nodes | join(', ') }}, load {{ board.npu.load }}"
"""

RETURN = r"""
npu:
  description: The board and its NPU. Values that cannot be found out are null.
  returned: always
  type: dict
  contains:
    model:
      description: Name of the board, for people only. It need not name the SoC.
      returned: always
      type: str
      sample: Xunlong Orange Pi 5
    compatible:
      description: Entries of the device tree's property C(compatible), from the board to the SoC.
      returned: always
      type: list
      elements: str
      sample: ["xunlong,orangepi-5", "rockchip,rk3588s"]
    soc:
      description: SoC without its variant, null if this is no Rockchip board.
      returned: always
      type: str
      sample: rk3588
    soc_variant:
      description: Most specific name of the SoC that the device tree has.
      returned: always
      type: str
      sample: rk3588s
    kernel_release:
      description: Release of the running kernel.
      returned: always
      type: str
      sample: 6.1.115-vendor-rk35xx
    kernel_option:
      description:
        - Value of C(CONFIG_ROCKCHIP_RKNPU), V(y), V(m) or V(n), null if no kernel configuration was
          found.
        - A hint only, as a driver may come from outside of the kernel's sources.
      returned: always
      type: str
      sample: y
    kernel_option_source:
      description: File that RV(npu.kernel_option) is from.
      returned: always
      type: str
      sample: /proc/config.gz
    driver:
      description: Driver that is bound to the NPU, V(rknpu), V(rocket) (mainline) or V(none).
      returned: always
      type: str
      sample: rknpu
    driver_version:
      description: Version of the RKNPU driver.
      returned: always
      type: str
      sample: 0.9.8
    module:
      description:
        - The RKNPU driver in the running kernel, V(builtin), V(loaded) (a module), V(available) (a
          module that is not loaded) or V(absent).
      returned: always
      type: str
      sample: builtin
    mode:
      description:
        - Kind of the device nodes, V(drm) (in C(/dev/dri)), V(dma_heap) (C(/dev/rknpu)), V(accel)
          (in C(/dev/accel)) or V(none).
      returned: always
      type: str
      sample: drm
    devices:
      description: Platform devices that the driver is bound to.
      returned: always
      type: list
      elements: str
      sample: [fdab0000.npu]
    cores:
      description: Number of NPU cores.
      returned: always
      type: int
      sample: 3
    nodes:
      description: The NPU's own character devices that exist, card before render node.
      returned: always
      type: list
      elements: str
      sample: [/dev/dri/card1, /dev/dri/renderD129]
    dma_heaps:
      description: DMA heaps that exist.
      returned: always
      type: list
      elements: str
      sample: [/dev/dma_heap/system]
    permissions:
      description: Permission bits of each path in RV(npu.nodes) and RV(npu.dma_heaps).
      returned: always
      type: dict
      sample: {/dev/dri/card1: "0660"}
    rknpu_link:
      description: Target of C(/dev/rknpu) if that is a link, which breaks the RKNN runtime.
      returned: always
      type: str
      sample: dri/renderD129
    device_tree:
      description: State of the NPU's node in the device tree, V(enabled), V(disabled) or V(absent).
      returned: always
      type: str
      sample: enabled
    device_tree_node:
      description: Name of that node.
      returned: always
      type: str
      sample: npu@fdab0000
    device_tree_driver:
      description: Driver that this node is for, V(rknpu) or V(rocket).
      returned: always
      type: str
      sample: rknpu
    debugfs:
      description: Where the driver shows its load.
      returned: always
      type: dict
      contains:
        mounted:
          description: Whether debugfs is mounted at C(/sys/kernel/debug).
          returned: always
          type: bool
          sample: true
        directory:
          description: Directory of the driver's files, in debugfs or C(/proc/rknpu).
          returned: always
          type: str
          sample: /sys/kernel/debug/rknpu
    load:
      description: Busy share of each core in percent, by the core's number as a string.
      returned: always
      type: dict
      sample: {"0": 63, "1": 65, "2": 64}
    load_out_of_range:
      description:
        - Cores for which the driver printed more than 100 percent, as old drivers do. RV(npu.load)
          has 100 for them, which says nothing then.
      returned: always
      type: list
      elements: int
      sample: []
    default_shares:
      description: Number of pods that share the NPU unless told otherwise.
      returned: always
      type: int
      sample: 2
problems:
  description: What keeps programs from using the NPU or this collection from reading it.
  returned: always
  type: list
  elements: dict
  contains:
    code:
      description:
        - Stable name of the problem.
        - Blocking are V(driver_missing), V(rocket_driver), V(device_tree_disabled),
          V(device_tree_missing), V(driver_not_bound) and V(nodes_missing).
        - Not blocking are V(not_rockchip), V(soc_without_npu), V(module_not_loaded),
          V(permissions), V(rknpu_link), V(dma_heap_missing), V(debugfs_not_mounted),
          V(load_unavailable) and V(device_tree_unreadable).
      returned: always
      type: str
      sample: device_tree_disabled
    message:
      description: What is wrong, in one sentence.
      returned: always
      type: str
      sample: The NPU's node npu@fde40000 is disabled in the device tree.
    remedy:
      description: What to do.
      returned: always
      type: str
      sample: Enable the board's NPU overlay and reboot.
    blocking:
      description: Whether no program can use the NPU until this is repaired.
      returned: always
      type: bool
      sample: true
usable:
  description: Whether RKNN programs can use the NPU, now or after its module was loaded.
  returned: always
  type: bool
  sample: true
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.board import read_board
from ..module_utils.npu_problems import find_problems, is_usable


def main() -> None:
    """Read the board and report."""
    module = AnsibleModule(
        argument_spec={"root": {"type": "path", "default": "/"}},
        supports_check_mode=True,
    )
    root = module.params["root"]
    if not Path(root).is_dir():
        module.fail_json(
            msg=f"{root} on this host is no directory, but root must be one: name where the root "
            "file system of the board is mounted, or leave root out for the running system."
        )
    board = read_board(root)
    problems = find_problems(board)
    module.exit_json(
        changed=False,
        npu=board.to_dict(),
        problems=[problem._asdict() for problem in problems],
        usable=is_usable(board, problems),
    )


if __name__ == "__main__":
    main()
