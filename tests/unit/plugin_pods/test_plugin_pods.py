"""Which pods run a device plugin for the NPU, and the module's real main."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.rocknpu.edge.plugins.module_utils.plugin_pods import find_plugins
from ansible_collections.rocknpu.edge.plugins.modules import plugin_pods
from unit.node_capacity.conftest import TOKEN, _plain_environment  # noqa: F401 (a fixture)
from unit.node_capacity.kube_server import KubeServer

Run = Callable[..., dict[str, Any]]
DAEMONSET = "rknpu-system/rknpu-plugin"
LABELS = {"app.kubernetes.io/managed-by": "rocknpu.edge"}
SOCKETS = "/var/lib/kubelet/device-plugins"


def pod(
    name: str = "rknpu-plugin-x2x7b",
    namespace: str = "rknpu-system",
    owner: str = "DaemonSet rknpu-plugin",
    labels: dict[str, str] = LABELS,
    path: str = SOCKETS,
    release: str = "r1",
    phase: str = "Running",
    status: dict[str, Any] | None = None,
    **container: Any,
) -> dict[str, Any]:
    """A pod that runs a device plugin, by default the collection's own."""
    kind, _, owner_name = owner.partition(" ")
    owners = [{"kind": kind, "name": owner_name, "controller": True}] if owner else []
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "ownerReferences": owners,
            "labels": labels,
            "annotations": {"rocknpu.device/release": release},
        },
        "spec": {
            "nodeName": "node-01",
            "volumes": [{"name": "sockets", "hostPath": {"path": path}}, {"name": "x"}],
            "containers": [{"name": "c", "image": "localhost/rknpu-plugin:1", **container}],
        },
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "True"}],
            **(status or {}),
        },
    }


def other(name: str, namespace: str = "default", **options: Any) -> dict[str, Any]:
    """A pod of somebody else."""
    return pod(name, namespace, **options)


@pytest.mark.parametrize(
    ("theirs", "found"),
    [
        (other("by-hand", owner="", labels={}), True),
        (other("copy"), True),
        (other("same-place", "rknpu-system", labels={}), True),
        (other("rival", image="ghcr.io/elct9620/rknpu-device-plugin"), True),
        (other("generic", image="squat/generic", args=["--name=rocknpu.device/npu"]), True),
        (other("by-variable", image="x", env=[{"name": "R", "value": "rocknpu.device/npu"}]), True),
        (other("whole-kubelet", path="/var/lib/kubelet/"), True),
        (other("whole-host", path="/"), True),
        # Plugins for other devices, pods beside them, and pods that have ended.
        (other("gpu", image="nvidia/k8s-device-plugin"), False),
        (other("user-of-the-npu", path="/var/lib/models"), False),
        (other("neighbour", path=f"{SOCKETS}-of-others"), False),
        (other("ended", phase="Failed"), False),
    ],
)
def test_other_plugins_are_told_from_other_pods(theirs, found):
    found_pods = find_plugins([theirs, pod()], ["rocknpu.device/npu"], DAEMONSET)
    pods = [one for node, one in found_pods if node == "node-01"]
    assert [one.name for one in pods if one.ours] == ["rknpu-plugin-x2x7b"]
    assert [one.name for one in pods if not one.ours] == [theirs["metadata"]["name"]] * found


WAITING = {
    "phase": "Pending",
    "containerStatuses": [
        {"state": {"waiting": {"reason": "ErrImageNeverPull", "message": "not present"}}}
    ],
}
CRASHING = {
    "containerStatuses": [
        {
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
            "lastState": {"terminated": {"message": "starting\nserved already, by process 7\n"}},
        }
    ],
}
UNPLACED = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "message": "1 Too many pods"}],
}


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (WAITING, "ErrImageNeverPull: not present"),
        (CRASHING, "CrashLoopBackOff: served already, by process 7"),
        (UNPLACED, "1 Too many pods"),
        ({"conditions": [{"type": "Ready", "status": "False", "reason": "NotYet"}]}, "NotYet"),
        ({}, ""),
    ],
)
def test_why_a_pod_is_not_ready(status, says):
    _node, found = find_plugins([pod(status=status)], (), DAEMONSET)[0]
    assert (found.problem, found.ready) == (says, not says)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run_module(server: KubeServer, **arguments: Any) -> dict[str, Any]:
        access = {"host": server.url, "api_key": TOKEN, "node": "node-01"}
        with patch_module_args({**access, **arguments}), pytest.raises(SystemExit):
            plugin_pods.main()
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        return answer

    return run_module


def test_module(run):
    with KubeServer() as server:
        server.pods = [pod("mine", "default", owner=""), pod()]
        old = run(server, state="ready", release="r2", timeout=0)
        assert old["reason"] == "pods"
        assert "rknpu-plugin-x2x7b: it is of an older release;" in old["msg"]
        assert "is still there" in run(server, state="gone", timeout=0)["msg"]
        unchecked = run(server, state="gone", timeout=0, _ansible_check_mode=True)
        assert [one["name"] for one in unchecked["pods"]] == ["rknpu-plugin-x2x7b"]

        # The old one goes, the new one comes.
        threading.Timer(0.5, lambda: server.pods.pop()).start()
        assert run(server, state="gone")["pods"] == []
        none = run(server, state="ready", release="r2", timeout=0)
        assert "the DaemonSet has no pod there;" in none["msg"]
        threading.Timer(0.5, lambda: server.pods.append(pod(release="r2"))).start()
        assert run(server, state="ready", release="r2")["pods"][0]["ready"] is True

        fresh = "/api/v1/namespaces/rknpu-system/pods/rknpu-plugin-x2x7b"
        server.objects |= {fresh: {"metadata": {}}, "/api/v1/namespaces/rknpu-system": {}}
        assert run(server, state="ready", release="r2", refresh=True)["changed"] is False
        assert "rocknpu.device/refreshed" in server.objects[fresh]["metadata"]["annotations"]
