#!/usr/bin/python
# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_capacity
short_description: Wait until nodes offer an extended resource
version_added: 1.0.0
description:
  - Asks the Kubernetes API what nodes offer of an extended resource such as the NPU, and waits
    until it is as many as it should be.
  - When the time is over, the message names every node that is not as it should be, the link that
    is broken (API, node, registration, device plugin, configuration) and what to do.
  - Runs where the Kubernetes Python client is, usually on the control node. Use it with
    C(delegate_to), see the examples.
options:
  nodes:
    description: Names of the nodes, as C(kubectl get nodes) shows them.
    type: list
    elements: str
    required: true
  resource:
    description: Name of the extended resource.
    type: str
    default: rocknpu.device/npu
  expected:
    description:
      - How many each node must offer, neither fewer nor more, both as capacity and as allocatable;
        one number for all nodes, or a dictionary with the number of each node, which may hold
        others too.
      - With V(0) nothing must be allocatable, as after the removal of the device plugin.
      - Exactly one of O(expected) and O(minimum) must be given.
    type: raw
  minimum:
    description:
      - How many must be allocatable on each node at least.
      - With V(0) any ready node will do.
    type: int
  timeout:
    description:
      - Seconds to wait. With V(0) the API is asked once, which takes at most a few seconds.
      - An API that does not answer, a node that is missing or not ready, and a count that differs
        are waited for. Credentials that are refused and certificates that are not trusted end the
        wait at once.
    type: int
    default: 120
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
  - The user needs to be allowed to list nodes, and pods in all namespaces.
  - Failed pods that kubelet turned away while the device plugin was not there, for example after a
    reboot, stay behind until someone deletes them. They are shown as a warning, never as a fault.
seealso:
  - name: Extended resources for a node
    description: How Kubernetes counts capacity and allocatable.
    link: https://kubernetes.io/docs/tasks/administer-cluster/extended-resource-node/
  - name: Device plugins
    description: How a device plugin registers a resource.
    link: https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/
author:
  - The rocknpu.edge authors (@rocknpu)
"""

EXAMPLES = r"""
- name: Wait until the board offers its two shares
  rocknpu.edge.node_capacity:
    kubeconfig: ~/.kube/rocknpu-edge.yaml
    nodes:
      - rk3588-node-01
    expected: 2
  delegate_to: localhost
  become: false

- name: See what is free on two boards, without waiting
  rocknpu.edge.node_capacity:
    host: https://192.0.2.11:6443
    api_key: "{{ vault_edge_api_key }}"
    ca_cert: /etc/ssl/edge-ca.pem
    nodes:
      - rk3588-node-01
      - rk3588-node-02
    minimum: 1
    timeout: 0
  delegate_to: localhost
  become: false
  register: __edge_capacity

- name: Wait until each board offers its own number of shares
  rocknpu.edge.node_capacity:
    kubeconfig: ~/.kube/rocknpu-edge.yaml
    nodes:
      - rk3588-node-01
      - rk3588-node-02
    expected:
      rk3588-node-01: 2
      rk3588-node-02: 1
  delegate_to: localhost
  become: false
  run_once: true

- name: Make sure that nothing is left after the removal of the plugin
  rocknpu.edge.node_capacity:
    nodes: "{{ groups['k3s_agent'] }}"
    expected: 0
  delegate_to: localhost
  become: false
"""

RETURN = r"""
nodes:
  description: What the API says about each node, in the order of O(nodes).
  returned: when the API has answered
  type: list
  elements: dict
  contains:
    name:
      description: Name of the node.
      type: str
      returned: always
      sample: rk3588-node-01
    state:
      description:
        - V(ok), or the first thing that is wrong, one of V(missing), V(not_ready),
          V(never_registered), V(none_allocatable), V(fewer) and V(more).
      type: str
      returned: always
      sample: ok
    message:
      description: What is wrong and what to do, empty if nothing is.
      type: str
      returned: always
      sample: ""
    ready:
      description: Whether the node is Ready.
      type: bool
      returned: always
      sample: true
    capacity:
      description: How many the device plugin offers. Null when the resource was never registered.
      type: int
      returned: always
      sample: 2
    allocatable:
      description: How many of them are healthy. Null when the resource was never registered.
      type: int
      returned: always
      sample: 2
    requested:
      description: How many are taken by pods of the node, counted as the scheduler counts.
      type: int
      returned: always
      sample: 1
    free:
      description: How many are left for further pods, never below 0.
      type: int
      returned: always
      sample: 1
    rejected_pods:
      description: Failed pods, as NAMESPACE/NAME, left from a time when the resource was not there.
      type: list
      elements: str
      returned: always
      sample: []
reason:
  description:
    - What is wrong, one of V(configuration), V(unreachable), V(certificate), V(unauthorized),
      V(forbidden) and V(unavailable) for the API, and V(nodes) for nodes, see RV(nodes[].state).
  returned: on failure
  type: str
  sample: nodes
waited:
  description: Seconds that passed.
  returned: always
  type: float
  sample: 4.1
