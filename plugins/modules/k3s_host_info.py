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
    is installed, and what stands in the way of what the host is to be.
options:
  wanted:
    description: What the host is to be.
    type: dict
    required: true
    suboptions:
      version:
        description: The release of k3s.
        type: str
        required: true
      role:
        description: What the host does in the cluster.
        type: str
        choices: [server, agent]
        required: true
      architectures:
        description: Machine names, as C(uname -m) prints them, that k3s has releases for.
        type: list
        elements: str
        required: true
      features:
        description: Parts of the kernel that are needed, see RV(features).
        type: list
        elements: str
        default: [br_netfilter, overlay, vxlan, iptables_nat]
      takes_cgroup_v1:
        description: Whether the kubelet is told to run with cgroup v1.
        type: bool
        default: false
      cgroup_v2:
        description: Whether a host with cgroup v1 is to be booted with cgroup v2.
        type: bool
        default: false
      reboot:
        description: Whether the host may be rebooted.
        type: bool
        default: false
      embeds_etcd:
        description: Whether the host is a server with embedded etcd.
        type: bool
        default: false
      node_ip:
        description: Addresses of the node. Empty leaves the choice to k3s.
        type: list
        elements: str
        default: []
      kubelet_drop_in:
        description: Whether the kubelet gets a drop-in file.
        type: bool
        default: false
      data_dir:
        description: The data directory of k3s, which need not exist yet.
        type: path
        default: /var/lib/rancher/k3s
  k3s:
    description: The command k3s.
    type: path
    default: /usr/local/bin/k3s
  ports:
    description: TCP ports that k3s needs.
    type: list
    elements: int
    default: []
  files:
    description:
      - Paths by any names. RV(files) tells of each whether the role k3s has written it.
      - The name C(other_unit) is for the unit of the role that the host is not to have.
    type: dict
    default: {}
  control_time:
    description: The time of the control node now, in seconds since 1970, to compare the clock with.
    type: float
  root:
    description:
      - Directory that holds the host's C(/boot), C(/etc), C(/lib), C(/proc), C(/run) and C(/sys).
      - Other values than C(/) are for root file systems mounted elsewhere.
    type: path
    default: /
extends_documentation_fragment:
  - rocknpu.edge.reads_only
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
    wanted:
      version: v1.37.1+k3s1
      role: agent
      architectures: [aarch64]
    ports: [6444, 10250]
    control_time: "{{ now().timestamp() }}"
  become: true
  register: host

- name: Stop where k3s cannot work
  ansible.builtin.assert:
    that: host.problems | length == 0
    fail_msg: "{{ host.problems | join(' ') }}"
"""

RETURN = r"""
problems:
  description: What keeps the host from becoming what is wanted, one sentence each.
  returned: always
  type: list
  elements: str
  sample:
    - The host has no default route, which k3s needs even if it leads nowhere.
hints:
  description: What may become a problem, one sentence each.
  returned: always
  type: list
  elements: str
  sample:
    - "The host swaps to /dev/zram0, which makes pods slow before it makes them fail."
owed:
  description: What the kernel runs without, and can be started with.
  returned: always
  type: dict
  contains:
    names:
      description: What is missing.
      returned: always
      type: list
      elements: str
      sample: [the memory cgroup]
    present:
      description: Kernel arguments that have to be there.
      returned: always
      type: list
      elements: str
      sample: [cgroup_enable=memory, cgroup_memory=1]
    absent:
      description: Kernel arguments that must not be there.
      returned: always
      type: list
      elements: str
      sample: [cgroup_disable=memory]
    running:
      description: Whether the kernel was started with RV(owed.present) already.
      returned: always
      type: bool
      sample: false
machine:
  description: Machine name, as C(uname -m) prints it.
  returned: always
  type: str
  sample: aarch64
systemd:
  description: Whether systemd runs the host.
  returned: always
  type: bool
  sample: true
kernel_release:
  description: Release of the running kernel, as C(uname -r) prints it; null if unknown.
  returned: always
  type: str
  sample: 6.1.115-vendor-rk35xx
