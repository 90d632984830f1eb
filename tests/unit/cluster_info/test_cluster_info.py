"""The module's real main, with the real Kubernetes client, against a server on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.rocknpu.edge.plugins.modules import cluster_info, node_labels
from unit.node_capacity.conftest import TOKEN, _plain_environment  # noqa: F401 (a fixture)
from unit.node_capacity.kube_server import KubeServer, make_node
from unit.plugin_pods.test_plugin_pods import pod

Run = Callable[..., dict[str, Any]]
NAMESPACE = "/api/v1/namespaces/rknpu-system"
DAEMONSET = "/apis/apps/v1/namespaces/rknpu-system/daemonsets/rknpu-plugin"
TAINT = {"key": "dedicated", "value": "npu", "effect": "NoSchedule"}


@pytest.fixture
def server() -> Iterator[KubeServer]:
    with KubeServer() as running:
        running.token = TOKEN
        running.nodes = [make_node("node-01"), make_node("node-02")]
        yield running


@pytest.fixture
def run(server: KubeServer, capsys: pytest.CaptureFixture[str]) -> Run:
    def run_module(module: Any = cluster_info, **arguments: Any) -> dict[str, Any]:
        access = {"host": server.url, "api_key": TOKEN}
        with patch_module_args({**access, **arguments}), pytest.raises(SystemExit):
            module.main()
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        del answer["invocation"]
        return answer

    return run_module


def test_a_cluster_that_knows_nothing(run):
    nothing = {"marks": {}, "plugin_pods": []}
    assert run() == {
        "changed": False,
        "nodes": {"node-01": nothing, "node-02": nothing},
        "namespace": False,
        "release": "",
    }


def test_labels_and_taints_are_those_that_the_module_has_set(run, server):
    wanted = {"labels": {"rocknpu.device/cores": 3}, "taints": [TAINT]}
    kept = run(node_labels, node="node-02", owner="npu", **wanted)
    run(node_labels, node="node-02", owner="k3s", labels={"room": "b12"})
    marks = run()["nodes"]["node-02"]["marks"]
    assert marks["npu"] == {"labels": kept["labels"], "taints": kept["taints"]}
    assert marks["k3s"] == {"labels": {"room": "b12"}, "taints": []}
    assert run()["nodes"]["node-01"]["marks"] == {}

    # What somebody has taken away or changed is not as it was set.
    labels = server.nodes[1]["metadata"]["labels"]
    labels["room"] = "b13"
    del labels["rocknpu.device/cores"]
    marks = run()["nodes"]["node-02"]["marks"]
    assert (marks["k3s"]["labels"], marks["npu"]["labels"]) == ({"room": "b13"}, {})


@pytest.mark.parametrize("memory", ["", "[]", "3", '{"labels": 1}', "not JSON", '{"taints": [5]}'])
def test_a_memory_that_somebody_has_spoilt_is_none(run, server, memory):
    server.nodes[0]["metadata"]["annotations"] = {"rocknpu.device/labels-of-npu": memory}
    assert run()["nodes"]["node-01"]["marks"] == {"npu": {"labels": {}, "taints": []}}


def test_pods_stand_at_their_nodes(run, server):
    rival = pod("rival", "default", owner="", image="x", args=["--name=example.com/chip"])
    unplaced = pod("unplaced", "default", owner="")
    del unplaced["spec"]["nodeName"]
    server.pods = [rival, pod(), unplaced]
    nodes = run(resources=["rocknpu.device/npu", "example.com/chip"])["nodes"]
    found = [(one["name"], one["ours"]) for one in nodes["node-01"]["plugin_pods"]]
    assert found == [("rknpu-plugin-x2x7b", True), ("rival", False)]
    assert nodes["node-02"]["plugin_pods"] == []
    assert [one["name"] for one in run()["nodes"]["node-01"]["plugin_pods"]] == [found[0][0]]


def test_what_there_is_of_the_daemonset(run, server):
    server.objects[NAMESPACE] = {"metadata": {}}
    assert (run()["namespace"], run()["release"]) == (True, "")
    server.objects[DAEMONSET] = {
        "spec": {"template": {"metadata": {"annotations": {"rocknpu.device/release": "r2"}}}}
    }
    assert run()["release"] == "r2"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"daemonset": "rknpu-plugin"}, 'daemonset: must be NAMESPACE/NAME, not "rknpu-plugin".'),
        ({"daemonset": "default/"}, 'daemonset: must be NAMESPACE/NAME, not "default/".'),
        ({"timeout": 0}, "timeout: must be 1 or more, not 0."),
        ({"timeout": 10**20}, "timeout: must be 600 or less, not 1"),
        ({"resources": ["NPU"]}, 'resources: "NPU" is no valid resource name'),
    ],
)
def test_bad_options(run, server, options, says):
    assert run(**options)["msg"].startswith(says)
    assert server.requests == []


def test_an_api_that_refuses_or_does_not_answer_fails_with_its_reason(run, server):
    server.forbidden = {"pods"}
    assert run()["reason"] == "forbidden"
    answer = run(host="http://127.0.0.1:9")
    assert (answer["failed"], answer["reason"]) == (True, "unreachable")
