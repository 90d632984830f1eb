#!/usr/bin/python
# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ansible module that reads whether a host can run k3s."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: k3s_host_info
short_description: Read what k3s needs of a host
version_added: 1.0.0
description:
  - Returns, in one go, what the kernel has and runs with, where the kernel arguments are kept, what
    is installed, and what stands in the way of k3s.
  - Judges nothing. The role P(rocknpu.edge.k3s#role) has the rules.
options:
  data_dir:
    description: The data directory of k3s, which need not exist yet.
    type: path
    default: /var/lib/rancher/k3s
  k3s:
    description: The command k3s.
    type: path
    default: /usr/local/bin/k3s
  ports:
    description: TCP ports to look at.
    type: list
    elements: int
    default: []
  files:
    description: Paths by any names. RV(files) tells of each whether the role k3s has written it.
    type: dict
    default: {}
  control_time:
    description: The time of the control node now, in seconds since 1970, to compare the clock with.
    type: float
  root:
    description:
      - Directory that holds the host's C(/boot), C(/etc), C(/lib), C(/proc) and C(/sys).
      - Other values than C(/) are for root file systems mounted elsewhere.
    type: path
    default: /
attributes:
  check_mode:
    description: Can run in C(check_mode) and return the same as without it.
    support: full
  diff_mode:
    description: Returns details on what has changed in diff mode.
    support: none
    details:
      - The module changes nothing.
  platform:
    description: Target systems that the module can read.
    support: full
    platforms: posix
requirements:
  - python >= 3.8
notes:
  - Run it with C(become=true). An ordinary user does not see whose ports are taken.
seealso:
  - module: rocknpu.edge.npu_info
author:
  - The rocknpu.edge authors (@rocknpu)
"""

EXAMPLES = r"""
- name: Read the host
  rocknpu.edge.k3s_host_info:
    ports: [6443, 10250]
    control_time: "{{ now().timestamp() }}"
  become: true
  register: host

- name: Stop where the memory cgroup is off
  ansible.builtin.assert:
    that: "'memory' in host.cgroups.running"
"""

RETURN = r"""
kernel:
  description: The running kernel.
  returned: always
  type: dict
  contains:
    release:
      description: As C(uname -r) prints it; null if unknown.
      returned: always
      type: str
      sample: 6.1.115-vendor-rk35xx
    features:
      description:
        - State of V(br_netfilter), V(overlay), V(vxlan) and V(iptables_nat).
        - V(running) (built in or loaded), V(loadable) (a module of the running kernel), V(absent),
          V(gone) (there are modules of other kernels only, for example after an upgrade without a
          reboot), or V(unknown) (there are no modules at all, for example in a container).
      returned: always
      type: dict
      sample: {br_netfilter: loadable, overlay: running, vxlan: loadable, iptables_nat: loadable}
cgroups:
  description: The control groups that the kernel runs with.
  returned: always
  type: dict
  contains:
    version:
      description: V(2) for the unified hierarchy, else V(1).
      returned: always
      type: int
      sample: 2
    running:
      description: Controllers that can be used.
      returned: always
      type: list
      elements: str
      sample: [cpu, cpuset, io, memory, pids]
    disabled:
      description: Controllers that the kernel has, turned off by its arguments or by default.
      returned: always
      type: list
      elements: str
      sample: []
boot:
  description: The kernel arguments.
  returned: always
  type: dict
  contains:
    kind:
      description: The way this image boots, see M(rocknpu.edge.boot_arguments); null if unknown.
      returned: always
      type: str
      sample: armbianEnv.txt
    path:
      description: The file that holds the kernel arguments.
      returned: always
      type: str
      sample: /boot/armbianEnv.txt
    arguments:
      description: Arguments that the kernel runs with.
      returned: always
      type: list
      elements: str
      sample: [root=UUID=5b8a, rw]
k3s_version:
  description: Release of the installed k3s; null if there is none that runs.
  returned: always
  type: str
  sample: v1.37.1+k3s1
iptables:
  description: Version of the installed iptables, and V(nf_tables) or V(legacy); null without it.
  returned: always
  type: dict
  sample: {version: 1.8.9, mode: nf_tables}
clock:
  description: The host's clock.
  returned: always
  type: dict
  contains:
    ahead:
      description: Seconds that it is ahead of O(control_time), the way of the request included.
      returned: always
      type: float
      sample: 0.4
    synchronized:
      description: Whether the system says that it is set by NTP; null if it does not say.
      returned: always
      type: bool
      sample: true
default_route:
  description: Whether the host has a default route.
  returned: always
  type: bool
  sample: true
listeners:
  description: What listens on O(ports).
  returned: always
  type: list
  elements: dict
  contains:
    port:
      description: The port.
      returned: always
      type: int
      sample: 6443
    program:
      description: The program's name; null if unknown.
      returned: always
      type: str
      sample: haproxy
    unit:
      description: The service that the program belongs to; null if unknown.
      returned: always
      type: str
      sample: haproxy.service
free_bytes:
  description: Free space for O(data_dir).
  returned: always
  type: int
  sample: 21474836480
on_mmc:
  description: Whether O(data_dir) lies on an SD card or eMMC; null if unknown.
  returned: always
  type: bool
  sample: false
swaps:
  description: What the host swaps to.
  returned: always
  type: list
  elements: str
  sample: [/dev/zram0]
image_archives:
  description: Names in the directory of image archives.
  returned: always
  type: list
  elements: str
  sample: [k3s-airgap-images-arm64.tar.zst]
files:
  description: For each of O(files), V(ours) if the role k3s wrote it, V(other) or V(absent).
  returned: always
  type: dict
  sample: {registries: absent}
"""

import os
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.board_files import BoardFiles
from ..module_utils.k3s_host import parse_iptables_version, parse_k3s_version, read_files


def ask(module: AnsibleModule, *command: str) -> str:
    """The answer of a program; empty where it is missing, fails, or is for another machine."""
    program = module.get_bin_path(command[0])
    if not program:
        return ""
    try:
        code, output, _error = module.run_command(
            [program, *command[1:]], environ_update={"LC_ALL": "C"}, handle_exceptions=False
        )
    except OSError:
        return ""
    return output if code == 0 else ""


def read_clock(module: AnsibleModule) -> dict[str, Any]:
    """Compare the clock with the control node's, and ask who sets it."""
    given = module.params["control_time"]
    ahead = None if given is None else round(time.time() - given, 1)
    answer = ask(module, "timedatectl", "show", "--property=NTPSynchronized", "--value").strip()
    return {"ahead": ahead, "synchronized": {"yes": True, "no": False}.get(answer)}


def free_bytes(path: Path) -> int:
    """Space for ordinary users on the file system of a directory that need not exist yet."""
    while not path.is_dir():
        path = path.parent
    usage = os.statvfs(path)
    return usage.f_bavail * usage.f_frsize


def main() -> None:
    """Read the host and report."""
    module = AnsibleModule(
        argument_spec={
            "data_dir": {"type": "path", "default": "/var/lib/rancher/k3s"},
            "k3s": {"type": "path", "default": "/usr/local/bin/k3s"},
            "ports": {"type": "list", "elements": "int", "default": []},
            "files": {"type": "dict", "default": {}},
            "control_time": {"type": "float"},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    # First, because whatever is read before makes the clock seem ahead.
    clock = read_clock(module)
    files = BoardFiles(module.params["root"])
    root = module.params["root"].rstrip("/")
    k3s = root + module.params["k3s"]
    module.exit_json(
        changed=False,
        clock=clock,
        k3s_version=parse_k3s_version(ask(module, k3s, "--version")),
        iptables=parse_iptables_version(ask(module, "iptables", "--version")),
        free_bytes=free_bytes(Path(root + module.params["data_dir"])),
        **read_files(
            files, module.params["data_dir"], module.params["ports"], module.params["files"]
        ),
    )


if __name__ == "__main__":
    main()
