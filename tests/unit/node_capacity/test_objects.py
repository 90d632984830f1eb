"""Quantities, nodes and pods as the API server sends them."""

from __future__ import annotations

import pytest
from ansible_collections.rocknpu.edge.plugins.module_utils.kube_objects import (
    parse_quantity,
    pod_request,
    read_node,
    rejected_pods,
    requested,
)
from hypothesis import given
from hypothesis import strategies as st
from unit.node_capacity.kube_server import RESOURCE, make_node, make_pod


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("2", 2),
        ("+2", 2),
        ("1k", 1000),
        ("2Ki", 2048),
        ("1M", 10**6),
        ("1Mi", 2**20),
        ("1E", 10**18),
        ("1Ei", 2**60),
        ("1e3", 1000),
        ("1E3", 1000),
        ("2e-1", 1),
        ("1500m", 2),
        ("2000m", 2),
        ("1u", 1),
        ("1n", 1),
        ("1.5", 2),
        (".5", 1),
        ("2.", 2),
        ("-1", -1),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_parse_quantity(text: str, value: int):
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text", ["", "two", "1K", "1kk", "1 k", "0x2", ".", "1e", "--1", "1mi", "٢"]
)
def test_no_quantity(text: str):
    with pytest.raises(ValueError, match="is no Kubernetes quantity"):
        parse_quantity(text)


@given(st.integers(0, 2**63 - 1), st.sampled_from(["", "000m", "e0"]))
def test_every_whole_number_is_read_exactly(number: int, suffix: str):
    assert parse_quantity(f"{number}{suffix}") == number


def test_node_without_the_resource_differs_from_one_with_none():
    never = read_node(make_node("a", None, None), RESOURCE)
    gone = read_node(make_node("a", "0", "0"), RESOURCE)
    assert (never.capacity, never.allocatable) == (None, None)
    assert (gone.capacity, gone.allocatable) == (0, 0)


def test_offered_names_extended_resources_only():
    others = {"akri.sh/old": "0", "rockchip.com/npu": "1", "hugepages-2Mi": "4"}
    node = make_node("a", None, None, **others)
    assert read_node(node, RESOURCE).offered == ("rockchip.com/npu",)


@pytest.mark.parametrize(
    ("status", "ready"), [("True", True), ("False", False), ("Unknown", False)]
)
def test_ready_is_the_condition_with_its_message(status: str, ready: bool):
    node = make_node("a", ready=status, message="Kubelet stopped posting node status.")
    reading = read_node(node, RESOURCE)
    assert (reading.ready, reading.ready_message) == (ready, "Kubelet stopped posting node status.")


def test_new_node_without_status_is_not_ready():
    reading = read_node({"metadata": {"name": "a"}}, RESOURCE)
    assert not reading.ready
    assert "has not reported" in reading.ready_message
    assert reading.capacity is None


def _container(request: str | None, **more: str) -> dict[str, object]:
    return {"resources": {"requests": {RESOURCE: request}} if request else {}, **more}


def _sidecar(request: str) -> dict[str, object]:
    return _container(request, restartPolicy="Always")


@pytest.mark.parametrize(
    ("containers", "init", "overhead", "total"),
    [
        (["1"], [], None, 1),
        (["1", "2", None], [], None, 3),
        (["1"], [_container("3")], None, 3),
        (["2"], [_container("1"), _container("1")], None, 2),
        (["2"], [_sidecar("1")], None, 3),
        # The sidecar runs by the time of the second init container, but not of the first.
        (["1"], [_container("3"), _sidecar("1")], None, 3),
        (["1"], [_sidecar("1"), _container("3")], None, 4),
        (["1"], [_sidecar("1"), _sidecar("2")], None, 4),
        (["1"], [], "1", 2),
        ([None], [], None, 0),
    ],
)
def test_pod_request_counts_as_the_scheduler_does(containers, init, overhead, total):
    spec = {"containers": [_container(request) for request in containers], "initContainers": init}
    if overhead:
        spec["overhead"] = {RESOURCE: overhead}
    assert pod_request({"metadata": {"name": "p"}, "spec": spec}, RESOURCE) == total


def test_finished_pods_take_nothing():
    phases = ("Pending", "Running", "Unknown", "Succeeded", "Failed")
    pods = [make_pod(phase.lower(), "a", phase=phase) for phase in phases]
    assert requested(pods, RESOURCE) == 3


def test_rejected_are_failed_pods_that_wanted_the_resource():
    rejected = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
    pods = [
        make_pod("b", "n", **rejected),
        make_pod("a", "n", **rejected),
        make_pod("other", "n", request=None, **rejected),
        make_pod("evicted", "n", phase="Failed", reason="Evicted"),
        make_pod("running", "n"),
    ]
    assert rejected_pods(pods, RESOURCE) == ["default/a", "default/b"]
