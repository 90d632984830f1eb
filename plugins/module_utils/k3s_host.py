# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host has of the things that k3s needs."""

from __future__ import annotations

import ipaddress
import json
import re
from dataclasses import dataclass
from typing import Any, Iterable, Mapping, NamedTuple

from .board_files import BoardFiles
from .boot_files import find_boot_file, read_command_line
from .cgroups import Cgroups, read_cgroups
from .host_network import Listener, find_listeners, has_default_route
from .host_storage import is_on_mmc, read_swaps
from .kernel import read_release
from .kernel_arguments import split_arguments
from .kernel_features import read_features

# Files of the role k3s say so at their beginning.
MARK = "Written by the role rocknpu.edge.k3s"


class Address(NamedTuple):
    """An address of an interface, and the network that it is in."""

    interface: str
    address: str
    network: str


class Iptables(NamedTuple):
    """The installed iptables: its version, and "nf_tables" or "legacy"."""

    version: str
    mode: str


class Clock(NamedTuple):
    """The clock: seconds ahead of the control node's, and whether the system keeps it right."""

    ahead: float | None
    synchronized: bool | None


class Boot(NamedTuple):
    """The way the image boots, the file with its kernel arguments, and those that it runs with."""

    kind: str | None
    path: str | None
    arguments: list[str]


@dataclass(frozen=True)
class K3sHost:
    """A host at the moment of reading; see the module k3s_host_info for what the fields mean."""

    machine: str
    systemd: bool
    kernel_release: str | None
    features: Mapping[str, str]
    cgroups: Cgroups
    boot: Boot
    k3s_version: str | None
    iptables: Iptables | None
    clock: Clock
    default_route: bool
    addresses: list[Address]
    listeners: list[Listener]
    free_bytes: int
    on_mmc: bool | None
    swaps: list[str]
    image_archives: list[str]
    files: Mapping[str, str]


def read_host(
    files: BoardFiles,
    data_dir: str,
    ports: Iterable[int],
    owned: Mapping[str, str],
    **asked: Any,
) -> K3sHost:
    """Read everything that files tell; *asked* is the rest, by the names of its fields."""
    release = read_release(files)
    boot = find_boot_file(files)
    return K3sHost(
        systemd=files.is_directory("/run/systemd/system"),
        kernel_release=release,
        features=read_features(files, release),
        cgroups=read_cgroups(files),
        boot=Boot(
            boot and boot.kind, boot and boot.path, split_arguments(read_command_line(files))
        ),
        default_route=has_default_route(files),
        listeners=find_listeners(files, ports),
        on_mmc=is_on_mmc(files, data_dir),
        swaps=read_swaps(files),
        image_archives=files.names(f"{data_dir}/agent/images"),
        files={name: describe_file(files, path) for name, path in owned.items()},
        **asked,
    )


def describe_file(files: BoardFiles, path: str) -> str:
    """Tell whether the role wrote a file: "ours", "other" or "absent"."""
    text = files.text(path)
    if text is None:
        return "absent"
    return "ours" if MARK in text.partition("\n")[0] else "other"


def parse_k3s_version(text: str) -> str | None:
    """The release in the answer of `k3s --version`.

    >>> parse_k3s_version("k3s version v1.37.1+k3s1 (0123abcd)\\ngo version go1.26.0")
    'v1.37.1+k3s1'
    """
    match = re.search(r"k3s version ([0-9A-Za-z.+-]+)", text)
    return match[1] if match else None


def parse_iptables_version(text: str) -> Iptables | None:
    """Version and kind of rules in the answer of `iptables --version`.

    >>> parse_iptables_version("iptables v1.8.4 (nf_tables)")
    Iptables(version='1.8.4', mode='nf_tables')
    """
    match = re.search(r"iptables v([0-9]+(?:\.[0-9]+)*)(?: \((\w+)\))?", text)
    return Iptables(match[1], match[2] or "legacy") if match else None


def parse_addresses(text: str) -> list[Address]:
    """Addresses that others can reach, in the answer of `ip -json address`."""
    try:
        links = json.loads(text or "[]")
    except ValueError:
        return []
    return [
        Address(
            link["ifname"],
            part["local"],
            str(ipaddress.ip_network(f"{part['local']}/{part['prefixlen']}", strict=False)),
        )
        for link in links
        for part in link.get("addr_info", [])
        if part.get("scope") == "global"
    ]
