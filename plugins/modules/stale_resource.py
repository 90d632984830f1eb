#!/usr/bin/python
# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: stale_resource
short_description: Remove an extended resource that nothing offers any more from a node
version_added: 1.0.0
description:
  - Removes the resource of a device plugin that is gone from the capacity in the status of a node,
    where the kubelet leaves it for ever.
  - A kubelet holds a resource for 5 minutes after the end of its plugin, and writes it anew until
    then. The module waits for that, and then for one more report to see that it stays away. On a
    node that is not Ready nobody writes it anew.
  - A node that does not exist, or does not have the resource, is left as it is.
  - Runs where the Kubernetes Python client is, usually on the control node. Use it with
    C(delegate_to), see the examples.
options:
  node:
    description: Name of the node, as C(kubectl get nodes) shows it.
    type: str
    required: true
  resource:
    description: Name of the extended resource.
    type: str
    default: rocknpu.device/npu
  timeout:
    description: Seconds to wait for the kubelet.
    type: int
    default: 360
extends_documentation_fragment:
  - rocknpu.edge.kube_auth
attributes:
  check_mode:
    description: Tells whether the resource is there, and waits for nothing.
    support: full
  diff_mode:
    description: Shows the resource in the capacity of the node.
    support: full
notes:
  - The user needs to be allowed to get nodes and to patch nodes/status.
seealso:
  - module: rocknpu.edge.node_capacity
  - name: Extended resources for a node
    description: What else may be in the capacity of a node.
    link: https://kubernetes.io/docs/tasks/administer-cluster/extended-resource-node/
author:
  - The rocknpu.edge authors (@rocknpu)
"""

EXAMPLES = r"""
- name: Have the node forget the NPU
  rocknpu.edge.stale_resource:
    kubeconfig: ~/.kube/rocknpu-edge.yaml
    node: rk3588-node-01
  delegate_to: localhost
  become: false
"""

RETURN = r"""
reason:
  description:
    - What is wrong, one of V(configuration), V(unreachable), V(certificate), V(unauthorized),
      V(forbidden), V(conflict), V(invalid) and V(unavailable) for the API, V(offered) where
      something still offers the resource, and V(held) where the kubelet still holds it.
  returned: on failure
  type: str
  sample: held
"""

from typing import Any, Mapping

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rocknpu.edge.plugins.module_utils.capacity_wait import Deadline, wait_until
from ansible_collections.rocknpu.edge.plugins.module_utils.kube_api import (
    AUTH_ARGUMENTS,
    ApiError,
    check_start,
    connect,
)
from ansible_collections.rocknpu.edge.plugins.module_utils.kube_nodes import (
    get_node,
    patch_node_status,
)
from ansible_collections.rocknpu.edge.plugins.module_utils.kube_objects import read_node
from ansible_collections.rocknpu.edge.plugins.module_utils.resource_name import check_resource_name
from ansible_collections.rocknpu.edge.plugins.module_utils.resource_removal import (
    Removal,
    StillOfferedError,
)


def run(options: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    """Remove the resource and return the result of the module; `msg` is in it when it failed.

    Raises:
        ApiError
    """
    api = connect(options)
    name, resource = options["node"], options["resource"]
    deadline = Deadline(0 if check_mode else options["timeout"])
    removal = Removal(
        resource,
        lambda: get_node(api, name, deadline.request_timeout()),
        lambda patch: patch_node_status(api, name, patch, deadline.request_timeout(), check_mode),
        deadline.elapsed,
    )
    try:
        first = get_node(api, name, deadline.request_timeout())
        gone, error = wait_until(removal.step, bool, deadline)
    except StillOfferedError as refused:
        return {"msg": str(refused), "reason": "offered"}
    except ApiError as raised:
        # Also a node that is deleted meanwhile has nothing any more.
        if raised.reason != "missing":
            raise
        return {"changed": removal.found}
    if error:
        raise error
    result: dict[str, Any] = {"changed": removal.found}
    if removal.found:
        reading = read_node(first, resource)
        result["diff"] = {"before": {"capacity": {resource: reading.capacity}}, "after": {}}
        if not (gone or check_mode):
            return {
                "msg": f"The kubelet of {name} still holds {resource}: it keeps what a device "
                "plugin had registered for 5 minutes after the plugin's end; run this again later.",
                "reason": "held",
                **result,
            }
    return result


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "node": {"type": "str", "required": True},
            "resource": {"type": "str", "default": "rocknpu.device/npu"},
            "timeout": {"type": "int", "default": 360},
            **AUTH_ARGUMENTS,
        },
        supports_check_mode=True,
    )
    check_start(module)
    problem = check_resource_name(module.params["resource"])
    if problem:
        module.fail_json(msg=f"resource: {problem}")
    try:
        result = run(module.params, module.check_mode)
    except ApiError as error:
        result = {"msg": str(error), "reason": error.reason}
    if "msg" in result:
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
