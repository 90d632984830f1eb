# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules that look at all hosts of the cluster together, one function each.

A rule yields problems; it is added by adding it to CLUSTER_RULES.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from .inventory_values import HostVariables
from .variable_rules import node_name

SERVERS = "k3s_server"
AGENTS = "k3s_agent"
_CLUSTER = "k3s_cluster"

#: Variables of Ansible that rules look at.
CONNECTION = frozenset({"ansible_host", "ansible_port"})


class Problem(NamedTuple):
    """What is wrong at a host with a variable (or group), and what to do about it.

    Without a remedy of its own, it is to set the variable right where it is set.
    """

    host: str
    variable: str
    rule: str
    remedy: str = ""


def is_node(host: HostVariables) -> bool:
    """Tell whether a host is to be a node of the cluster."""
    return bool(host.groups & {SERVERS, AGENTS})


def _check_groups(hosts: Sequence[HostVariables]) -> Iterator[Problem]:
    """Each host has one role, and there is a server."""
    for host in hosts:
        if {SERVERS, AGENTS} <= host.groups:
            rule = f"the host is in both {SERVERS} and {AGENTS}"
            yield Problem(host.host, "groups", rule, "leave it in one of them")
        elif not is_node(host):
            rule = f"the host is in neither {SERVERS} nor {AGENTS}"
            yield Problem(host.host, "groups", rule, "put it into one of them")
    if not any(SERVERS in host.groups for host in hosts):
        remedy = "put the host there that is to run the API server"
        yield Problem("inventory", SERVERS, "has no host", remedy)


def _unclear(host: HostVariables) -> set[str]:
    """Names of the variables that cannot be judged (yet)."""
    return {*host.broken, *host.later, *host.sealed}


def _server_option(host: HostVariables, option: str) -> Any:
    """Return an option of k3s from the dictionaries that the role merges for a server."""
    for name in ("k3s_config_host", "k3s_config_server", "k3s_config"):
        dictionary = host.values.get(name)
        if isinstance(dictionary, dict) and option in dictionary:
            return dictionary[option]
    return None


def _check_datastore(hosts: Sequence[HostVariables]) -> Iterator[Problem]:
    """Several servers share an external datastore, or embed etcd, which decides by majority."""
    servers = [host for host in hosts if SERVERS in host.groups]
    if any(name.startswith("k3s_config") for host in servers for name in _unclear(host)):
        return
    variable = "datastore-endpoint in k3s_config_server"
    endpoints = {str(_server_option(host, "datastore-endpoint") or "") for host in servers}
    if len(endpoints) > 1:
        rule = "there must be one datastore for all servers, but it differs between them"
        yield Problem("inventory", variable, rule, "set it once in group_vars/k3s_server.yml")
    elif endpoints == {""}:
        members = [host.host for host in servers if not _server_option(host, "disable-etcd")]
        if members and len(members) % 2 == 0:
            rule = (
                "must have an odd number of hosts, because their embedded etcd decides by "
                f"majority, and has {', '.join(members)}"
            )
            remedy = f"add or remove one (an even number needs {variable}, an external datastore)"
            yield Problem("inventory", SERVERS, rule, remedy)


def _check_token_is_there(hosts: Sequence[HostVariables]) -> Iterator[Problem]:
    for host in hosts:
        if is_node(host) and "k3s_token" not in {*host.values, *_unclear(host)}:
            yield Problem(
                host.host,
                "k3s_token",
                "is missing",
                "set one for the whole cluster in group_vars/k3s_cluster.yml, for example from "
                "openssl rand -hex 32, and keep it in a vault",
            )


def _check_server_token(hosts: Sequence[HostVariables]) -> Iterator[Problem]:
    for host in hosts:
        if SERVERS in host.groups and str(host.values.get("k3s_token", "")).startswith("K10"):
            yield Problem(
                host.host,
                "k3s_token",
                "must be the short form on a server: the full form (K10...) holds the hash of a "
                "certificate that the server has yet to make",
                "take the part after the last colon",
            )


