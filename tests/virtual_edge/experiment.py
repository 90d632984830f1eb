"""The experiment: one pod more than there are NPU shares, each of an ordinary user.

Works on any cluster whose nodes can get the image; changes nothing but a namespace of its own,
which is gone at the end.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import urllib3
from kubernetes import client, config

from virtual_edge.errors import EdgeError, RefusedError
from virtual_edge.pod_report import RESOURCE, SCRIPT, USER, Pod, Result, find_faults, parse, table
from virtual_edge.progress import say

IMAGE = "localhost/busybox:1"
NAMESPACE = "rocknpu-pods"
_TIMEOUT = 120
_Found = TypeVar("_Found")


def manifest(name: str, image: str) -> dict[str, Any]:
    """A pod of an ordinary user that asks for one share."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsUser": USER,
                "runAsGroup": USER,
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "look",
                    "image": image,
                    "command": ["sh", "-c", SCRIPT],
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "resources": {"limits": {RESOURCE: "1"}},
                }
            ],
        },
    }


def run(kubeconfig: Path, image: str | None, as_json: bool) -> int:
    """Run the experiment and print what came out.

    Returns 0 if everything was as it should be, else 1.

    Raises:
        RefusedError: the kubeconfig cannot be used, or the cluster has no NPU.
        EdgeError: the API server does not answer, or pods do not start in time.
    """
    try:
        settings = client.Configuration()
        config.load_kube_config(  # type: ignore[no-untyped-call]
            str(kubeconfig), client_configuration=settings
        )
        # One try: what cannot be reached is not waited for.
        settings.retries = False
        api = client.CoreV1Api(client.ApiClient(settings))
    except (OSError, config.ConfigException) as problem:
        raise RefusedError(
            f"{kubeconfig} is no kubeconfig that can be used ({problem}): run `make site` first."
        ) from None
    try:
        result = _experiment(api, image or IMAGE)
    except urllib3.exceptions.HTTPError as problem:
        raise EdgeError(
            f"The API server in {kubeconfig} does not answer ({type(problem).__name__}): run "
            "`make site` first."
        ) from None
    except client.ApiException as problem:
        raise EdgeError(f"The API server refused: {problem.status} {problem.reason}.") from None
    faults = find_faults(result)
    if as_json:
        print(json.dumps({**asdict(result), "faults": faults}, indent=2))
    else:
        print(table(result))
    for fault in faults:
        say(fault)
    return 1 if faults else 0


def _experiment(api: Any, image: str) -> Result:
    # What an interrupted run has left would count as taken.
    _remove_namespace(api)
    shares = _free_shares(api)
    if not shares:
        raise RefusedError(
            f"No node of this cluster has a free {RESOURCE}: run `make site` first, or stop the "
            "pods that use it."
        )
    api.create_namespace({"metadata": {"name": NAMESPACE}})
    try:
        # Pods are created before their service account would be there on a slow machine.
        _wait("the namespace's service account", partial(_has_account, api))
        names = [f"npu-{number}" for number in range(1, sum(shares.values()) + 2)]
        say(f"{len(names)} pods ask for one {RESOURCE} each; there are {sum(shares.values())}")
        for name in names[:-1]:
            api.create_namespaced_pod(NAMESPACE, manifest(name, image))
        pods = [_wait_for_pod(api, name) for name in names[:-1]]
        api.create_namespaced_pod(NAMESPACE, manifest(names[-1], image))
        last = names[-1]
        pods.append(_wait(f"word of {last}", partial(_placed_or_waiting, api, last)))
        deleted = names[0]
        say(f"deleting {deleted}, so that {last} can run")
        api.delete_namespaced_pod(deleted, NAMESPACE)
        return Result(shares, pods, deleted, _wait_for_pod(api, last))
    finally:
        _remove_namespace(api)


def _free_shares(api: Any) -> dict[str, int]:
    """Shares of each node that no pod has, for nodes that have any."""
    free = {}
    for node in api.list_node(_request_timeout=10).items:
        free[node.metadata.name] = int((node.status.allocatable or {}).get(RESOURCE, "0"))
    for pod in api.list_pod_for_all_namespaces().items:
        if pod.spec.node_name in free and pod.status.phase not in ("Succeeded", "Failed"):
            for container in pod.spec.containers:
                limits = (container.resources and container.resources.limits) or {}
                free[pod.spec.node_name] -= int(limits.get(RESOURCE, "0"))
    return {name: shares for name, shares in free.items() if shares > 0}


def _wait(what: str, look: Callable[[], _Found | None]) -> _Found:
    deadline = time.monotonic() + _TIMEOUT
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise EdgeError(f"Waited {_TIMEOUT} s in vain for {what}.")
        time.sleep(0.3)


def _wait_for_pod(api: Any, name: str) -> Pod:
    try:
        return _wait(f"{name} to run", partial(_running, api, name))
    except EdgeError as problem:
        raise EdgeError(f"{problem} Its last event: {_last_event(api, name)}") from None


def _last_event(api: Any, name: str) -> str:
    events = api.list_namespaced_event(
        NAMESPACE, field_selector=f"involvedObject.name={name},type=Warning"
    )
    return events.items[-1].message if events.items else "none."


def _has_account(api: Any) -> bool:
    return any(
        account.metadata.name == "default"
        for account in api.list_namespaced_service_account(NAMESPACE).items
    )


def _running(api: Any, name: str) -> Pod | None:
    status = api.read_namespaced_pod(name, NAMESPACE)
    if status.status.phase == "Failed":
        raise EdgeError(f"{name} failed: {status.status.reason}: {status.status.message}.")
    if status.status.phase != "Running":
        return None
    try:
        seen = parse(api.read_namespaced_pod_log(name, NAMESPACE))
    except client.ApiException:
        # The kubelet may not have the log yet.
        return None
    return Pod(name, status.spec.node_name, "Running", "", seen) if seen else None


def _placed_or_waiting(api: Any, name: str) -> Pod | None:
    status = api.read_namespaced_pod(name, NAMESPACE)
    if status.spec.node_name:
        return _running(api, name)
    for condition in status.status.conditions or []:
        if condition.type == "PodScheduled" and condition.reason == "Unschedulable":
            return Pod(name, "", status.status.phase, condition.message)
    return None


def _remove_namespace(api: Any) -> None:
    try:
        api.delete_namespace(NAMESPACE)
    except client.ApiException as problem:
        if problem.status == 404:
            return
        if problem.status != 409:
            raise
    _wait(f"the namespace {NAMESPACE} to go", lambda: not _has_namespace(api))


def _has_namespace(api: Any) -> bool:
    return any(one.metadata.name == NAMESPACE for one in api.list_namespace().items)
