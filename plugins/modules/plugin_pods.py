#!/usr/bin/python
# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: plugin_pods
short_description: Find the pods that run a device plugin for the NPU on a node
version_added: 1.0.0
description:
  - Tells which pods of a node run a device plugin for the NPU, those of the DaemonSet of this
    collection and those that somebody else has made. Such a pod mounts the kubelet's directory for
    device plugins, and its image, command, arguments or environment have C(rknpu) or the name of
    the resource in them.
  - Can wait until the DaemonSet's own is ready, or gone.
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
  resource:
    description: Name of the resource that the NPU is offered as.
    type: str
    default: rocknpu.device/npu
  state:
    description:
      - With V(listed) nothing is waited for.
      - With V(ready) the module waits until the DaemonSet has one pod on the node, which is ready
        and of the O(release).
      - With V(gone) it waits until the DaemonSet has none there.
    type: str
    choices: [listed, ready, gone]
    default: listed
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
  action_group:
    description: Use C(group/rocknpu.edge.edge) in C(module_defaults) to set the access once.
    support: full
    membership:
      - rocknpu.edge.edge
notes:
  - The user needs to be allowed to list pods in all namespaces, to get the DaemonSet, and with
    O(refresh) to patch its pods.
author:
  - The rocknpu.edge authors (@rocknpu)
"""

EXAMPLES = r"""
- name: See who offers the NPU of a board
  rocknpu.edge.plugin_pods:
    kubeconfig: ~/.kube/rocknpu-edge.yaml
    node: rk3588-node-01
  delegate_to: localhost
  become: false
  register: __edge_plugins
"""

RETURN = r"""
pods:
  description: The pods, first those of the DaemonSet.
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
release:
  description: Annotation C(rocknpu.device/release) of the pods that the DaemonSet makes now, empty
    where there is no DaemonSet.
  returned: when the API has answered
  type: str
  sample: 5f0d5a3c
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

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.rocknpu.edge.plugins.module_utils.capacity_wait import Deadline, wait_until
from ansible_collections.rocknpu.edge.plugins.module_utils.kube_api import (
    AUTH_ARGUMENTS,
    KUBERNETES_IMPORT_ERROR,
    ApiError,
    KubeApi,
    connect,
)
from ansible_collections.rocknpu.edge.plugins.module_utils.kube_nodes import (
    annotate_pod,
    get_daemonset,
    list_pods,
)
from ansible_collections.rocknpu.edge.plugins.module_utils.plugin_pods import (
    RELEASE,
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


def find_release(api: KubeApi, daemonset: str, timeout: int) -> str:
    """Return the release of the pods that a DaemonSet makes; empty where there is none.

    Raises:
        ApiError
    """
    try:
        template = get_daemonset(api, *daemonset.split("/", 1), timeout)["spec"]["template"]
    except ApiError as error:
        if error.reason != "missing":
            raise
        return ""
    return str((template["metadata"].get("annotations") or {}).get(RELEASE, ""))


def run(options: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    """Look, or wait, and return the result of the module; `msg` is in it when it failed.

    Raises:
        ApiError
    """
    api = connect(options)
    node, release = options["node"], options["release"]
    state = "listed" if check_mode else options["state"]
    # Nothing is allocatable while one side has gone and the other waits for this.
    deadline = Deadline(0 if state == "listed" else options["timeout"], interval=0.5)

    def look() -> list[PluginPod]:
        pods = list_pods(api, node, deadline.request_timeout())
        return find_plugins(pods, options["resource"], options["daemonset"])

    def ours(pods: Sequence[PluginPod]) -> list[PluginPod]:
        return [pod for pod in pods if pod.ours]

    holds = {
        "listed": lambda pods: True,
        "gone": lambda pods: not ours(pods),
        "ready": lambda pods: is_up(ours(pods), release),
    }[state]
    pods, error = wait_until(look, holds, deadline)
    if error:
        raise error
    if options["refresh"] and not check_mode:
        refresh(api, ours(pods), deadline)
    result: dict[str, Any] = {
        "pods": [pod._asdict() for pod in sorted(pods, key=lambda pod: not pod.ours)],
        "release": find_release(api, options["daemonset"], deadline.request_timeout()),
    }
    if not holds(pods):
        what = describe_unready(ours(pods), release)
        if state == "gone":
            what = f"{', '.join(pod.name for pod in ours(pods))} is still there"
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
            "resource": {"type": "str", "default": "rocknpu.device/npu"},
            "state": {"type": "str", "choices": ["listed", "ready", "gone"], "default": "listed"},
            "release": {"type": "str", "default": ""},
            "refresh": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 60},
            **AUTH_ARGUMENTS,
        },
        supports_check_mode=True,
    )
    if KUBERNETES_IMPORT_ERROR:
        module.fail_json(msg=missing_required_lib("kubernetes"), exception=KUBERNETES_IMPORT_ERROR)
    try:
        result = run(module.params, module.check_mode)
    except ApiError as error:
        result = {"msg": str(error), "reason": error.reason}
    if "msg" in result:
        module.fail_json(**result)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
