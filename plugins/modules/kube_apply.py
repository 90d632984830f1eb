#!/usr/bin/python
# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_apply
short_description: Apply objects to a Kubernetes cluster, or delete them
version_added: 1.0.0
description:
  - Brings objects of the kinds Namespace, ServiceAccount, ConfigMap and DaemonSet to what is given,
    by server-side apply with the field manager C(rocknpu.edge). The server compares, so that what a
    cluster adds by itself is no difference.
  - Runs where the Kubernetes Python client is, usually on the control node. Use it with
    C(delegate_to), see the examples.
options:
  objects:
    description:
      - The objects in the order in which they are applied, so a namespace comes before what is in
        it. They are deleted in the opposite order.
    type: list
    elements: dict
    required: true
  state:
    description:
      - Whether the objects are there.
      - With V(absent) only those are deleted that this module has applied.
    type: str
    choices: [present, absent]
    default: present
  timeout:
    description: Seconds to wait for an API that does not answer, and for objects to be gone.
    type: int
    default: 60
extends_documentation_fragment:
  - rocknpu.edge.kube_auth
attributes:
  check_mode:
    description: The server judges the changes and does not keep them.
    support: full
  diff_mode:
    description: Shows each object that differs.
    support: full
notes:
  - The user needs to be allowed to get, patch, create and delete these objects.
author:
  - The rocknpu.edge authors (@rocknpu)
"""

EXAMPLES = r"""
- name: Have a namespace
  rocknpu.edge.kube_apply:
    kubeconfig: ~/.kube/rocknpu-edge.yaml
    objects:
      - apiVersion: v1
        kind: Namespace
        metadata:
          name: models
  delegate_to: localhost
  become: false
"""

RETURN = r"""
changes:
  description: What was changed, each as KIND NAMESPACE/NAME.
  returned: success
  type: list
  elements: str
  sample:
    - ConfigMap rknpu-system/rknpu-plugin
reason:
  description:
    - What is wrong with the API, one of V(configuration), V(unreachable), V(certificate),
      V(unauthorized), V(forbidden), V(missing), V(conflict), V(invalid) and V(unavailable), or
      V(remains) where an object was not deleted in time.
  returned: on failure
  type: str
  sample: invalid
"""

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
from ansible_collections.rocknpu.edge.plugins.module_utils.kube_manifests import (
    Outcome,
    apply,
    check_object,
    delete,
    exists,
)


def bring(
    api: KubeApi, options: Mapping[str, Any], deadline: Deadline, check_mode: bool
) -> list[Outcome]:
    """Bring every object to its state, one after the other.

    Raises:
        ApiError
    """
    present = options["state"] == "present"
    step = apply if present else delete
    outcomes = []
    for item in options["objects"] if present else reversed(options["objects"]):
        outcome, error = wait_until(
            lambda item=item: step(api, item, deadline.request_timeout(), check_mode),
            lambda outcome: True,
            deadline,
        )
        if error:
            raise error
        outcomes.append(outcome)
    return outcomes


def await_end(api: KubeApi, objects: Sequence[Mapping[str, Any]], deadline: Deadline) -> bool:
    """Wait until none of the objects is there.

    Raises:
        ApiError
    """
    remains, error = wait_until(
        lambda: any(exists(api, item, deadline.request_timeout()) for item in objects),
        lambda remains: not remains,
        deadline,
    )
    if error:
        raise error
    return not remains


def describe(outcome: Outcome) -> dict[str, Any]:
    """Return the difference as Ansible shows it."""
    return {
        "before": outcome.before or "",
        "after": outcome.after or "",
        "before_header": outcome.title,
        "after_header": outcome.title,
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "objects": {"type": "list", "elements": "dict", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "timeout": {"type": "int", "default": 60},
            **AUTH_ARGUMENTS,
        },
        supports_check_mode=True,
    )
    check_start(module)
    options = module.params
    for item in options["objects"]:
        problem = check_object(item)
        if problem:
            module.fail_json(msg=f"objects: {problem}")
    deadline = Deadline(options["timeout"])
    try:
        api = connect(options)
        outcomes = bring(api, options, deadline, module.check_mode)
        changed = [outcome for outcome in outcomes if outcome.changed]
        deleted = [
            item
            for item, outcome in zip(reversed(options["objects"]), outcomes)
            if outcome.changed and options["state"] == "absent" and not module.check_mode
        ]
        if not await_end(api, deleted, deadline):
            module.fail_json(
                msg=f"{', '.join(outcome.title for outcome in changed)} were deleted, but are not "
                f"gone after {options['timeout']} seconds; look for finalizers.",
                reason="remains",
            )
    except ApiError as error:
        module.fail_json(msg=str(error), reason=error.reason)
    module.exit_json(
        changed=bool(changed),
        changes=[outcome.title for outcome in changed],
        diff=[describe(outcome) for outcome in changed],
    )


if __name__ == "__main__":
    main()
