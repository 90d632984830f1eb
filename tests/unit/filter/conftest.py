"""Inventories as plain mappings, and the argument specifications of the roles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.rocknpu.edge.plugins.filter.inventory_problems import inventory_problems

ROLES = Path(__file__).resolve().parents[3] / "roles"


def load_specs() -> dict[str, Any]:
    """The options of every role, as the role preflight hands them to the filter."""
    return {
        path.parents[1].name: yaml.safe_load(path.read_text())["argument_specs"]["main"]["options"]
        for path in sorted(ROLES.glob("*/meta/argument_specs.yml"))
    }


def make_hostvars(
    servers: Mapping[str, Mapping[str, Any]], agents: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Variables of the hosts of one cluster, with the groups that ansible-core adds."""
    groups = {
        "all": [*servers, *agents],
        "k3s_server": [*servers],
        "k3s_agent": [*agents],
        "k3s_cluster": [*servers, *agents],
    }
    members = {"k3s_server": servers, "k3s_agent": agents}
    return {
        host: {"groups": groups, "group_names": ["k3s_cluster", group], **variables}
        for group, hosts in members.items()
        for host, variables in hosts.items()
    }


@pytest.fixture(scope="session")
def specs() -> dict[str, Any]:
    """The real argument specifications."""
    return load_specs()


@pytest.fixture
def problems_of(specs: dict[str, Any]) -> Callable[..., list[str]]:
    """Return the problems of one board in a sound cluster, given the board's variables."""

    def find(**variables: Any) -> list[str]:
        token = "0123456789abcdef"
        hostvars = make_hostvars(
            {"server-01": {"k3s_token": token}}, {"board-01": {"k3s_token": token, **variables}}
        )
        return inventory_problems(hostvars, ["server-01", "board-01"], specs)

    return find
