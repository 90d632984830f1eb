# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the JSON of nodes and pods says about one extended resource.

Pure functions over the objects as the API server sends them.
https://kubernetes.io/docs/tasks/administer-cluster/extended-resource-node/
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any, Iterable, Mapping, NamedTuple

#: A JSON object of the Kubernetes API.
KubeObject = Mapping[str, Any]

#: The reason kubelet gives to pods that a device plugin was not there for, for example after a
#: reboot: https://github.com/kubernetes/kubernetes/issues/125579
REJECTED_REASON = "UnexpectedAdmissionError"

# https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]{1,2}))?"
)
_FACTORS = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
_FINISHED_PHASES = ("Succeeded", "Failed")


class NodeReading(NamedTuple):
    """One node as the API server sees it.

    capacity and allocatable are counts; None where the node has no such key, which means that the
    resource was never registered there. kubelet keeps the key of a resource that went away, with 0:
    https://github.com/kubernetes/kubernetes/issues/92396
    """

    name: str
    ready: bool
    ready_message: str
    capacity: int | None
    allocatable: int | None
    offered: tuple[str, ...]  # the extended resources that the node has at least one of


def parse_quantity(text: str) -> int:
    """Read a Kubernetes quantity such as "2", "1k" or "1500m" as a whole number.

    Fractions are rounded up, as Quantity.Value() in apimachinery (pkg/api/resource/quantity.go)
    does, which is what the scheduler counts with.

    Raises:
        ValueError: text is no quantity.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f'"{text}" is no Kubernetes quantity')
    number = Decimal(match["number"])
    if match["exponent"] is not None:
        return math.ceil(number.scaleb(int(match["exponent"])))
    return math.ceil(number * _FACTORS.get(match["suffix"], Decimal(1)))


def read_node(node: KubeObject, resource: str) -> NodeReading:
    """Read one object of kind Node."""
    status = node.get("status") or {}
    capacity = status.get("capacity") or {}
    ready, message = _read_ready(status)
    return NodeReading(
        name=name_of(node),
        ready=ready,
        ready_message=message,
        capacity=_count(capacity, resource),
        allocatable=_count(status.get("allocatable") or {}, resource),
        offered=tuple(
            sorted(key for key in capacity if _is_extended(key) and _count(capacity, key))
        ),
    )


def name_of(item: KubeObject) -> str:
    """Return the name of any API object."""
    return str(item["metadata"]["name"])


def _read_ready(status: KubeObject) -> tuple[bool, str]:
    for condition in status.get("conditions") or []:
        if condition.get("type") == "Ready":
            message = condition.get("message") or condition.get("reason") or "no reason given"
            return condition.get("status") == "True", str(message)
    return False, "kubelet has not reported the node's condition yet"


def _count(quantities: KubeObject, resource: str) -> int | None:
    return parse_quantity(str(quantities[resource])) if resource in quantities else None


def _is_extended(resource: str) -> bool:
    return "/" in resource and "kubernetes.io/" not in resource


def pod_request(pod: KubeObject, resource: str) -> int:
    """Return how much of the resource a pod takes, counted as the scheduler counts it.

    The larger of two sums: all containers together with all sidecars (init containers that are
    always restarted), and each other init container with the sidecars that start before it. The
    pod's overhead comes on top.
    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
    """
    spec = pod.get("spec") or {}
    sidecars = 0
    largest_init = 0
    for container in spec.get("initContainers") or []:
        request = _container_request(container, resource)
        if container.get("restartPolicy") == "Always":
            sidecars += request
            largest_init = max(largest_init, sidecars)
        else:
            largest_init = max(largest_init, sidecars + request)
    together = sidecars + sum(
        _container_request(container, resource) for container in spec.get("containers") or []
    )
    overhead = _count(spec.get("overhead") or {}, resource) or 0
    return max(together, largest_init) + overhead


def _container_request(container: KubeObject, resource: str) -> int:
    return _count((container.get("resources") or {}).get("requests") or {}, resource) or 0


def requested(pods: Iterable[KubeObject], resource: str) -> int:
    """Return what the pods of one node take together; finished pods take nothing."""
    return sum(pod_request(pod, resource) for pod in pods if _phase(pod) not in _FINISHED_PHASES)


def rejected_pods(pods: Iterable[KubeObject], resource: str) -> list[str]:
    """Return the pods, as NAMESPACE/NAME, that kubelet turned away when the resource was not there.

    They stay behind as Failed for ever, take nothing, and say nothing about the present.
    """
    return sorted(
        f"{pod['metadata'].get('namespace', 'default')}/{name_of(pod)}"
        for pod in pods
        if _phase(pod) == "Failed"
        and (pod.get("status") or {}).get("reason") == REJECTED_REASON
        and pod_request(pod, resource)
    )


def _phase(pod: KubeObject) -> str:
    return str((pod.get("status") or {}).get("phase") or "")
