# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules for the values of single variables, one row each, on top of the types of argument_specs.

A rule takes a value and returns None, or what it breaks, worded to follow "VARIABLE: ". Its wording
holds no part of the value, which may be secret.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.rocknpu.edge.plugins.module_utils.listen_address import (
    check_listen_address,
)
from ansible_collections.rocknpu.edge.plugins.module_utils.resource_name import check_resource_name

from .path_rules import (
    PERMISSIONS,
    device_path,
    directory_to_write,
    file_to_write,
    mount_target,
)
from .variable_types import is_whole_number

Rule = Callable[[Any], "str | None"]

# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#dns-subdomain-names
# It is also the value of the label kubernetes.io/hostname, which has 63 characters at most.
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NODE_NAME = re.compile(rf"(?=.{{1,63}}$){_LABEL}(?:\.{_LABEL})*")

# Keys of k3s' config.yaml that the role k3s writes from a variable of its own.
_OWNED_KEYS = {
    "node-ip": "k3s_node_ip",
    "node-name": "k3s_node_name",
    "server": "k3s_server_url",
    "token": "k3s_token",
    "token-file": "k3s_token",
    "write-kubeconfig": "k3s_kubeconfig",
}


def whole_number(lowest: int, highest: int | None = None) -> Rule:
    """Return the rule that a value is a whole number within bounds."""
    bounds = f"of {lowest} or more" if highest is None else f"from {lowest} to {highest}"

    def check(value: Any) -> str | None:
        if is_whole_number(value) and lowest <= int(value) <= (highest or int(value)):
            return None
        return f"must be a whole number {bounds}"

    return check


def text(pattern: str, meaning: str) -> Rule:
    """Return the rule that a value is text which the pattern matches as a whole."""
    compiled = re.compile(pattern)

    def check(value: Any) -> str | None:
        if isinstance(value, str) and compiled.fullmatch(value):
            return None
        return f"must be {meaning}"

    return check


def each(target: Callable[[str], str | None], meaning: str) -> Rule:
    """Return the rule that a value is a list whose entries have a target, each its own."""

    def check(value: Any) -> str | None:
        if not isinstance(value, list):
            return "must be a list"
        seen = set()
        for number, entry in enumerate(value, start=1):
            found = target(entry) if isinstance(entry, str) else None
            if found is None:
                return f"has an entry, number {number}, that is not {meaning}"
            if found in seen:
                return f"has an entry, number {number}, that repeats another"
            seen.add(found)
        return None

    return check


def resource_name(value: Any) -> str | None:
    """Check the name of an extended resource by Kubernetes' own rule."""
    if not isinstance(value, str):
        return "must be text such as rocknpu.device/npu"
    reason = check_resource_name(value)
    return reason and reason.rstrip(".")


def node_name(value: Any) -> str | None:
    """Check the name of a node."""
    if isinstance(value, str) and _NODE_NAME.fullmatch(value):
        return None
    return (
        "must be a node name by RFC 1123: lower-case letters, digits, '-' and '.', beginning and "
        "ending with a letter or digit, at most 63 characters"
    )


def node_addresses(value: Any) -> str | None:
    """Check one address, or an IPv4 and an IPv6 address with a comma between, or none ("")."""
    rule = (
        "must be an IP address, or an IPv4 and an IPv6 address with a comma between, in short form"
    )
    if value == "":
        return None
    try:
        addresses = [ipaddress.ip_address(part) for part in value.split(",")]
    except (ValueError, AttributeError):
        return rule
    # In the one form that they are compared in: 2001:db8::1, not 2001:db8:0::1.
    if len({address.version for address in addresses}) == len(addresses):
        return None if ",".join(map(str, addresses)) == value else rule
    return rule


def token(value: Any) -> str | None:
    """Check the shape of a token, see https://docs.k3s.io/cli/token."""
    if not isinstance(value, str):
        return "must be text; put it in quotes"
    if not value:
        return "is empty; take the output of openssl rand -hex 32 and keep it in a vault"
    if not re.fullmatch(r"[!-~]+", value):
        return "must be one word of printable ASCII characters, without spaces or line breaks"
    if value.startswith("K10") and not re.fullmatch(r"K10[0-9a-f]{64}::[^:]+(:.+)?", value):
        return (
            "begins with K10 but is no full token (K10, 64 hexadecimal digits, two colons, user, "
            "colon, password); it may be cut short"
        )
    return None