features:
  description:
    - State of V(br_netfilter), V(overlay), V(vxlan) and V(iptables_nat) in the running kernel.
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
wrong_iptables:
  description: Whether that is a version whose rules are wrong, so that k3s should use its own.
  returned: always
  type: bool
  sample: false
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
addresses:
  description: Addresses that others can reach. Empty without the command C(ip).
  returned: always
  type: list
  elements: dict
  contains:
    interface:
      description: The interface.
      returned: always
      type: str
      sample: end0
    address:
      description: The address.
      returned: always
      type: str
      sample: 192.0.2.11
    network:
      description: The network that it is in.
      returned: always
      type: str
      sample: 192.0.2.0/24
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
  description: Free space for O(wanted.data_dir).
  returned: always
  type: int
  sample: 21474836480
on_mmc:
  description: Whether O(wanted.data_dir) lies on an SD card or eMMC; null if unknown.
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
from ..module_utils.k3s_host import (
    Clock,
    K3sHost,
    parse_addresses,
    parse_iptables_version,
    parse_k3s_version,
    read_host,
)
from ..module_utils.k3s_host_rules import (
    Wanted,
    find_hints,
    find_owed,
    find_problems,
    has_wrong_iptables,
)

WANTED: dict[str, Any] = {
    "version": {"type": "str", "required": True},
    "role": {"type": "str", "choices": ["server", "agent"], "required": True},
    "architectures": {"type": "list", "elements": "str", "required": True},
    "features": {
        "type": "list",
        "elements": "str",
        "default": ["br_netfilter", "overlay", "vxlan", "iptables_nat"],
    },
    "takes_cgroup_v1": {"type": "bool", "default": False},
    "cgroup_v2": {"type": "bool", "default": False},
    "reboot": {"type": "bool", "default": False},
    "embeds_etcd": {"type": "bool", "default": False},
    "node_ip": {"type": "list", "elements": "str", "default": []},
    "kubelet_drop_in": {"type": "bool", "default": False},
    "data_dir": {"type": "path", "default": "/var/lib/rancher/k3s"},
}


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


def read_clock(module: AnsibleModule) -> Clock:
    """Compare the clock with the control node's, and ask who sets it."""
    given = module.params["control_time"]
    ahead = None if given is None else round(time.time() - given, 1)
    answer = ask(module, "timedatectl", "show", "--property=NTPSynchronized", "--value").strip()
    return Clock(ahead, {"yes": True, "no": False}.get(answer))


def free_bytes(path: Path) -> int:
    """Space for ordinary users on the file system of a directory that need not exist yet."""
    while not path.is_dir():
        path = path.parent
    usage = os.statvfs(path)
    return usage.f_bavail * usage.f_frsize


def read(module: AnsibleModule, data_dir: str) -> K3sHost:
    """Read the host's files, and what its programs say."""
    # First, because whatever is read before makes the clock seem ahead.
    clock = read_clock(module)
    root = module.params["root"].rstrip("/")
    return read_host(
        BoardFiles(module.params["root"]),
        data_dir,
        module.params["ports"],
        module.params["files"],
        machine=os.uname().machine,
        clock=clock,
        k3s_version=parse_k3s_version(ask(module, root + module.params["k3s"], "--version")),
        iptables=parse_iptables_version(ask(module, "iptables", "--version")),
        addresses=parse_addresses(ask(module, "ip", "-json", "address")),
        free_bytes=free_bytes(Path(root + data_dir)),
    )


def as_result(value: Any) -> Any:
    """Named tuples as dictionaries, also in lists."""
    if hasattr(value, "_asdict"):
        return value._asdict()
    return [as_result(element) for element in value] if isinstance(value, list) else value


def main() -> None:
    """Read the host and report."""
    module = AnsibleModule(
        argument_spec={
            "wanted": {"type": "dict", "options": WANTED, "required": True},
            "k3s": {"type": "path", "default": "/usr/local/bin/k3s"},
            "ports": {"type": "list", "elements": "int", "default": []},
            "files": {"type": "dict", "default": {}},
            "control_time": {"type": "float"},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    wanted = Wanted(**module.params["wanted"])
    host = read(module, wanted.data_dir)
    module.exit_json(
        changed=False,
        problems=find_problems(host, wanted),
        hints=find_hints(host, wanted),
        owed=find_owed(host, wanted)._asdict(),
        wrong_iptables=has_wrong_iptables(host),
        **{name: as_result(getattr(host, name)) for name in host.__dataclass_fields__},
    )


if __name__ == "__main__":
    main()
