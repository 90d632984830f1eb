"""Whether an address range is free. Pure functions over what the machine reports."""

from __future__ import annotations

import ipaddress
from typing import Any


def find_route_conflict(
    subnet: ipaddress.IPv4Network,
    addresses: list[ipaddress.IPv4Address],
    routes: list[dict[str, Any]],
    own_device: str | None,
) -> str | None:
    """The route that already covers a range or one of its addresses that are wanted, or None.

    Args:
        subnet: the range that is wanted.
        addresses: those of it that will be used.
        routes: as `ip -json -4 route show table all` prints them.
        own_device: network device of the edge itself, whose routes do not count.
    """
    for route in routes:
        # A default route covers everything and means nothing; "local" and "broadcast" entries only
        # repeat what another route says.
        if route.get("dst") == "default" or route.get("type", "unicast") != "unicast":
            continue
        if own_device and route.get("dev") == own_device:
            continue
        try:
            other = ipaddress.IPv4Network(route.get("dst", ""))
        except ValueError:
            continue
        if other.prefixlen and (
            other.supernet_of(subnet) or any(address in other for address in addresses)
        ):
            return f"{other} via {route.get('dev', route.get('gateway', 'another route'))}"
    return None


def find_network_conflict(
    subnet: ipaddress.IPv4Network, networks: list[dict[str, Any]], own_name: str
) -> str | None:
    """The name of another podman network that overlaps a range, or None.

    Args:
        subnet: the range that is wanted.
        networks: as `podman network inspect` prints them.
        own_name: name of the edge's own network, which does not count.
    """
    for network in networks:
        if network.get("name") == own_name:
            continue
        for entry in network.get("subnets") or []:
            other = ipaddress.ip_network(entry["subnet"])
            if other.version == subnet.version and other.overlaps(subnet):
                return str(network.get("name"))
    return None


def find_name_conflict(subnet: ipaddress.IPv4Network, hosts: str) -> str | None:
    """A name that this machine could no longer reach, or None.

    Args:
        subnet: the range that is wanted.
        hosts: text of /etc/hosts.
    """
    for line in hosts.splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        try:
            hidden = ipaddress.IPv4Address(address) in subnet
        except ValueError:
            continue
        if hidden and names:
            return f"{names[0]} is {address}"
    return None
