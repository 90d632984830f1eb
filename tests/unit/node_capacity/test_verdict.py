"""Each broken link of the chain has its own verdict."""

from __future__ import annotations

import pytest
from ansible_collections.rocknpu.edge.plugins.module_utils.capacity_verdict import (
    Target,
    describe_rejected,
    judge,
    judge_missing,
)
from ansible_collections.rocknpu.edge.plugins.module_utils.kube_objects import NodeReading

RESOURCE = "rocknpu.device/npu"
TWO = Target(2, exact=True)
AT_LEAST_TWO = Target(2, exact=False)


def reading(capacity, allocatable, ready=True, message="fine", offered=()) -> NodeReading:
    return NodeReading("a", ready, message, capacity, allocatable, offered)


@pytest.mark.parametrize(
    ("capacity", "allocatable", "target", "state"),
    [
        (2, 2, TWO, "ok"),
        (2, 2, AT_LEAST_TWO, "ok"),
        (3, 3, AT_LEAST_TWO, "ok"),
        (3, 2, AT_LEAST_TWO, "ok"),
        (None, None, TWO, "never_registered"),
        (None, None, AT_LEAST_TWO, "never_registered"),
        (0, 0, TWO, "none_allocatable"),
        (2, 0, TWO, "none_allocatable"),
        (2, 0, AT_LEAST_TWO, "none_allocatable"),
        (1, 1, TWO, "fewer"),
        (2, 1, TWO, "fewer"),
        (3, 1, TWO, "fewer"),
        (1, 1, AT_LEAST_TWO, "fewer"),
        (3, 3, TWO, "more"),
        (3, 2, TWO, "more"),
        (None, None, Target(0, exact=True), "ok"),
        (0, 0, Target(0, exact=True), "ok"),
        (2, 0, Target(0, exact=True), "ok"),
        (2, 1, Target(0, exact=True), "more"),
        (None, None, Target(0, exact=False), "ok"),
    ],
)
def test_state(capacity, allocatable, target, state):
    assert judge(reading(capacity, allocatable), RESOURCE, target).state == state


def test_not_ready_comes_before_counts_and_says_what_kubelet_says():
    node = reading(None, None, ready=False, message="cni plugin not initialized.")
    verdict = judge(node, RESOURCE, TWO)
    assert verdict.state == "not_ready"
    assert "NotReady: cni plugin not initialized;" in verdict.message


def test_ok_has_no_message():
    assert judge(reading(2, 2), RESOURCE, TWO).message == ""


@pytest.mark.parametrize(
    ("node", "target", "parts"),
    [
        (reading(None, None), TWO, ["was never registered there;"]),
        (reading(None, None, offered=("rockchip.com/npu",)), TWO, ["offers rockchip.com/npu)"]),
        (reading(2, 0), TWO, ["allocatable is 0 and capacity 2", "stopped within the last min"]),
        (reading(0, 0), TWO, ["allocatable is 0 and capacity 0", "gone for more than 5 minutes"]),
        (reading(2, 1), TWO, ["is 1, fewer than expected (exactly 2)", "1 of 2 unhealthy"]),
        (reading(1, 1), AT_LEAST_TWO, ["fewer than expected (at least 2)", "offers too few"]),
        (reading(3, 2), TWO, ["is 3 and allocatable 2, more than expected (exactly 2)"]),
    ],
)
def test_message_names_counts_and_cause(node, target, parts):
    message = judge(node, RESOURCE, target).message
    assert RESOURCE in message
    for part in parts:
        assert part in message


def test_missing_names_the_nodes_that_are_there():
    assert "its nodes are a, b;" in judge_missing(["b", "a"]).message
    assert "it has no nodes at all;" in judge_missing([]).message


def test_rejected_pods_come_with_the_command_that_removes_them():
    note = describe_rejected(["default/a", "other/b"])
    assert "default/a, other/b" in note
    assert "kubectl delete pod --namespace default a." in note