def k3s_config(value: Any) -> str | None:
    """Check the keys of a dictionary for k3s' config.yaml."""
    if not isinstance(value, dict):
        return "must be a dictionary"
    owned = sorted(set(value) & set(_OWNED_KEYS))
    if owned:
        instead = ", ".join(sorted({_OWNED_KEYS[key] for key in owned}))
        return f"must not have the key {', '.join(owned)}, which is set through {instead}"
    if any(key.startswith("-") for key in value):
        return "must have k3s' flags as keys without the leading dashes"
    if not isinstance(value.get("write-kubeconfig-mode", ""), str):
        return (
            "must have write-kubeconfig-mode in quotes, because YAML reads 0640 as the number 416"
        )
    return None


def registries(value: Any) -> str | None:
    """Check a dictionary for k3s' registries.yaml, see its page below."""
    # https://docs.k3s.io/installation/private-registry
    if isinstance(value, dict) and set(value) <= {"mirrors", "configs"}:
        return None
    return (
        "must be a dictionary with the keys mirrors and configs, as k3s' registries.yaml has them"
    )


def kubelet_config(value: Any) -> str | None:
    """Check fields of a KubeletConfiguration."""
    if isinstance(value, dict) and not {"apiVersion", "kind"} & set(value):
        return None
    return "must be a dictionary of KubeletConfiguration fields without apiVersion and kind"


def no_proxy(value: Any) -> str | None:
    """Check the list of what is not reached through the proxy."""
    if isinstance(value, list) and all(
        isinstance(entry, str) and re.fullmatch(r"[^\s,\"'\\]+", entry) for entry in value
    ):
        return None
    return "must be a list of host names, domains, addresses or networks"


def listen(value: Any) -> str | None:
    """Check where to listen: HOST:PORT, :PORT or nothing."""
    return check_listen_address(str(value)) if value != "" else None


VALUE_RULES: Mapping[str, Rule] = {
    "device_plugin_cache_dir": directory_to_write,
    "device_plugin_extra_devices": each(device_path, "/dev/NAME or /dev/NAME:PERMISSIONS"),
    "device_plugin_image_base": text(r"[^\s]+", "the name of an image"),
    "device_plugin_image_registry": text(
        r"([a-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)*/?)?",
        "a registry and a path in lower case, such as registry.example.org/edge",
    ),
    "device_plugin_listen": listen,
    "device_plugin_max_contexts": whole_number(1, 2**31 - 1),
    "device_plugin_max_shares_per_container": whole_number(1, 100),
    "device_plugin_mounts": each(
        mount_target, "HOST, HOST:CONTAINER or HOST:CONTAINER:ro|rw with absolute paths"
    ),
    "device_plugin_permissions": text(PERMISSIONS, "letters out of r, w and m, each once"),
    "device_plugin_resource": resource_name,
    "device_plugin_shares": whole_number(1, 100),
    "k3s_checksum": text(r"([0-9a-fA-F]{64})?", "a SHA-256, 64 hexadecimal digits"),
    "k3s_config": k3s_config,
    "k3s_config_agent": k3s_config,
    "k3s_config_host": k3s_config,
    "k3s_config_server": k3s_config,
    "k3s_drain_timeout": whole_number(1),
    "k3s_kubelet_config": kubelet_config,
    "k3s_kubeconfig": file_to_write,
    "k3s_mirror_url": text(
        r"(https?://[^\s@]+)?",
        "an address that begins with https:// or http://, without a password",
    ),
    "k3s_no_proxy": no_proxy,
    "k3s_node_ip": node_addresses,
    "k3s_node_name": node_name,
    "k3s_ready_timeout": whole_number(1),
    "k3s_proxy": text(
        r"""(https?://[^\s"'\\]+)?""", "an address that begins with https:// or http://"
    ),
    "k3s_registries": registries,
    "k3s_server_url": text(
        r"(https://(\[[0-9A-Fa-f:.]+\]|[^/\s:@\[\]]+)(:[0-9]{1,5})?)?",
        "https://ADDRESS:PORT without a path, with brackets around IPv6",
    ),
    "k3s_token": token,
    "k3s_version": text(
        r"v\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?\+[0-9A-Za-z.]+",
        "the full name of a release, such as v1.37.1+k3s1",
    ),
    "npu_device_mode": text(
        r"0?[67][0-7]{2}",
        'a quoted octal number that lets the owner read and write, such as "0660"',
    ),
}
