"""The removal against a kubelet that behaves as Kubernetes' does, and the module's real main."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.rocknpu.edge.plugins.module_utils import capacity_wait
from ansible_collections.rocknpu.edge.plugins.module_utils.resource_removal import Removal
from ansible_collections.rocknpu.edge.plugins.modules import stale_resource
from unit.node_capacity.conftest import TOKEN, _plain_environment  # noqa: F401 (a fixture)
from unit.node_capacity.kube_server import RESOURCE, KubeServer, make_node, merge

Run = Callable[..., dict[str, Any]]
GRACE = 300.0


class Kubelet:
    """Reports every 10 seconds, in a time of its own.

    held: capacity that it writes until the grace period is over. forgotten: whether it has written
    the 0 that it leaves.
    """

    def __init__(self, held: str, ready: str = "True") -> None:
        self.now = 0.0
        self.held = held
        self.forgotten = False
        self.patches: list[float] = []
        self.node = make_node("node-01", held, "0", ready)
        self.alive = ready == "True"

    def wait(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += 1.0
            if self.alive and self.now % 10 == 0:
                self._report()

    def _report(self) -> None:
        capacity = self.node["status"]["capacity"]
        if self.now <= GRACE:
            capacity[RESOURCE] = self.held
            self.node["status"]["allocatable"][RESOURCE] = "0"
        elif not self.forgotten:
            self.forgotten = True
            capacity[RESOURCE] = "0"

    def patch(self, patch: dict[str, Any]) -> None:
        self.patches.append(self.now)
        merge(self.node, patch)

    def remove(self) -> Removal:
        removal = Removal(RESOURCE, lambda: self.node, self.patch, lambda: self.now)
        while not removal.step():
            assert self.now < 400, "it never ends"
            self.wait(2.0)
        return removal


# The plugin has just gone, or the kubelet was restarted since.
@pytest.mark.parametrize("held", ["2", "0"])
def test_stays_away_after_the_grace_period(held):
    kubelet = Kubelet(held)
    assert kubelet.remove().found is True
    assert GRACE < kubelet.now < GRACE + 40
    kubelet.wait(600)
    assert RESOURCE not in kubelet.node["status"]["capacity"]
    assert RESOURCE not in kubelet.node["status"]["allocatable"]
    assert kubelet.node["status"]["capacity"]["cpu"] == "8"


def test_kubelet_that_is_down_writes_nothing_anew():
    kubelet = Kubelet("2", ready="Unknown")
    assert kubelet.remove().found is True
    assert kubelet.now == 0.0


def test_nothing_to_do():
    kubelet = Kubelet("0")
    merge(kubelet.node, {"status": {"capacity": {RESOURCE: None}, "allocatable": {RESOURCE: None}}})
    assert kubelet.remove().found is False
    assert kubelet.now == 0.0


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(capacity_wait, "INTERVAL", 0.05)

    def run_module(server: KubeServer, **arguments: Any) -> dict[str, Any]:
        given = {"host": server.url, "api_key": TOKEN, "node": "node-01", **arguments}
        with patch_module_args(given), pytest.raises(SystemExit):
            stale_resource.main()
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        return answer

    return run_module


def test_module(run, monkeypatch):
    module_utils = "ansible_collections.rocknpu.edge.plugins.module_utils"
    monkeypatch.setattr(f"{module_utils}.resource_removal.REPORT", 0.1)
    with KubeServer() as server:
        server.nodes = [make_node("node-01", "0", "0"), make_node("node-02", "2", "2")]
        told = run(server, _ansible_check_mode=True)
        assert told["changed"] is True
        assert told["diff"]["before"] == {"capacity": {RESOURCE: 0}}
        assert server.nodes[0]["status"]["capacity"][RESOURCE] == "0"

        assert run(server)["changed"] is True
        assert RESOURCE not in server.nodes[0]["status"]["capacity"]
        assert run(server)["changed"] is False
        assert run(server, node="node-09")["changed"] is False

        offered = run(server, node="node-02")
        assert offered["reason"] == "offered"
        assert "2 of it are allocatable: remove what offers it first." in offered["msg"]

        server.nodes[1] = make_node("node-02", "2", "0")
        held = run(server, node="node-02", timeout=0)
        assert held["reason"] == "held"
        assert "for 5 minutes after the plugin's end" in held["msg"]

        assert "no valid resource name" in run(server, resource="npu")["msg"]
        server.status = 503
        assert run(server)["reason"] == "unavailable"
