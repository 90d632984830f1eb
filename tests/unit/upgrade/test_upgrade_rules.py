"""The plan of an upgrade: what may begin, and what each rule says."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rocknpu.edge.plugins.filter.upgrade_problems import FilterModule

NEW = "v1.37.2+k3s1"


def node(name: str, version: str = "v1.36.4+k3s2", **given: Any) -> dict[str, Any]:
    """A node as the API server sends it; servers are named s..."""
    conditions = [{"type": "Ready", "status": given.get("ready", "True")}]
    if "voter" in given:
        conditions.append({"type": "EtcdIsVoter", "status": given["voter"]})
    labels = {"node-role.kubernetes.io/control-plane": "true"} if name.startswith("s") else {}
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"conditions": conditions, "nodeInfo": {"kubeletVersion": version}},
    }


def steps(names: str, version: str = NEW) -> list[dict[str, Any]]:
    return [
        {"host": f"host-{name}", "node": name, "server": name.startswith("s"), "version": version}
        for name in names.split()
    ]


CLUSTER = [node("s1"), node("a1"), node("a2")]

# What it is -> nodes, steps, parts of the sentences.
CASES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]] = {
    "all": (CLUSTER, steps("s1 a1 a2"), []),
    "server first": (CLUSTER, steps("s1"), []),
    "patch": (CLUSTER, steps("s1 a1 a2", "v1.36.5+k3s1"), []),
    "build": (CLUSTER, steps("s1 a1 a2", "v1.36.4+k3s10"), []),
    "again": (CLUSTER, steps("s1 a1 a2", "v1.36.4+k3s2"), []),
    "candidate to release": ([node("s1", "v1.37.2-rc1+k3s1")], steps("s1"), []),
    "agents after": ([node("s1", NEW), node("a1")], steps("a1"), []),
    "agents that stay": ([node("s1", "v1.36.1+k3s1"), node("a1", "v1.34.9+k3s1")], steps("s1"), []),
    "three servers": (
        [node("s1", voter="True"), node("s2", voter="True"), node("s3", voter="True")],
        steps("s1 s2 s3"),
        [],
    ),
    "agent before": (
        CLUSTER,
        steps("a1"),
        ["a1 would run v1.37.2+k3s1 and be newer than the server s1 (v1.36.4+k3s2): upgrade the"],
    ),
    "agent before, by a build": (
        CLUSTER,
        steps("a1", "v1.36.4+k3s10"),
        ["a1 would run v1.36.4+k3s10 and be newer than the server s1 (v1.36.4+k3s2)"],
    ),
    "one of three servers stays old": (
        [node("s1"), node("s2"), node("s3"), node("a1")],
        steps("s1 s2 a1"),
        ["be newer than the server s3 (v1.36.4+k3s2)"],
    ),
    "downgrade": (
        CLUSTER,
        steps("s1 a1", "v1.36.3+k3s9"),
        [
            "s1 runs v1.36.4+k3s2 and k3s_version asks for the older v1.36.3+k3s9",
            "a1 runs v1.36.4+k3s2 and k3s_version asks for the older v1.36.3+k3s9",
        ],
    ),
    "downgrade by a build": (CLUSTER, steps("s1", "v1.36.4+k3s1"), ["the older v1.36.4+k3s1"]),
    "release to candidate": ([node("s1", NEW)], steps("s1", "v1.37.2-rc2+k3s1"), ["the older"]),
    "skipped minor": (
        CLUSTER,
        steps("s1 a1 a2", "v1.38.0+k3s1"),
        ["s1 runs v1.36.4+k3s2 and v1.38.0+k3s1 skips a minor version: upgrade to a v1.37"],
    ),
    "stranger": (
        CLUSTER,
        steps("s1 a9"),
        ["host-a9 is no node of the cluster (a9 is not among s1, a1, a2): let it join first"],
    ),
    "not ready": (
        [node("s1"), node("a1", ready="Unknown")],
        steps("s1 a1"),
        ["The node a1 is not Ready: repair that first"],
    ),
    "not ready and left out": ([node("s1"), node("a1", ready="False")], steps("s1"), []),
    "no voter yet": (
        [node("s1", voter="True"), node("s2", voter="False"), node("s3", voter="True")],
        steps("s1"),
        ["The server s2 is not Ready, and while another one restarts too few would be left"],
    ),
    "left behind": (
        [node("s1"), node("a1", "v1.33.1+k3s1")],
        steps("s1"),
        ["With the servers at v1.37, a1 (v1.33.1+k3s1) would be more than 3 minor versions older"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_plan(name: str) -> None:
    nodes, planned, parts = CASES[name]
    sentences = FilterModule().filters()["upgrade_problems"](nodes, planned)
    for part in parts:
        assert any(part in sentence for sentence in sentences), sentences
    assert bool(sentences) == bool(parts), sentences
    assert len(sentences) == len(set(sentences))
