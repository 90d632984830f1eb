#!/usr/bin/python
# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ansible module that reads what there is of k3s on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: k3s_install_info
short_description: Read what there is of k3s on a host
version_added: 1.0.0
description:
  - Returns, in one go, what a role has to know of an installation before it changes it. Shows no
    secret.
options:
  config:
    description: The configuration file of k3s.
    type: path
    default: /etc/rancher/k3s/config.yaml
  token_file:
    description: The file to compare O(token) with.
    type: path
    required: true
  token:
    description: The token that is wanted.
    type: str
    default: ""
  digests:
    description: Files whose digest is wanted.
    type: list
    elements: path
    default: []
  unit:
    description: The service of k3s.
    type: str
    default: k3s.service
  started:
    description:
      - File that is written whenever the service starts. systemd makes one for each unit that runs,
        C(/run/systemd/units/invocation:UNIT).
    type: path
    default: /run/systemd/units/invocation:k3s.service
  watched:
    description: Files that matter to the service.
    type: list
    elements: path
    default: []
extends_documentation_fragment:
  - rocknpu.edge.reads_only
requirements:
  - python >= 3.8
seealso:
  - module: rocknpu.edge.k3s_host_info
author:
  - The rocknpu.edge authors (@rocknpu)
"""

EXAMPLES = r"""
- name: Read what there is of k3s
  rocknpu.edge.k3s_install_info:
    token_file: /var/lib/rancher/k3s/server/token
    token: "{{ k3s_token }}"
    digests: [/usr/local/bin/k3s]
    watched: [/etc/rancher/k3s/config.yaml]
  become: true
  register: k3s

- name: Restart k3s where it runs with an older configuration
  ansible.builtin.systemd_service:
    name: k3s.service
    state: restarted
  when: k3s.younger | length > 0
"""

RETURN = r"""
config:
  description: What O(config) says.
  returned: always
  type: dict
  contains:
    server:
      description: The server to join through; empty if it names none.
      returned: always
      type: str
      sample: https://192.0.2.11:6443
    cluster_init:
      description: Whether it begins a cluster with embedded etcd.
      returned: always
      type: bool
      sample: false
    keys:
      description: The keys in it, without their values.
      returned: always
      type: list
      elements: str
      sample: [node-name, server, token-file]
token:
  description: V(same) if O(token_file) holds O(token), V(other) or V(absent).
  returned: always
  type: str
  sample: same
digests:
  description: SHA-256 of each of O(digests), null where there is no such file.
  returned: always
  type: dict
  sample: {/usr/local/bin/k3s: null}
service:
  description: The service; both are false where there is no such unit.
  returned: always
  type: dict
  contains:
    active:
      description: Whether it runs, and is past its start.
      returned: always
      type: bool
      sample: true
    enabled:
      description: Whether it starts at boot.
      returned: always
      type: bool
      sample: true
younger:
  description: Those of O(watched) that were written after O(started).
  returned: always
  type: list
  elements: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.k3s_install import compare_token, digest_file, find_younger, read_config


def read_service(module: AnsibleModule, unit: str) -> dict[str, bool]:
    """What systemd says of a service."""
    systemctl = module.get_bin_path("systemctl")
    output = ""
    if systemctl:
        _code, output, _error = module.run_command(
            [systemctl, "show", "--property=ActiveState,UnitFileState", unit]
        )
    lines = output.splitlines()
    return {
        "active": "ActiveState=active" in lines,
        "enabled": "UnitFileState=enabled" in lines,
    }


def main() -> None:
    """Read and report."""
    module = AnsibleModule(
        argument_spec={
            "config": {"type": "path", "default": "/etc/rancher/k3s/config.yaml"},
            "token_file": {"type": "path", "required": True},
            "token": {"type": "str", "default": "", "no_log": True},
            "digests": {"type": "list", "elements": "path", "default": []},
            "unit": {"type": "str", "default": "k3s.service"},
            "started": {
                "type": "path",
                "default": "/run/systemd/units/invocation:k3s.service",
            },
            "watched": {"type": "list", "elements": "path", "default": []},
        },
        supports_check_mode=True,
    )
    given = module.params
    module.exit_json(
        changed=False,
        config=read_config(given["config"]),
        token=compare_token(given["token_file"], given["token"]),
        digests={path: digest_file(path) for path in given["digests"]},
        service=read_service(module, given["unit"]),
        younger=find_younger(given["watched"], given["started"]),
    )


if __name__ == "__main__":
    main()
