# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Judge what a node offers of a resource against what it should offer."""

from __future__ import annotations

from typing import NamedTuple, Sequence

from .kube_objects import REJECTED_REASON, NodeReading

_PLUGIN_LOG = "its log says why (journalctl -u rknpu-plugin on the board, or the log of its pod)"


class Target(NamedTuple):
    """How many each node should offer: exactly this count, or at least."""

    number: int
    exact: bool

    def __str__(self) -> str:
        return f"{'exactly' if self.exact else 'at least'} {self.number}"


class Verdict(NamedTuple):
    """How a node compares with its target: a state, and for all but "ok" a message for people.

    The states are ok, missing, not_ready, never_registered, none_allocatable, fewer and more.
    """

    state: str
    message: str = ""


def judge_missing(existing: Sequence[str]) -> Verdict:
    """Return the verdict on a node that the cluster does not have."""
    there = f"its nodes are {', '.join(sorted(existing))}" if existing else "it has no nodes at all"
    return Verdict(
        "missing",
        f"the cluster has no node of this name, {there}; join the board or correct the name.",
    )


def judge(reading: NodeReading, resource: str, target: Target) -> Verdict:
    """Compare what a node offers with what it should offer."""
    if not reading.ready:
        return Verdict(
            "not_ready",
            f"the node is NotReady: {reading.ready_message.rstrip('.')}; "
            "see the log of k3s or kubelet on the board.",
        )
    capacity, allocatable = reading.capacity or 0, reading.allocatable or 0
    if _meets(target, capacity, allocatable):
        return Verdict("ok")
    if allocatable >= target.number:
        return _judge_more(resource, target, capacity, allocatable)
    if reading.capacity is None:
        return _judge_never_registered(reading, resource)
    if allocatable == 0:
        return _judge_none(resource, target, capacity)
    return _judge_fewer(resource, target, capacity, allocatable)


def _meets(target: Target, capacity: int, allocatable: int) -> bool:
    if not target.exact:
        return allocatable >= target.number
    # Where nothing is wanted, kubelet may still show the capacity of a plugin that has just gone.
    return allocatable == target.number and (capacity == target.number or allocatable == 0)


def _judge_never_registered(reading: NodeReading, resource: str) -> Verdict:
    others = f" (the node offers {', '.join(reading.offered)})" if reading.offered else ""
    return Verdict(
        "never_registered",
        f"{resource} was never registered there{others}; see that the device plugin runs on the "
        f"board and uses this resource name, {_PLUGIN_LOG}.",
    )


def _judge_none(resource: str, target: Target, capacity: int) -> Verdict:
    # kubelet drops allocatable at once when the plugin's stream ends and capacity after 5 minutes;
    # both are 0 after its own restart (endpointStopGracePeriod in pkg/kubelet/cm/devicemanager).
    if capacity:
        cause = (
            "the device plugin stopped within the last minutes, or reports all of them unhealthy"
        )
    else:
        cause = (
            "the device plugin has been gone for more than 5 minutes, or has not come back since "
            "kubelet restarted"
        )
    return Verdict(
        "none_allocatable",
        f"{resource} is registered, but allocatable is 0 and capacity {capacity} instead of "
        f"{target}: {cause}; start the plugin, {_PLUGIN_LOG}.",
    )


def _judge_fewer(resource: str, target: Target, capacity: int, allocatable: int) -> Verdict:
    if capacity > allocatable:
        cause = (
            f"the device plugin reports {capacity - allocatable} of {capacity} unhealthy; "
            f"{_PLUGIN_LOG}"
        )
    else:
        cause = (
            "the device plugin offers too few; compare the shares in its configuration and restart "
            "it after a change"
        )
    return Verdict(
        "fewer",
        f"allocatable {resource} is {allocatable}, fewer than expected ({target}): {cause}.",
    )


def _judge_more(resource: str, target: Target, capacity: int, allocatable: int) -> Verdict:
    return Verdict(
        "more",
        f"capacity of {resource} is {capacity} and allocatable {allocatable}, more than expected "
        f"({target}): the plugin runs with a configuration that is not the inventory's, or a "
        "second plugin offers the same resource; run rocknpu.edge.site, which brings the "
        "inventory's shares to the board and names plugins that are not of this collection.",
    )


def describe_rejected(rejected: Sequence[str]) -> str:
    """Return a note on the leftover pods of a node, given as NAMESPACE/NAME."""
    namespace, name = rejected[0].split("/", 1)
    return (
        f"pods left behind as Failed ({REJECTED_REASON}) from a time when the device plugin was "
        f"away: {', '.join(rejected)}; they hold nothing and are no fault of the present, delete "
        f"them, for example with kubectl delete pod --namespace {namespace} {name}."
    )
