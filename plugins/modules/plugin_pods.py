#!/usr/bin/python
# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: plugin_pods
short_description: Wait for the pod that runs the device plugin on a node
version_added: 1.0.0
description:
  - Waits until the pod of this collection's DaemonSet is ready on a node, or gone.
  - Runs where the Kubernetes Python client is, usually on the control node. Use it with
    C(delegate_to), see the examples.
options:
  node:
    description: Name of the node, as C(kubectl get nodes) shows it.
    type: str
    required: true
  daemonset:
    description: The DaemonSet of the collection, as NAMESPACE/NAME.
    type: str
    default: rknpu-system/rknpu-plugin
  state:
    description:
      - With V(ready) the module waits until the DaemonSet has one pod on the node, which is ready
        and of the O(release).
      - With V(gone) it waits until the DaemonSet has none there.
    type: str
    choices: [ready, gone]
    default: ready
  release:
    description: What the annotation C(rocknpu.device/release) of a ready pod has to be.
    type: str
    default: ""
  refresh:
    description:
      - Have the kubelet look at the pod now, so that a ConfigMap that was changed reaches it within
        a second instead of a minute. Sets the annotation C(rocknpu.device/refreshed) of the pod.
    type: bool
    default: false
  timeout:
    description: Seconds to wait.
    type: int
    default: 60
extends_documentation_fragment:
  - rocknpu.edge.kube_auth
attributes:
  check_mode:
    description: Waits for nothing, because nothing was changed before.
    support: full
  diff_mode:
    description: Nothing is changed, so there is no difference to show.
    support: none
notes:
  - The user needs to be allowed to list pods in all namespaces, and with O(refresh) to patch those
    of the DaemonSet.
author:
  - The rocknpu.edge authors (@rocknpu)
"""

EXAMPLES = r"""
- name: Wait until the DaemonSet has left a board
  rocknpu.edge.plugin_pods:
    kubeconfig: ~/.kube/rocknpu-edge.yaml
    node: rk3588-node-01
    state: gone
  delegate_to: localhost
  become: false
"""

RETURN = r"""
pods:
  description: The DaemonSet's pods on the node.
  returned: when the API has answered
  type: list
  elements: dict
  contains:
    namespace:
      description: Namespace of the pod.
      type: str
      returned: always
      sample: rknpu-system
    name:
      description: Name of the pod.
      type: str
      returned: always
      sample: rknpu-plugin-x2x7b
    controller:
      description: Kind and name of what has made it, empty for a pod that somebody made by hand.
      type: str
      returned: always
      sample: DaemonSet rknpu-plugin
    ours:
      description: Whether it is of the DaemonSet of the collection.
      type: bool
      returned: always
      sample: true
    release:
      description: Its annotation C(rocknpu.device/release).
      type: str
      returned: always
      sample: 5f0d5a3c
    ready:
      description: Whether it is ready.
      type: bool
      returned: always
      sample: true
    problem:
      description: Why it is not ready, in words.
      type: str
      returned: always
      sample: ""
reason:
  description:
    - What is wrong, one of V(configuration), V(unreachable), V(certificate), V(unauthorized),
      V(forbidden) and V(unavailable) for the API, and V(pods) for pods that are not as wanted.
  returned: on failure
  type: str
  sample: pods
"""

import datetime
from typing import Any, Mapping, Sequence

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rocknpu.edge.plugins.module_utils.capacity_wait import Deadline, wait_until
from ansible_collections.rocknpu.edge.plugins.module_utils.kube_api import (
    AUTH_ARGUMENTS,
    ApiError,
    KubeApi,
    check_start,
    connect,
)
from ansible_collections.rocknpu.edge.plugins.module_utils.kube_nodes import annotate_pod, list_pods
from ansible_collections.rocknpu.edge.plugins.module_utils.plugin_pods import (
    PluginPod,
    describe_unready,
    find_plugins,
    is_up,
)


def refresh(api: KubeApi, pods: Sequence[PluginPod], deadline: Deadline) -> None:
    """Have the kubelet look at pods at once.

    Raises:
        ApiError
    """
    now = datetime.datetime.now(datetime.timezone.utc).isoformat()
    for pod in pods:
        annotations = {"rocknpu.device/refreshed": now}
        annotate_pod(api, pod.namespace, pod.name, annotations, deadline.request_timeout())


def run(options: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    """Wait, and return the result of the module; `msg` is in it when it failed.

    Raises:
        ApiError
    """
    api = connect(options)
    node, release, gone = options["node"], options["release"], options["state"] == "gone"
    # Nothing is allocatable while one side has gone and the other waits for this.
    deadline = Deadline(0 if check_mode else options["timeout"], interval=0.5)

    def look() -> list[PluginPod]:
        pods = list_pods(api, node, deadline.request_timeout())
        return [pod for _node, pod in find_plugins(pods, (), options["daemonset"]) if pod.ours]

    def holds(pods: Sequence[PluginPod]) -> bool:
        return check_mode or (not pods if gone else is_up(pods, release))

    pods, error = wait_until(look, holds, deadline)
    if error:
        raise error
    if options["refresh"] and not check_mode:
        refresh(api, pods, deadline)
    result: dict[str, Any] = {"pods": [pod._asdict() for pod in pods]}
    if not holds(pods):
        what = describe_unready(pods, release)
        if gone:
            what = f"{', '.join(pod.name for pod in pods)} is still there"
        result.update(
            msg=f"{node}: {what}; see kubectl describe pods and kubectl logs in the namespace "
            f"{options['daemonset'].partition('/')[0]}.",
            reason="pods",
        )
    return result


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "node": {"type": "str", "required": True},
            "daemonset": {"type": "str", "default": "rknpu-system/rknpu-plugin"},
            "state": {"type": "str", "choices": ["ready", "gone"], "default": "ready"},
            "release": {"type": "str", "default": ""},
            "refresh": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 60},
            **AUTH_ARGUMENTS,
        },
        supports_check_mode=True,
    )
    check_start(module)
    try:
        result = run(module.params, module.check_mode)
    except ApiError as error:
        result = {"msg": str(error), "reason": error.reason}
    if "msg" in result:
        module.fail_json(**result)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
