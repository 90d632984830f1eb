"""The example workloads on a cluster, with an image that looks around in place of an application.

Works on the two boards of the virtual edge, which have 2 + 1 shares. Each example runs in a
namespace of its own, which is gone at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client, config, dynamic

from virtual_edge.errors import EdgeError
from virtual_edge.pod_report import SCRIPT, USER, Seen, parse
from virtual_edge.progress import say

EXAMPLES = Path(__file__).parents[2] / "examples"
IMAGE = "localhost/busybox:1"
NAMESPACE = "rocknpu-examples"
_TIMEOUT = 120
_MERGE = "application/merge-patch+json"


@dataclass
class Ran:
    """A pod of an example: where it ran, and what it saw."""

    name: str
    node: str
    seen: Seen


def one_pod(pods: list[Ran]) -> Iterator[str]:
    """One pod with one share."""
    if len(pods) != 1:
        yield f"it runs {len(pods)} pods, not one."
    for pod in pods:
        if len(pod.seen.shares) != 1:
            yield f"{pod.name} has the shares {pod.seen.shares}, not one."


def on_every_board(pods: list[Ran]) -> Iterator[str]:
    """No two pods on one board."""
    nodes = [pod.node for pod in pods]
    if len(nodes) != 2 or len(set(nodes)) != 2:
        yield f"its pods are on {nodes}, not one on each board."


def both_shares(pods: list[Ran]) -> Iterator[str]:
    """One pod that has the NPU for itself."""
    if [len(pod.seen.shares) for pod in pods] != [2]:
        yield f"it has {[pod.seen.shares for pod in pods]}, not one pod with both shares."


def on_one_board(pods: list[Ran]) -> Iterator[str]:
    """Two pods that use different cores of one NPU."""
    if len(pods) != 2 or len({pod.node for pod in pods}) != 1:
        yield f"its pods are on {[pod.node for pod in pods]}, not both on one board."
    if len({pod.seen.shares[0] for pod in pods}) != 2:
        yield "both have the same share."
    if len({pod.seen.core_mask for pod in pods}) != 2:
        yield f"their core masks are {[pod.seen.core_mask for pod in pods]}, not different."


def writes_where_it_may(pods: list[Ran]) -> Iterator[str]:
    """Room in /tmp and /dev/shm, and nowhere else."""
    yield from one_pod(pods)
    for pod in pods:
        if pod.seen.writes != ["/tmp", "/dev/shm"]:
            yield f"{pod.name} can write to {pod.seen.writes}."


def all_shares(pods: list[Ran]) -> Iterator[str]:
    """Every share of the cluster in use."""
    if len(pods) != 3:
        yield f"it runs {len(pods)} pods, not 3."


# Each file of the directory, and what has to be true of its pods.
CHECKS: dict[str, Callable[[list[Ran]], Iterator[str]]] = {
    "affinity.yaml": one_pod,
    "exclusive.yaml": both_shares,
    "non-root.yaml": writes_where_it_may,
    "pod.yaml": one_pod,
    "rollout.yaml": all_shares,
    "shared.yaml": on_one_board,
    "spread.yaml": on_every_board,
}


def read(name: str) -> dict[str, Any]:
    """An example, whose containers look around."""
    item: dict[str, Any] = yaml.safe_load((EXAMPLES / name).read_text())
    spec = item["spec"]["template"]["spec"] if item["kind"] == "Deployment" else item["spec"]
    spec["terminationGracePeriodSeconds"] = 1
    for container in spec["containers"]:
        container.update(image=IMAGE, command=["sh", "-c", SCRIPT])
    return item


def run(kubeconfig: Path) -> int:
    """Apply every example. Returns 0 if all were as they should be, else 1.

    Raises:
        EdgeError: there is an example without a check, or pods do not start in time.
    """
    files = {path.name for path in EXAMPLES.glob("*.yaml")}
    if files != CHECKS.keys():
        raise EdgeError(f"No check for {files ^ CHECKS.keys()}: add one to CHECKS.")
    config.load_kube_config(str(kubeconfig))  # type: ignore[no-untyped-call]
    core: Any = client.CoreV1Api()
    apps: Any = client.AppsV1Api()
    # It takes manifests as they are.
    cluster: Any = dynamic.DynamicClient(client.ApiClient())  # type: ignore[no-untyped-call]
    _remove_namespace(core)
    core.create_namespace({"metadata": {"name": NAMESPACE}})
    faults = []
    try:
        _wait("the namespace's service account", lambda: _has_account(core))
        for name in sorted(files):
            say(f"examples/{name}")
            found = [f"{name}: {fault}" for fault in _try(cluster, core, apps, name)]
            for fault in found:
                say(fault)
            faults += found
    finally:
        _remove_namespace(core)
    return 1 if faults else 0


def _try(cluster: Any, core: Any, apps: Any, name: str) -> list[str]:
    item = read(name)
    title = item["metadata"]["name"]
    resource = cluster.resources.get(api_version=item["apiVersion"], kind=item["kind"])
    resource.create(body=item, namespace=NAMESPACE)
    number = item["spec"].get("replicas", 1)
    pods = _wait_for_pods(core, number)
    faults = [*CHECKS[name](pods), *_find_faults(pods)]
    if name == "rollout.yaml":
        item["spec"]["template"]["metadata"]["annotations"] = {"version": "2"}
        resource.patch(body=item, name=title, namespace=NAMESPACE, content_type=_MERGE)
        _wait(f"{title} to roll out", lambda: _rolled_out(apps, title, number))
    resource.delete(name=title, namespace=NAMESPACE, propagation_policy="Foreground")
    _wait("its pods to go", lambda: not core.list_namespaced_pod(NAMESPACE).items)
    return faults


def _find_faults(pods: list[Ran]) -> Iterator[str]:
    """What is true of every pod."""
    for pod in pods:
        seen = pod.seen
        if seen.uid != USER or int(seen.capabilities or "1", 16):
            yield f"{pod.name} runs as {seen.uid} with the capabilities {seen.capabilities}."
        if seen.refused or seen.device not in seen.opens:
            yield f"{pod.name} opens {seen.opens} and not {seen.refused or seen.device}."


def _wait_for_pods(core: Any, number: int) -> list[Ran]:
    def look() -> list[Ran] | None:
        found = []
        for pod in core.list_namespaced_pod(NAMESPACE).items:
            if pod.status.phase == "Running" and not pod.metadata.deletion_timestamp:
                try:
                    seen = parse(core.read_namespaced_pod_log(pod.metadata.name, NAMESPACE))
                except client.ApiException:
                    # The kubelet may not have the log yet.
                    seen = None
                if seen:
                    found.append(Ran(pod.metadata.name, pod.spec.node_name, seen))
        return found if len(found) == number else None

    pods: list[Ran] = _wait(f"{number} pods", look)
    return pods


def _rolled_out(apps: Any, title: str, number: int) -> bool:
    item = apps.read_namespaced_deployment(title, NAMESPACE)
    status = item.status
    return bool(
        status.observed_generation == item.metadata.generation
        and status.updated_replicas == number
        and status.available_replicas == number
        and status.replicas == number
    )


def _wait(what: str, look: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + _TIMEOUT
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise EdgeError(f"Waited {_TIMEOUT} s in vain for {what}.")
        time.sleep(0.3)


def _has_account(core: Any) -> bool:
    accounts = core.list_namespaced_service_account(NAMESPACE).items
    return any(account.metadata.name == "default" for account in accounts)


def _remove_namespace(core: Any) -> None:
    def names() -> set[str]:
        return {one.metadata.name for one in core.list_namespace().items}

    if NAMESPACE in names():
        core.delete_namespace(NAMESPACE)
        _wait(f"the namespace {NAMESPACE} to go", lambda: NAMESPACE not in names())
