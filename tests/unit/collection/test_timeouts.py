"""A time limit below zero is refused by every module that has one, before anything is asked."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from unit.module_process import run_module

MODULES = "ansible_collections.rocknpu.edge.plugins.modules"
# Nobody answers there.
API = {"host": "https://127.0.0.1:9", "api_key": "none"}
# What else the module needs.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "cluster_info": API,
    "k3s_server_info": {"urls": ["https://127.0.0.1:9"], "token": "none"},
    "kube_apply": {**API, "objects": []},
    "node_capacity": {**API, "nodes": ["node-01"], "expected": 1},
    "node_labels": {**API, "node": "node-01", "owner": "npu"},
    "plugin_pods": {**API, "node": "node-01"},
    "stale_resource": {**API, "node": "node-01"},
}


def test_every_module_with_a_time_limit_is_here() -> None:
    found = set()
    for path in (Path(__file__).parents[3] / "plugins" / "modules").glob("*.py"):
        text = importlib.import_module(f"{MODULES}.{path.stem}").DOCUMENTATION
        if "timeout" in yaml.safe_load(text)["options"]:
            found.add(path.stem)
    assert found == set(ARGUMENTS)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_it_is_not_below_zero(name: str) -> None:
    module = importlib.import_module(f"{MODULES}.{name}")
    answer, _ = run_module(module, {**ARGUMENTS[name], "timeout": -1})
    assert answer["failed"] is True
    least = 1 if name == "cluster_info" else 0
    assert answer["msg"] == f"timeout: must be {least} or more, not -1."
