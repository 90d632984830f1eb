#!/usr/bin/python
# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_labels
short_description: Keep labels and taints of a node
version_added: 1.0.0
description:
  - Sets labels and taints of one node through the Kubernetes API, and removes those that it has set
    before and that are no longer wanted.
  - Each O(owner) keeps labels and taints of its own, whose keys are remembered in the annotation
    C(rocknpu.device/labels-of-OWNER) of the node. Nothing else of the node is ever touched.
  - Runs where the Kubernetes Python client is, usually on the control node. Use it with
    C(delegate_to), see the examples.
options:
  node:
    description: Name of the node, as C(kubectl get nodes) shows it.
    type: str
    required: true
  owner:
    description:
      - Whose labels and taints these are, a short word of lower-case letters, digits and hyphens.
      - A label or taint that another owner keeps is refused. One that was set by other means is
        taken over.
    type: str
    required: true
  labels:
    description: All labels that the owner keeps on this node, each a key and its value.
    type: dict
    default: {}
  taints:
    description: All taints that the owner keeps on this node. A key may stand once for each effect.
    type: list
    elements: dict
    default: []
    suboptions:
      key:
        description: Key of the taint.
        type: str
        required: true
      value:
        description: Value of the taint.
        type: str
        default: ""
      effect:
        description: Effect of the taint, V(NoSchedule), V(PreferNoSchedule) or V(NoExecute).
        type: str
        required: true
  state:
    description:
      - With V(absent) everything that the owner keeps on the node is removed, whatever O(labels)
        and O(taints) say. A node that does not exist has nothing.
    type: str
    choices: [present, absent]
    default: present
  timeout:
    description:
      - Seconds to wait for an API that does not answer. With V(0) it is asked once, which takes at
        most a few seconds.
    type: int
    default: 30
extends_documentation_fragment:
  - rocknpu.edge.kube_auth
attributes:
  check_mode:
    description: The server judges the change and does not keep it.
    support: full
  diff_mode:
    description: Shows labels and taints of the owner.
    support: full
notes:
  - The user needs to be allowed to get and patch nodes.
seealso:
  - name: Labels and selectors
    description: What keys and values may look like.
    link: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/
  - name: Taints and tolerations
    description: What taints do.
    link: https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
author:
  - The rocknpu.edge authors (@rocknpu)
"""

EXAMPLES = r"""
- name: Tell the scheduler what is on the board
  rocknpu.edge.node_labels:
    kubeconfig: ~/.kube/rocknpu-edge.yaml
    node: rk3588-node-01
    owner: npu
    labels:
      rocknpu.device/soc: rk3588
      rocknpu.device/cores: "3"
  delegate_to: localhost
  become: false

- name: Keep other pods away from a board
  rocknpu.edge.node_labels:
    kubeconfig: ~/.kube/rocknpu-edge.yaml
    node: rk3588-node-01
    owner: k3s
    taints:
      - key: dedicated
        value: npu
        effect: NoSchedule
  delegate_to: localhost
  become: false

- name: Leave no label behind
  rocknpu.edge.node_labels:
    kubeconfig: ~/.kube/rocknpu-edge.yaml
    node: rk3588-node-01
    owner: npu
    state: absent
  delegate_to: localhost
  become: false
"""

RETURN = r"""
labels:
  description: The labels that the owner keeps on the node now.
  returned: success
  type: dict
  sample:
    rocknpu.device/cores: "3"
    rocknpu.device/soc: rk3588
taints:
  description: The taints that the owner keeps on the node now.
  returned: success
  type: list
  elements: dict
  sample:
    - key: dedicated
      value: npu
      effect: NoSchedule
reason:
  description:
    - What is wrong, one of V(configuration), V(unreachable), V(certificate), V(unauthorized),
      V(forbidden), V(conflict), V(invalid) and V(unavailable) for the API, V(missing) for a node
      that does not exist, and V(owner) for a label or taint that another owner keeps.
  returned: on failure
  type: str
  sample: missing
"""

from typing import Any, Mapping

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rocknpu.edge.plugins.module_utils.capacity_wait import Deadline, wait_until
from ansible_collections.rocknpu.edge.plugins.module_utils.kube_api import (
    AUTH_ARGUMENTS,
    ApiError,
    KubeApi,
    check_start,
    connect,
)
from ansible_collections.rocknpu.edge.plugins.module_utils.kube_nodes import get_node, patch_node
from ansible_collections.rocknpu.edge.plugins.module_utils.node_marks import (
    Change,
    Marks,
    OwnerError,
    check_marks,
    plan,
    wanted_marks,
)


def keep(
    api: KubeApi, options: Mapping[str, Any], wanted: Marks, dry_run: bool, deadline: Deadline
) -> Change:
    """Bring the node to what is wanted, once.

    Raises:
        ApiError
        OwnerError
    """
    node = get_node(api, options["node"], deadline.request_timeout())
    change = plan(node, options["owner"], wanted)
    if change.patch:
        patch_node(api, options["node"], change.patch, deadline.request_timeout(), dry_run)
    return change


def run(options: Mapping[str, Any], dry_run: bool) -> Change:
    """Bring the node to what is wanted, waiting for the API where that may help.

    Raises:
        ApiError
        OwnerError
    """
    absent = options["state"] == "absent"
    wanted = wanted_marks({}, []) if absent else wanted_marks(options["labels"], options["taints"])
    api = connect(options)
    deadline = Deadline(options["timeout"])
    try:
        change, error = wait_until(
            lambda: keep(api, options, wanted, dry_run, deadline), lambda change: True, deadline
        )
    except ApiError as raised:
        if raised.reason != "missing":
            raise
        if absent:
            return Change(wanted, wanted, None)
        raise ApiError(
            "missing",
            f"The cluster has no node {options['node']}; join the board or correct the name.",
        ) from raised
    if error:
        raise error
    return change


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "node": {"type": "str", "required": True},
            "owner": {"type": "str", "required": True},
            "labels": {"type": "dict", "default": {}},
            "taints": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "key": {"type": "str", "required": True, "no_log": False},
                    "value": {"type": "str", "default": ""},
                    "effect": {"type": "str", "required": True},
                },
            },
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "timeout": {"type": "int", "default": 30},
            **AUTH_ARGUMENTS,
        },
        supports_check_mode=True,
    )
    check_start(module)
    options = module.params
    problem = check_marks(options["owner"], options["labels"], options["taints"])
    if problem:
        module.fail_json(msg=problem)
    try:
        change = run(options, module.check_mode)
    except ApiError as error:
        module.fail_json(msg=str(error), reason=error.reason)
    except OwnerError as error:
        module.fail_json(msg=f"{options['node']}: {error}", reason="owner")
    module.exit_json(
        changed=change.patch is not None,
        diff={"before": change.before.plain(), "after": change.after.plain()},
        **change.after.plain(),
    )


if __name__ == "__main__":
    main()