"""

import re
from typing import Any, Mapping, NamedTuple, Sequence

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rocknpu.edge.plugins.module_utils.capacity_verdict import (
    Target,
    Verdict,
    describe_rejected,
    judge,
    judge_missing,
)
from ansible_collections.rocknpu.edge.plugins.module_utils.capacity_wait import Deadline, wait_until
from ansible_collections.rocknpu.edge.plugins.module_utils.kube_api import (
    AUTH_ARGUMENTS,
    ApiError,
    KubeApi,
    check_start,
    connect,
)
from ansible_collections.rocknpu.edge.plugins.module_utils.kube_nodes import list_nodes, list_pods
from ansible_collections.rocknpu.edge.plugins.module_utils.kube_objects import (
    KubeObject,
    name_of,
    read_node,
    rejected_pods,
    requested,
)
from ansible_collections.rocknpu.edge.plugins.module_utils.resource_name import check_resource_name


class Finding(NamedTuple):
    """One node as it is returned, and the verdict on it."""

    returned: dict[str, Any]
    verdict: Verdict


def assess(
    name: str,
    nodes: Mapping[str, KubeObject],
    pods: Sequence[KubeObject],
    resource: str,
    target: Target,
) -> Finding:
    """Judge one node, given all nodes by name and the pods of this one."""
    reading = read_node(nodes[name], resource) if name in nodes else None
    verdict = judge(reading, resource, target) if reading else judge_missing(list(nodes))
    allocatable = reading.allocatable if reading else None
    taken = requested(pods, resource)
    returned = {
        "name": name,
        "state": verdict.state,
        "message": verdict.message,
        "ready": reading is not None and reading.ready,
        "capacity": reading.capacity if reading else None,
        "allocatable": allocatable,
        "requested": taken,
        "free": max(0, (allocatable or 0) - taken),
        "rejected_pods": rejected_pods(pods, resource),
    }
    return Finding(returned, verdict)


def look(
    api: KubeApi, targets: Mapping[str, Target], resource: str, deadline: Deadline
) -> list[Finding]:
    """Ask the API once about all nodes.

    Raises:
        ApiError
    """
    nodes = {name_of(node): node for node in list_nodes(api, deadline.request_timeout())}
    return [
        assess(name, nodes, list_pods(api, name, deadline.request_timeout()), resource, target)
        for name, target in targets.items()
    ]


def all_ok(findings: Sequence[Finding]) -> bool:
    """Tell whether every node is as it should be."""
    return all(finding.verdict.state == "ok" for finding in findings)


def describe(findings: Sequence[Finding]) -> str:
    """Return one message that names every node that is not as it should be."""
    return " ".join(
        f"{finding.returned['name']}: {finding.verdict.message}"
        for finding in findings
        if finding.verdict.state != "ok"
    )


def read_options(options: Mapping[str, Any]) -> dict[str, Target]:
    """Check all options and return how many each node should offer, in the order of the nodes.

    Raises:
        ValueError: Why an option cannot be used, as a sentence.
    """
    if options["minimum"] is not None and options["minimum"] < 0:
        raise ValueError(f"minimum: must be 0 or more, not {options['minimum']}.")
    reason = check_resource_name(options["resource"])
    if reason:
        raise ValueError(f"resource: {reason}")
    names = list(dict.fromkeys(options["nodes"]))
    if not names or not all(names):
        raise ValueError("nodes: must name at least one node, and no name may be empty.")
    exact = options["expected"] is not None
    option = "expected" if exact else "minimum"
    given = options[option]
    if not isinstance(given, dict):
        return dict.fromkeys(names, Target(read_number(given, option), exact))
    for name in names:
        if name not in given:
            raise ValueError(f"expected: has no number for the node {name}.")
    return {name: Target(read_number(given[name], f"expected.{name}"), exact) for name in names}


def read_number(value: Any, place: str) -> int:
    """Return a number as Ansible hands it to an option of no type.

    Raises:
        ValueError: Why it is none, as a sentence.
    """
    if isinstance(value, bool) or not re.fullmatch("[0-9]{1,9}", str(value).strip()):
        raise ValueError(f'{place}: must be a whole number from 0 to 999999999, not "{value}".')
    return int(value)


def measure(
    options: Mapping[str, Any], targets: Mapping[str, Target], deadline: Deadline
) -> dict[str, Any]:
    """Wait for the nodes and return the result of the module; `msg` is in it when it failed.

    Raises:
        ApiError: The API never gave an answer, or one that waiting does not cure.
    """
    api = connect(options)
    findings, error = wait_until(
        lambda: look(api, targets, options["resource"], deadline), all_ok, deadline
    )
    if findings is None:
        raise error
    result: dict[str, Any] = {"nodes": [finding.returned for finding in findings]}
    if error:
        result.update(msg=f"{error} Before that: {describe(findings)}", reason=error.reason)
    elif not all_ok(findings):
        result.update(msg=describe(findings), reason="nodes")
    return result


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "nodes": {"type": "list", "elements": "str", "required": True},
            "resource": {"type": "str", "default": "rocknpu.device/npu"},
            "expected": {"type": "raw"},
            "minimum": {"type": "int"},
            "timeout": {"type": "int", "default": 120},
            **AUTH_ARGUMENTS,
        },
        mutually_exclusive=[("expected", "minimum")],
        required_one_of=[("expected", "minimum")],
        supports_check_mode=True,
    )
    check_start(module)
    try:
        targets = read_options(module.params)
    except ValueError as error:
        module.fail_json(msg=str(error))
    deadline = Deadline(module.params["timeout"])
    try:
        result = measure(module.params, targets, deadline)
    except ApiError as error:
        result = {"msg": str(error), "reason": error.reason}
    result["waited"] = round(deadline.elapsed(), 1)
    for node in result.get("nodes", []):
        if node["rejected_pods"]:
            module.warn(f"{node['name']}: {describe_rejected(node['rejected_pods'])}")
    if "msg" in result:
        module.fail_json(**result)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
