"""The module's real main, with the real Kubernetes client, against a server on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.rocknpu.edge.plugins.module_utils import capacity_wait
from ansible_collections.rocknpu.edge.plugins.modules import kube_apply
from unit.node_capacity.conftest import TOKEN, _plain_environment  # noqa: F401 (a fixture)
from unit.node_capacity.kube_server import KubeServer

Run = Callable[..., dict[str, Any]]

SYSTEM = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "edge"}}
CONFIG = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "plugin", "namespace": "edge"},
    "data": {"board.yaml": "shares: 2\n"},
}
SYSTEM_PATH = "/api/v1/namespaces/edge"
CONFIG_PATH = "/api/v1/namespaces/edge/configmaps/plugin"


@pytest.fixture
def server() -> Iterator[KubeServer]:
    with KubeServer() as running:
        running.token = TOKEN
        yield running


@pytest.fixture
def run(
    server: KubeServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Run:
    monkeypatch.setattr(capacity_wait, "INTERVAL", 0.05)

    def run_module(*objects: dict[str, Any], **arguments: Any) -> dict[str, Any]:
        access = {"host": server.url, "api_key": TOKEN, "timeout": 0}
        given = {"objects": list(objects), **access, **arguments}
        with patch_module_args(given), pytest.raises(SystemExit):
            kube_apply.main()
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        return answer

    return run_module


def test_life_of_objects(server, run):
    told = run(SYSTEM, CONFIG, _ansible_check_mode=True)
    assert told["changes"] == ["Namespace edge", "ConfigMap edge/plugin"]
    assert told["diff"][1]["before"] == ""
    assert told["diff"][1]["after"]["data"] == CONFIG["data"]
    assert server.objects == {}

    assert run(SYSTEM, CONFIG)["changed"] is True
    assert server.objects[CONFIG_PATH]["data"] == CONFIG["data"]
    again = run(SYSTEM, CONFIG)
    assert (again["changed"], again["diff"]) == (False, [])

    other = {**CONFIG, "data": {"board.yaml": "shares: 3\n"}}
    before = json.dumps(server.objects)
    told = run(SYSTEM, other, _ansible_check_mode=True)
    assert (told["changes"], json.dumps(server.objects)) == (["ConfigMap edge/plugin"], before)
    assert told["diff"][0]["before"]["data"] == CONFIG["data"]
    # The server's own bookkeeping is no difference.
    assert told["diff"][0]["before"]["metadata"] == CONFIG["metadata"]
    assert run(SYSTEM, other)["changes"] == ["ConfigMap edge/plugin"]
    assert server.objects[CONFIG_PATH]["data"] == other["data"]

    assert run(SYSTEM, state="absent", _ansible_check_mode=True)["changed"] is True
    assert SYSTEM_PATH in server.objects
    assert run(SYSTEM, state="absent")["changes"] == ["Namespace edge"]
    assert server.objects == {}
    assert run(SYSTEM, state="absent")["changed"] is False


def test_what_others_made_is_not_deleted(server, run):
    theirs = {
        **SYSTEM,
        "metadata": {**SYSTEM["metadata"], "managedFields": [{"manager": "kubectl"}]},
    }
    server.objects[SYSTEM_PATH] = theirs
    assert run(SYSTEM, state="absent")["changed"] is False
    assert server.objects == {SYSTEM_PATH: theirs}


def test_failures_of_the_api_are_told(server, run):
    # The namespace of the object is neither there nor applied before it.
    missing = run(CONFIG)
    assert missing["reason"] == "missing"
    assert "cannot apply ConfigMap edge/plugin" in missing["msg"]
    server.status = 422
    assert run(SYSTEM)["reason"] == "invalid"
    server.status = 503
    assert run(SYSTEM)["reason"] == "unavailable"


@pytest.mark.parametrize(
    ("item", "says"),
    [
        ({"apiVersion": "v1", "kind": "Secret"}, "Secret (v1) is no kind that this module knows;"),
        ({**SYSTEM, "metadata": {}}, "a Namespace has no metadata.name."),
        ({**CONFIG, "metadata": {"name": "x"}}, "ConfigMap x has no metadata.namespace."),
    ],
)
def test_bad_objects_are_told_before_anything_is_sent(server, run, item, says):
    answer = run(SYSTEM, item)
    assert answer["msg"].startswith(f"objects: {says}")
    assert not server.requests
