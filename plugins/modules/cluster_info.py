#!/usr/bin/python
# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_info
short_description: Read what a cluster knows of its boards
version_added: 1.0.0
description:
  - Tells of all nodes at once which labels and taints the module M(rocknpu.edge.node_labels) keeps
    there, and which pods run a device plugin for the NPU, those of the DaemonSet of this collection
    and those that somebody else has made. Such a pod mounts the kubelet's directory for device
    plugins, and its image, command, arguments or environment have C(rknpu) or the name of a
    resource in them.
  - Runs where the Kubernetes Python client is, usually on the control node. Use it with
    C(delegate_to), see the examples.
options:
  daemonset:
    description: The DaemonSet of the collection, as NAMESPACE/NAME.
    type: str
    default: rknpu-system/rknpu-plugin
  resources:
    description: Names of the resources that NPUs are offered as.
    type: list
    elements: str
    default: [rocknpu.device/npu]
  timeout:
    description: Seconds to wait for each answer of the API, from 1 to 600.
    type: int
    default: 5
extends_documentation_fragment:
  - rocknpu.edge.kube_auth
attributes:
  check_mode:
    description: The module only reads; it does the same in check mode.
    support: full
  diff_mode:
    description: Nothing is changed, so there is no difference to show.
    support: none
notes:
  - The user needs to be allowed to list nodes, and pods in all namespaces, and to get the
    DaemonSet and its namespace.
author:
  - The rocknpu.edge authors (@rocknpu)
"""

EXAMPLES = r"""
- name: See who offers the NPUs
  rocknpu.edge.cluster_info:
    kubeconfig: ~/.kube/rocknpu-edge.yaml
  delegate_to: localhost
  become: false
  run_once: true
  register: __edge_cluster
"""

RETURN = r"""
nodes:
  description: The nodes by their names.
  returned: success
  type: dict
  contains:
    marks:
      description: By owner, the labels and taints that it keeps on the node, as
        M(rocknpu.edge.node_labels) returns them.
      type: dict
      returned: always
      sample: {npu: {labels: {rocknpu.device/soc: rk3588}, taints: []}}
    plugin_pods:
      description: The pods that run a device plugin for the NPU there, first those of the
        DaemonSet, as M(rocknpu.edge.plugin_pods) returns them.
      type: list
      elements: dict
      returned: always
      sample: []
  sample:
    rk3588-node-01:
      marks: {npu: {labels: {rocknpu.device/soc: rk3588}, taints: []}}
      plugin_pods: []
namespace:
  description: Whether the namespace of the DaemonSet is there.
  returned: success
  type: bool
  sample: true
release:
  description: Annotation C(rocknpu.device/release) of the pods that the DaemonSet makes now, empty
    where there is no DaemonSet.
  returned: success
  type: str
  sample: 5f0d5a3c
reason:
  description:
    - What is wrong, one of V(configuration), V(unreachable), V(certificate), V(unauthorized),
      V(forbidden) and V(unavailable) for the API.
  returned: on failure
  type: str
  sample: unreachable
"""

import re
from typing import Any, Callable, Mapping

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rocknpu.edge.plugins.module_utils.kube_api import (
    AUTH_ARGUMENTS,
    ApiError,
    check_start,
    connect,
)
from ansible_collections.rocknpu.edge.plugins.module_utils.kube_nodes import (
    get_daemonset,
    get_namespace,
    list_nodes,
    list_pods,
)
from ansible_collections.rocknpu.edge.plugins.module_utils.kube_objects import KubeObject, name_of
from ansible_collections.rocknpu.edge.plugins.module_utils.node_marks import read_marks
from ansible_collections.rocknpu.edge.plugins.module_utils.plugin_pods import (
    find_plugins,
    find_release,
)
from ansible_collections.rocknpu.edge.plugins.module_utils.resource_name import check_resource_name


def check_options(options: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the values of the options, None if nothing is."""
    if not re.fullmatch("[a-z0-9-]+/[a-z0-9.-]+", options["daemonset"]):
        return f'daemonset: must be NAMESPACE/NAME, not "{options["daemonset"]}".'
    if options["timeout"] > 600:
        return f"timeout: must be 600 or less, not {options['timeout']}."
    for resource in options["resources"]:
        reason = check_resource_name(resource)
        if reason:
            return f"resources: {reason}"
    return None


def found(get: Callable[[], KubeObject]) -> KubeObject | None:
    """Return an object, None where the cluster does not have it.

    Raises:
        ApiError
    """
    try:
        return get()
    except ApiError as error:
        if error.reason != "missing":
            raise
        return None


def run(options: Mapping[str, Any]) -> dict[str, Any]:
    """Look once and return the result of the module.

    Raises:
        ApiError
    """
    api, timeout = connect(options), options["timeout"]
    namespace, _slash, name = options["daemonset"].partition("/")
    nodes = {
        name_of(node): {
            "marks": {owner: marks.plain() for owner, marks in read_marks(node).items()},
            "plugin_pods": [],
        }
        for node in list_nodes(api, timeout)
    }
    pods = list_pods(api, None, timeout)
    for node, pod in find_plugins(pods, options["resources"], options["daemonset"]):
        if node in nodes:
            nodes[node]["plugin_pods"].append(pod._asdict())
    home = found(lambda: get_namespace(api, namespace, timeout))
    daemonset = home and found(lambda: get_daemonset(api, namespace, name, timeout))
    return {
        "nodes": nodes,
        "namespace": home is not None,
        "release": find_release(daemonset) if daemonset else "",
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "daemonset": {"type": "str", "default": "rknpu-system/rknpu-plugin"},
            "resources": {"type": "list", "elements": "str", "default": ["rocknpu.device/npu"]},
            "timeout": {"type": "int", "default": 5},
            **AUTH_ARGUMENTS,
        },
        supports_check_mode=True,
    )
    check_start(module, least=1)
    problem = check_options(module.params)
    if problem:
        module.fail_json(msg=problem)
    try:
        result = run(module.params)
    except ApiError as error:
        module.fail_json(msg=str(error), reason=error.reason)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
