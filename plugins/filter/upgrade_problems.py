# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: upgrade_problems
short_description: Find what stands in the way of an upgrade of k3s
version_added: 1.0.0
description:
  - Compares the nodes of a cluster with what is to run on them. No node may become older, none may
    skip a minor version or be newer than a server, none may fall too far behind, and all that take
    part must be Ready.
options:
  _input:
    description: Nodes of the cluster, as C(kubectl get nodes --output=json) has them in C(items).
    type: list
    elements: dict
    required: true
  steps:
    description: "Of each host of the play, C(host), C(node), C(server) (whether it is one) and
      C(version)."
    type: list
    elements: dict
    required: true
author:
  - The rocknpu.edge authors (@rocknpu)
"""

EXAMPLES = r"""
- name: Stop before anything is changed
  ansible.builtin.assert:
    that: _upgrade_problems | length == 0
    fail_msg: "{{ _upgrade_problems | join(' ') }}"
  run_once: true
  vars:
    _upgrade_problems: >-
      {{ _upgrade_nodes | rocknpu.edge.upgrade_problems(
           [{'host': 'a', 'node': 'a', 'server': true, 'version': 'v1.37.2+k3s1'}]) }}
"""

RETURN = r"""
_value:
  description: One sentence per problem. Empty when the upgrade may begin.
  type: list
  elements: str
  sample:
    - >-
      rk3588-node-02 runs v1.35.1+k3s1 and v1.37.2+k3s1 skips a minor version: upgrade to a v1.36
      first.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.rocknpu.edge.plugins.plugin_utils.upgrade_rules import (
    find_upgrade_problems,
)


def upgrade_problems(
    nodes: Sequence[Mapping[str, Any]], steps: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Return one sentence for each problem."""
    return find_upgrade_problems(nodes, steps)


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., list[str]]]:
        """Return them by name."""
        return {"upgrade_problems": upgrade_problems}