def _check_one_token(hosts: Sequence[HostVariables]) -> Iterator[Problem]:
    # The full form on agents ends in the short form of the server.
    yield from _check_same(
        hosts, "k3s_token", lambda value: str(value).rpartition(":")[2], "one token"
    )


def _check_one_address(hosts: Sequence[HostVariables]) -> Iterator[Problem]:
    variable = "k3s_server_url"
    yield from _check_same(hosts, variable, str, "one address of the API server")
    nodes = [host for host in hosts if is_node(host) and variable not in _unclear(host)]
    without = [host.host for host in nodes if not host.values.get(variable)]
    if without and len(without) < len(nodes):
        rule = (
            f"there must be one way to reach the API server, but {', '.join(without)} would take "
            "another one than the others, which the server's certificate need not cover"
        )
        remedy = "set it once in group_vars/k3s_cluster.yml"
        yield Problem("inventory", variable, rule, remedy)


def _check_same(
    hosts: Sequence[HostVariables], variable: str, key: Callable[[Any], str], what: str
) -> Iterator[Problem]:
    holders = [host for host in hosts if is_node(host) and host.values.get(variable)]
    if len({key(host.values[variable]) for host in holders}) > 1:
        names = ", ".join(host.host for host in holders)
        rule = f"there must be {what} for the whole cluster, but it differs between {names}"
        remedy = "set it once in group_vars/k3s_cluster.yml"
        yield Problem("inventory", variable, rule, remedy)


def _check_node_names(hosts: Sequence[HostVariables]) -> Iterator[Problem]:
    holders: dict[str, list[str]] = defaultdict(list)
    for host in hosts:
        if is_node(host) and "k3s_node_name" not in _unclear(host):
            name = str(host.values.get("k3s_node_name") or host.host)
            holders[name].append(host.host)
            if name == host.host and node_name(name):
                rule = f"is the host's name in the inventory by default, and {node_name(name)}"
                yield Problem(host.host, "k3s_node_name", rule)
    for name, names in holders.items():
        if len(names) > 1:
            rule = (
                f'must be unique in the cluster, but {", ".join(sorted(names))} all have "{name}"'
            )
            yield Problem("inventory", "k3s_node_name", rule, "give each host its own")


def _check_node_addresses(hosts: Sequence[HostVariables]) -> Iterator[Problem]:
    holders: dict[str, list[str]] = defaultdict(list)
    for host in hosts:
        if is_node(host):
            for address in filter(None, str(host.values.get("k3s_node_ip") or "").split(",")):
                holders[address].append(host.host)
    for address, names in holders.items():
        if len(names) > 1:
            rule = (
                f"must be unique in the cluster, but {', '.join(sorted(names))} all have {address}"
            )
            yield Problem("inventory", "k3s_node_ip", rule, "give each host its own")


def _check_machines(hosts: Sequence[HostVariables]) -> Iterator[Problem]:
    holders: dict[tuple[str, str], list[str]] = defaultdict(list)
    for host in hosts:
        if is_node(host) and not CONNECTION & _unclear(host):
            address = str(host.values.get("ansible_host") or host.host)
            holders[address, str(host.values.get("ansible_port") or 22)].append(host.host)
    for (address, _port), names in holders.items():
        if len(names) > 1:
            rule = f"must be another machine for each, but {', '.join(names)} all have {address}"
            yield Problem("inventory", "ansible_host", rule, "give each host its own")


CLUSTER_RULES: Sequence[Callable[[Sequence[HostVariables]], Iterator[Problem]]] = (
    _check_groups,
    _check_datastore,
    _check_token_is_there,
    _check_server_token,
    _check_one_token,
    _check_one_address,
    _check_node_names,
    _check_node_addresses,
    _check_machines,
)


def find_cluster_problems(hosts: Sequence[HostVariables]) -> Iterator[Problem]:
    """Yield the problems of the cluster that the hosts make up.

    There are none where no host is in a group of the cluster: then it is set up by other means.
    """
    if any(host.groups & {_CLUSTER, SERVERS, AGENTS} for host in hosts):
        for rule in CLUSTER_RULES:
            yield from rule(hosts)
