"""Whether an address range is free."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from virtual_edge.addresses import (
    find_name_conflict,
    find_network_conflict,
    find_route_conflict,
)

SUBNET = ipaddress.IPv4Network("198.51.100.0/24")
WANTED = [SUBNET.network_address + host for host in (1, 11, 12)]


@pytest.mark.parametrize(
    ("destination", "busy"),
    [
        ("198.51.100.0/24", True),
        ("198.51.100.0/28", True),
        ("198.51.100.11", True),
        ("198.51.0.0/16", True),
        # Inside the range, and in nobody's way.
        ("198.51.100.64/26", False),
        ("198.51.100.80", False),
        ("198.51.101.0/24", False),
        ("10.0.0.0/8", False),
        ("default", False),
        # An address that `ip` prints in another form is no conflict, and no crash.
        ("unreachable", False),
    ],
)
def test_a_route_is_a_conflict_if_it_overlaps(destination: str, busy: bool) -> None:
    routes = [{"dst": destination, "dev": "eth0"}]
    assert (find_route_conflict(SUBNET, WANTED, routes, None) is not None) == busy


def test_a_route_of_the_edge_itself_is_none() -> None:
    routes = [{"dst": "198.51.100.0/24", "dev": "podman2"}]
    assert find_route_conflict(SUBNET, WANTED, routes, "podman2") is None


def test_entries_that_repeat_another_route_do_not_count() -> None:
    routes = [{"type": "broadcast", "dst": "198.51.100.255", "dev": "eth0"}]
    assert find_route_conflict(SUBNET, WANTED, routes, None) is None


def test_the_conflict_names_the_route() -> None:
    routes = [{"dst": "198.51.0.0/16", "dev": "wg0"}]
    assert find_route_conflict(SUBNET, WANTED, routes, None) == "198.51.0.0/16 via wg0"


@pytest.mark.parametrize(
    ("networks", "conflict"),
    [
        ([], None),
        ([{"name": "podman", "subnets": [{"subnet": "10.88.0.0/16"}]}], None),
        ([{"name": "other", "subnets": [{"subnet": "198.51.100.128/25"}]}], "other"),
        ([{"name": "rocknpu-edge", "subnets": [{"subnet": "198.51.100.0/24"}]}], None),
        ([{"name": "six", "subnets": [{"subnet": "fd00::/64"}]}], None),
        ([{"name": "empty", "subnets": None}], None),
    ],
)
def test_another_network_is_a_conflict_if_it_overlaps(
    networks: list[dict[str, Any]], conflict: str | None
) -> None:
    assert find_network_conflict(SUBNET, networks, "rocknpu-edge") == conflict


@pytest.mark.parametrize(
    ("line", "busy"),
    [
        ("198.51.100.80 packages.example", True),
        ("  198.51.100.80\tpackages.example # a mirror", True),
        ("198.51.101.80 packages.example", False),
        ("# 198.51.100.80 packages.example", False),
        ("198.51.100.80", False),
        ("::1 localhost", False),
        ("", False),
    ],
)
def test_a_name_in_the_range_is_a_conflict(line: str, busy: bool) -> None:
    hosts = f"127.0.0.1 localhost\n{line}\n"
    assert (find_name_conflict(SUBNET, hosts) is not None) == busy
