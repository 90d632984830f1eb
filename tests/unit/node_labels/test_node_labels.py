"""The module's real main, with the real Kubernetes client, against a server on loopback."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.rocknpu.edge.plugins.module_utils import capacity_wait
from ansible_collections.rocknpu.edge.plugins.modules import node_labels
from unit.node_capacity.conftest import TOKEN, _plain_environment  # noqa: F401 (a fixture)
from unit.node_capacity.kube_server import KubeServer, make_node

Run = Callable[..., dict[str, Any]]

NPU = {"rocknpu.device/soc": "rk3588", "rocknpu.device/cores": "3"}
OURS = {"key": "dedicated", "value": "npu", "effect": "NoSchedule"}
THEIRS = {"key": "maintenance", "effect": "NoExecute", "timeAdded": "2026-11-29T10:00:00Z"}
MEMORY = "rocknpu.device/labels-of-npu"


@pytest.fixture
def server() -> Iterator[KubeServer]:
    with KubeServer() as running:
        running.token = TOKEN
        running.nodes = [make_node("node-01")]
        running.nodes[0]["spec"] = {"taints": [THEIRS]}
        yield running


@pytest.fixture
def run(
    server: KubeServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Run:
    monkeypatch.setattr(capacity_wait, "INTERVAL", 0.05)

    def run_module(**arguments: Any) -> dict[str, Any]:
        access = {"host": server.url, "api_key": TOKEN, "timeout": 0}
        given = {"node": "node-01", "owner": "npu", **access, **arguments}
        with patch_module_args(given), pytest.raises(SystemExit):
            node_labels.main()
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        return answer

    return run_module


def labels_of(server: KubeServer) -> dict[str, str]:
    return server.nodes[0]["metadata"]["labels"]


def taints_of(server: KubeServer) -> list[dict[str, str]]:
    return server.nodes[0]["spec"].get("taints", [])


def test_life_of_labels_and_taints(server, run):
    untouched = copy.deepcopy(server.nodes)
    wanted = {"labels": NPU, "taints": [OURS]}
    told = run(**wanted, _ansible_check_mode=True)
    assert told["changed"] is True
    assert told["diff"] == {
        "before": {"labels": {}, "taints": []},
        "after": {"labels": NPU, "taints": [OURS]},
    }
    untouched[0]["metadata"]["resourceVersion"] = "1"
    assert server.nodes == untouched

    first = run(**wanted)
    assert (first["changed"], first["labels"], first["taints"]) == (True, NPU, [OURS])
    assert labels_of(server) == {"kubernetes.io/arch": "arm64", **NPU}
    assert taints_of(server) == [THEIRS, OURS]

    again = run(**wanted)
    assert again["changed"] is False
    assert again["diff"]["before"] == again["diff"]["after"]

    # What is no longer wanted goes, a new value comes, and everything else stays.
    labels_of(server)["mine"] = "yes"
    other_value = {**OURS, "value": "other"}
    changed = run(labels={"rocknpu.device/soc": "rk3576"}, taints=[other_value])
    assert changed["diff"]["before"]["labels"] == NPU
    assert labels_of(server) == {
        "kubernetes.io/arch": "arm64",
        "mine": "yes",
        "rocknpu.device/soc": "rk3576",
    }
    assert taints_of(server) == [THEIRS, other_value]

    assert run(state="absent", labels=NPU)["changed"] is True
    assert labels_of(server) == {"kubernetes.io/arch": "arm64", "mine": "yes"}
    assert taints_of(server) == [THEIRS]
    assert server.nodes[0]["metadata"]["annotations"] == {}
    assert run(state="absent")["changed"] is False


def test_last_taint_goes(server, run):
    server.nodes[0]["spec"] = {}
    run(taints=[OURS])
    run(taints=[])
    assert taints_of(server) == []


def test_labels_that_others_set_are_taken_over(server, run):
    labels_of(server).update({**NPU, "rocknpu.device/soc": "wrong"})
    assert run(labels=NPU)["changed"] is True
    assert labels_of(server)["rocknpu.device/soc"] == "rk3588"
    run(labels={})
    assert labels_of(server) == {"kubernetes.io/arch": "arm64"}


def test_owners_do_not_touch_each_other(server, run):
    run(labels=NPU, taints=[OURS])
    run(owner="k3s", labels={"disk": "nvme"})
    refused = run(owner="k3s", labels={"rocknpu.device/soc": "x"})
    assert refused["reason"] == "owner"
    assert refused["msg"] == (
        "node-01: the label rocknpu.device/soc of this node is kept by npu, and k3s may not change "
        "it; remove it from one of the two."
    )
    assert "the taint dedicated of this node" in run(owner="k3s", taints=[OURS])["msg"]
    run(owner="k3s", state="absent")
    assert labels_of(server) == {"kubernetes.io/arch": "arm64", **NPU}
    assert taints_of(server) == [THEIRS, OURS]


@pytest.mark.parametrize("memory", ["", "words", "[]", "3", '{"labels":3}', '{"taints":[3]}'])
def test_memory_that_cannot_be_read_removes_nothing(server, run, memory):
    server.nodes[0]["metadata"]["annotations"] = {MEMORY: memory}
    labels_of(server).update(NPU)
    run(labels={})
    assert labels_of(server) == {"kubernetes.io/arch": "arm64", **NPU}


def test_numbers_of_templates_are_text(server, run):
    assert run(labels={"rocknpu.device/cores": 3})["labels"] == {"rocknpu.device/cores": "3"}
    assert run(labels={"rocknpu.device/cores": "3"})["changed"] is False


def test_somebody_else_was_faster(server, run):
    server.conflicts = 1
    failed = run(taints=[OURS])
    assert failed["reason"] == "conflict"
    assert "Somebody else was faster" in failed["msg"]
    server.conflicts = 1
    assert run(taints=[OURS], timeout=30)["changed"] is True
    assert taints_of(server) == [THEIRS, OURS]


def test_missing_node(run):
    failed = run(node="node-09", labels=NPU)
    assert failed["reason"] == "missing"
    assert failed["msg"].startswith("The cluster has no node node-09; ")
    assert run(node="node-09", state="absent")["changed"] is False


def test_api_that_does_not_answer(server, run):
    server.status = 503
    assert run(labels=NPU)["reason"] == "unavailable"
    server.status = 200
    failed = run(labels=NPU, host="http://127.0.0.1:9")
    assert failed["reason"] == "unreachable"
    assert "check the address" in failed["msg"]


def test_missing_rights(server, run):
    server.forbidden = {"node-01"}
    failed = run(labels=NPU)
    assert failed["reason"] == "forbidden"
    assert "does not let this user get nodes" in failed["msg"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"owner": "N P U"}, "owner: must be a word of at most 32 lower-case letters"),
        ({"labels": {"rocknpu.device/": "x"}}, "labels: rocknpu.device/: must have at most 63"),
        ({"labels": {"RockNPU/soc": "x"}}, "labels: RockNPU/soc: must have a DNS domain"),
        ({"labels": {"a/b/c": "x"}}, "labels: a/b/c: must have a DNS domain"),
        ({"labels": {"-soc": "x"}}, "labels: -soc: must have at most 63"),
        ({"labels": {"soc": "rk 3588"}}, "or be empty"),
        ({"labels": {"soc": "x" * 64}}, "or be empty"),
        ({"labels": {"soc": True}}, "labels: soc: must be text, put it in quotes."),
        ({"labels": {"soc": None}}, "labels: soc: must be text, put it in quotes."),
        ({"labels": {"soc": 0.9}}, "labels: soc: must be text, put it in quotes."),
        ({"taints": [{**OURS, "effect": "Never"}]}, "taints: dedicated: effect must be one of"),
        ({"taints": [{**OURS, "value": "a b"}]}, "taints: dedicated: must have at most 63"),
        ({"taints": [OURS, {**OURS, "value": ""}]}, "more than once with the effect NoSchedule"),
    ],
)
def test_bad_options_are_told_before_anything_is_sent(server, run, options, says):
    answer = run(**options)
    assert answer["failed"] is True
    assert says in answer["msg"]
    assert not server.requests


@pytest.mark.parametrize(
    "key", ["soc", "a.b_C-1", "rocknpu.device/soc", "x" * 63, "a.b/" + "x" * 63]
)
@pytest.mark.parametrize("value", ["", "0.9.8", "rk3588", "x" * 63])
def test_sound_labels(server, run, key, value):
    assert run(labels={key: value})["labels"] == {key: value}
