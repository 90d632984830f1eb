# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What must hold of an upgrade before it begins, one function for each rule.

A rule looks at the cluster as it is and as it is to be, and yields sentences. It is added by adding
it to UPGRADE_RULES. See https://docs.k3s.io/upgrades and
https://kubernetes.io/releases/version-skew-policy/.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.rocknpu.edge.plugins.module_utils.k3s_host_rules import is_older

_SERVER_LABEL = "node-role.kubernetes.io/control-plane"
# Minor versions that a kubelet may be older than the API servers.
_KUBELET_LAG = 3


class Node(NamedTuple):
    """A node as the API server has it."""

    name: str
    version: str
    ready: bool
    server: bool


class Step(NamedTuple):
    """What a host of the play is to run."""

    host: str
    node: str
    server: bool
    version: str


class Plan:
    """The nodes that there are, the steps, and the versions that come out of them."""

    def __init__(self, nodes: Sequence[Node], steps: Sequence[Step]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.steps = [step for step in steps if step.node in self.nodes]
        self.strangers = [step for step in steps if step.node not in self.nodes]
        self.versions = {node.name: node.version for node in nodes}
        self.versions.update({step.node: step.version for step in self.steps})
        self.servers = [node for node in nodes if node.server]


Rule = Callable[[Plan], Iterator[str]]


def read_node(node: Mapping[str, Any]) -> Node:
    """Take what counts out of an object of the API."""
    conditions = {one["type"]: one["status"] for one in node["status"].get("conditions") or []}
    return Node(
        name=node["metadata"]["name"],
        version=node["status"]["nodeInfo"]["kubeletVersion"],
        ready=conditions.get("Ready") == "True" and conditions.get("EtcdIsVoter", "True") == "True",
        server=_SERVER_LABEL in (node["metadata"].get("labels") or {}),
    )


def _minor(version: str) -> tuple[int, int]:
    major, minor = re.findall(r"[0-9]+", version)[:2]
    return int(major), int(minor)


def _listed(plan: Plan, names: Sequence[str]) -> str:
    return ", ".join(f"{name} ({plan.versions[name]})" for name in names)


def _check_membership(plan: Plan) -> Iterator[str]:
    for step in plan.strangers:
        yield (
            f"{step.host} is no node of the cluster ({step.node} is not among "
            f"{', '.join(plan.nodes)}): let it join first with rocknpu.edge.site, or leave it out "
            "with --limit."
        )


def _check_ready(plan: Plan) -> Iterator[str]:
    for step in plan.steps:
        if not plan.nodes[step.node].ready:
            yield (
                f"The node {step.node} is not Ready: repair that first (`k3s kubectl describe node "
                f"{step.node}`), or leave it out with --limit."
            )


def _check_other_servers(plan: Plan) -> Iterator[str]:
    stepping = {step.node for step in plan.steps}
    for server in plan.servers:
        if not server.ready and server.name not in stepping and any(s.server for s in plan.steps):
            yield (
                f"The server {server.name} is not Ready, and while another one restarts too few "
                "would be left: repair that first."
            )


def _check_downgrade(plan: Plan) -> Iterator[str]:
    for step in plan.steps:
        running = plan.nodes[step.node].version
        if is_older(step.version, running):
            yield (
                f"{step.node} runs {running} and k3s_version asks for the older {step.version}; "
                f"the datastore does not survive a downgrade, so set k3s_version to {running} or "
                "newer."
            )


def _check_skipped_minor(plan: Plan) -> Iterator[str]:
    for step in plan.steps:
        running = plan.nodes[step.node].version
        (major, minor), (wanted_major, wanted_minor) = _minor(running), _minor(step.version)
        if (major, minor + 1) < (wanted_major, wanted_minor):
            yield (
                f"{step.node} runs {running} and {step.version} skips a minor version: upgrade to "
                f"a v{major}.{minor + 1} first."
            )


def _check_agents(plan: Plan) -> Iterator[str]:
    for step in plan.steps:
        older = [
            server.name
            for server in plan.servers
            if not step.server and is_older(plan.versions[server.name], step.version)
        ]
        if older:
            yield (
                f"{step.node} would run {step.version} and be newer than the server "
                f"{_listed(plan, older)}: upgrade the servers first, or together with the agents."
            )


def _check_left_behind(plan: Plan) -> Iterator[str]:
    newest = max((_minor(plan.versions[server.name]) for server in plan.servers), default=(0, 0))
    floor = (newest[0], newest[1] - _KUBELET_LAG)
    behind = [name for name, version in plan.versions.items() if _minor(version) < floor]
    if behind:
        yield (
            f"With the servers at v{newest[0]}.{newest[1]}, {_listed(plan, behind)} would be more "
            f"than {_KUBELET_LAG} minor versions older: upgrade them as well."
        )


UPGRADE_RULES: Sequence[Rule] = (
    _check_membership,
    _check_ready,
    _check_other_servers,
    _check_downgrade,
    _check_skipped_minor,
    _check_agents,
    _check_left_behind,
)


def find_upgrade_problems(
    nodes: Sequence[Mapping[str, Any]], steps: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Return every reason not to begin.

    Args:
        nodes: objects of the API.
        steps: host, node, server and version of each host of the play.
    """
    plan = Plan([read_node(node) for node in nodes], [Step(**step) for step in steps])
    return [sentence for rule in UPGRADE_RULES for sentence in rule(plan)]
