# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each rule of a host: what breaks it, and the sentence that says so."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.rocknpu.edge.plugins.module_utils.cgroups import Cgroups
from ansible_collections.rocknpu.edge.plugins.module_utils.host_network import Listener
from ansible_collections.rocknpu.edge.plugins.module_utils.k3s_host import (
    Address,
    Boot,
    Clock,
    Iptables,
    K3sHost,
)
from ansible_collections.rocknpu.edge.plugins.module_utils.k3s_host_rules import (
    HINTS,
    PROBLEMS,
    Wanted,
    find_hints,
    find_owed,
    find_problems,
    has_wrong_iptables,
    is_older,
)

FEATURES = ("br_netfilter", "overlay", "vxlan", "iptables_nat")

SOUND = K3sHost(
    machine="aarch64",
    systemd=True,
    kernel_release="6.1.115-vendor-rk35xx",
    features=dict.fromkeys(FEATURES, "loadable"),
    cgroups=Cgroups(2, ["cpu", "cpuset", "io", "memory", "pids"], []),
    boot=Boot("armbianEnv.txt", "/boot/armbianEnv.txt", ["rw"]),
    k3s_version=None,
    iptables=Iptables("1.8.9", "nf_tables"),
    clock=Clock(0.4, True),
    default_route=True,
    addresses=[
        Address("end0", "192.0.2.99", "192.0.2.0/24"),
        Address("end0", "2001:db8::99", "2001:db8::/64"),
        Address("docker0", "172.17.0.1", "172.17.0.0/16"),
    ],
    listeners=[],
    free_bytes=20 * 1024**3,
    on_mmc=False,
    swaps=[],
    image_archives=[],
    files={"other_unit": "absent"},
)
WANTED = Wanted(
    version="v1.37.2+k3s1",
    role="agent",
    architectures=["x86_64", "aarch64", "armv7l", "armv8l"],
    features=FEATURES,
    takes_cgroup_v1=False,
    cgroup_v2=False,
    reboot=False,
    embeds_etcd=False,
    node_ip=[],
    kubelet_drop_in=False,
    data_dir="/var/lib/rancher/k3s",
)


def features(state: str, *names: str) -> dict[str, Any]:
    """A kernel whose features differ in these."""
    return {"features": {**SOUND.features, **dict.fromkeys(names, state)}}


V1: dict[str, Any] = {"cgroups": Cgroups(1, ["cpuset", "memory", "pids"], [])}
NO_MEMORY: dict[str, Any] = {"cgroups": Cgroups(2, ["cpu", "cpuset", "io", "pids"], ["memory"])}
UNKNOWN: dict[str, Any] = {"boot": Boot(None, None, [])}
STARTED: dict[str, Any] = {
    "boot": Boot("grub", "/etc/default/grub", ["cgroup_memory=1", "cgroup_enable=memory"])
}
WLAN = [*SOUND.addresses, Address("wlan0", "198.51.100.9", "198.51.100.0/24")]
NODE = {"node_ip": ["192.0.2.99", "2001:db8::99"]}
MICROK8S = Listener(10250, "kubelite", "snap.microk8s.daemon-kubelite.service")

# Case -> what differs in the host, in what is wanted; part of the sentence (None: all is well).
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str | None]] = {
    "sound": ({}, {}, None),
    "armhf": ({"machine": "armv7l"}, {}, None),
    "mips": ({"machine": "mips64"}, {}, "no release for the architecture mips64, only for x86_64"),
    "openrc": ({"systemd": False}, {}, "not run by systemd"),
    "same": ({"k3s_version": "v1.37.2+k3s1"}, {}, None),
    "upgrade": ({"k3s_version": "v1.36.9+k3s7"}, {}, None),
    "downgrade": (
        {"k3s_version": "v1.37.10+k3s1"},
        {},
        "k3s v1.37.10+k3s1 is installed and k3s_version asks for the older v1.37.2+k3s1",
    ),
    "was-server": ({"files": {"other_unit": "ours"}}, {}, "The host is a k3s server (it has"),
    "was-agent": (
        {"files": {"other_unit": "other"}},
        {"role": "server"},
        "move it back to the group k3s_agent",
    ),
    "memory-off": (NO_MEMORY, {}, None),
    "memory-off-unknown": (
        {**NO_MEMORY, **UNKNOWN},
        {},
        "without the memory cgroup, and nothing shows which file the boot loader of this image "
        "reads: add cgroup_enable=memory cgroup_memory=1 to its kernel arguments",
    ),
    "memory-never": (
        {**NO_MEMORY, **STARTED},
        {},
        "was started with cgroup_enable=memory cgroup_memory=1 and still runs without the memory",
    ),
    "nothing-on": (
        {"cgroups": Cgroups(2, [], []), **UNKNOWN},
        {},
        "without the memory cgroup and the cpuset cgroup, and",
    ),
    "v1": (V1, {}, "cgroup v1, which the kubelet of k3s v1.37.2+k3s1 refuses"),
    "v1-first-that-refuses": (V1, {"version": "v1.35.0-rc1+k3s1"}, "set k3s_cgroup_v2 to true"),
    "v1-last-that-takes-it": (V1, {"version": "v1.34.9+k3s1"}, None),
    "v1-taken": (V1, {"takes_cgroup_v1": True}, None),
    "v1-repaired": (V1, {"cgroup_v2": True}, None),
    "v1-unknown": ({**V1, **UNKNOWN}, {"cgroup_v2": True}, "without cgroup v2, and nothing shows"),
    "no-vxlan": (
        features("absent", "vxlan"),
        {},
        "6.1.115-vendor-rk35xx has no vxlan, neither built in nor as a module",
    ),
    "no-vxlan-remedy": (features("absent", "vxlan"), {}, "or set flannel-backend to host-gw"),
    "no-vxlan-needed": (
        features("absent", "vxlan"),
        {"features": ["br_netfilter", "iptables_nat"]},
        None,
    ),
    "two-absent": (
        features("absent", "br_netfilter", "vxlan"),
        {},
        "has no br_netfilter and vxlan, neither",
    ),
    "built-in": (features("running", *FEATURES), {}, None),
    "container": (features("unknown", *FEATURES), {}, None),
    "gone": (
        features("gone", "br_netfilter", "vxlan"),
        {},
        "kernel 6.1.115-vendor-rk35xx are gone, as after an upgrade of the kernel, and br_netfilter"
        " and vxlan cannot be loaded: reboot",
    ),
    "past": ({"clock": Clock(-3.6e7, None)}, {}, "is 36000000 s behind the control node's"),
    "future": ({"clock": Clock(61.0, True)}, {}, "is 61 s ahead of the control node's"),
    "near": ({"clock": Clock(-60.0, True)}, {}, None),
    "not-compared": ({"clock": Clock(None, None)}, {}, None),
    "own-addresses": ({}, NODE, None),
    "foreign-address": (
        {},
        {"node_ip": ["192.0.2.99", "2001:db8::1"]},
        "k3s_node_ip is 192.0.2.99,2001:db8::1, but the host has no address 2001:db8::1, only",
    ),
    "no-answer": ({"addresses": []}, NODE, None),
    "full": (
        {"free_bytes": 2**30 * 3 // 2},
        {},
        "/var/lib/rancher/k3s has 1.5 GiB free, and k3s with its images needs 2 GiB",
    ),
    "full-installed": ({"free_bytes": 2**30, "k3s_version": "v1.37.2+k3s1"}, {}, None),
    "taken": (
        {"listeners": [MICROK8S, Listener(6444, None, None)]},
        {},
        "TCP port 10250 (kubelite has it) and 6444 (another program has it): stop",
    ),
    "taken-by-k3s": (
        {
            "listeners": [
                Listener(6443, "k3s-server", "k3s.service"),
                Listener(10250, "k3s-agent", "k3s-agent.service"),
            ]
        },
        {},
        None,
    ),
    "no-route": ({"default_route": False}, {}, "no default route"),
    "drop-in": ({}, {"kubelet_drop_in": True, "version": "v1.32.0+k3s1"}, None),
    "drop-in-old": (
        {},
        {"kubelet_drop_in": True, "version": "v1.31.14+k3s1"},
        "k3s_kubelet_config needs k3s 1.32 or newer",
    ),
}

HINT_CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str | None]] = {
    "sound": ({}, {}, None),
    "memory": (
        NO_MEMORY,
        {},
        "write cgroup_enable=memory cgroup_memory=1 to /boot/armbianEnv.txt and stop there",
    ),
    "memory-reboot": (NO_MEMORY, {"reboot": True}, None),
    "memory-unknown": ({**NO_MEMORY, **UNKNOWN}, {}, None),
    "addresses": (
        {"addresses": WLAN},
        {},
        "has the addresses 192.0.2.99 (end0) and 198.51.100.9 (wlan0): k3s will take",
    ),
    "addresses-chosen": ({"addresses": WLAN}, NODE, None),
    "etcd-on-mmc": ({"on_mmc": True}, {"embeds_etcd": True}, "too slow for embedded etcd"),
    "etcd-on-unknown": ({"on_mmc": None}, {"embeds_etcd": True}, None),
    "agent-on-mmc": ({"on_mmc": True}, {}, None),
    "swap": ({"swaps": ["/dev/zram0", "/swapfile"]}, {}, "swaps to /dev/zram0 and /swapfile,"),
    "ntp": ({"clock": Clock(0.0, False)}, {}, "Nothing keeps the clock"),
    "ntp-unknown": ({"clock": Clock(0.0, None)}, {}, None),
}


@pytest.mark.parametrize("name", CASES)
def test_problem(name: str) -> None:
    seen, asked, part = CASES[name]
    sentences = find_problems(replace(SOUND, **seen), replace(WANTED, **asked))
    if part is None:
        assert sentences == []
    else:
        assert len(sentences) == 1
        assert part in sentences[0]


@pytest.mark.parametrize("name", HINT_CASES)
def test_hint(name: str) -> None:
    seen, asked, part = HINT_CASES[name]
    sentences = find_hints(replace(SOUND, **seen), replace(WANTED, **asked))
    if part is None:
        assert sentences == []
    else:
        assert len(sentences) == 1
        assert part in sentences[0]


@pytest.mark.parametrize(
    ("rules", "cases"), [(PROBLEMS, CASES), (HINTS, HINT_CASES)], ids=["problems", "hints"]
)
def test_every_rule_is_seen_to_be_broken_alone(rules: Any, cases: Any) -> None:
    for rule in rules:
        assert any(
            rule(replace(SOUND, **seen), replace(WANTED, **asked))
            for seen, asked, _ in cases.values()
        ), rule


def test_every_broken_rule_is_told_at_once() -> None:
    host = replace(SOUND, default_route=False, clock=Clock(3600.0, None), machine="mips")
    assert len(find_problems(host, WANTED)) == 3


def test_kernel_arguments() -> None:
    nothing = find_owed(SOUND, WANTED)
    assert (nothing.names, nothing.present, nothing.absent) == ([], [], [])
    both = find_owed(
        replace(SOUND, cgroups=Cgroups(1, ["cpuset"], ["memory"])), replace(WANTED, cgroup_v2=True)
    )
    assert both.names == ["the memory cgroup", "cgroup v2"]
    assert both.present == [
        *("cgroup_enable=memory", "cgroup_memory=1", "systemd.unified_cgroup_hierarchy=1"),
    ]
    assert "systemd.unified_cgroup_hierarchy=0" in both.absent
    assert not both.running
    assert find_owed(replace(SOUND, **NO_MEMORY, **STARTED), WANTED).running


# Oldest first; those in one row are of the same age or of other kinds.
RELEASES = [
    ["v1.9.12+k3s7"],
    ["v1.37.2-rc2+k3s1"],
    ["v1.37.2-rc10+k3s1"],
    ["v1.37.2+k3s1", "v1.37.2+standin9"],
    ["v1.37.2+k3s2"],
    ["v1.37.2+k3s10"],
    ["v1.37.10+k3s1"],
    ["v1.38.0+standin1", "v1.38.0+k3s1"],
]


def test_age_of_releases() -> None:
    for (first, older), (second, newer) in itertools.product(enumerate(RELEASES), repeat=2):
        for version, than in itertools.product(older, newer):
            same_kind = ("k3s" in version.split("+")[1]) == ("k3s" in than.split("+")[1])
            core = version.split("+")[0] != than.split("+")[0]
            assert is_older(version, than) == (first < second and (same_kind or core))


@pytest.mark.parametrize(
    ("version", "wrong"),
    [
        *[("1.6.1", False), ("1.8", True), ("1.8.0", True), ("1.8.4", True), ("1.8.5", False)],
        *[("1.8.10", False), ("1.10.0", False), (None, False)],
    ],
)
def test_iptables(version: str | None, wrong: bool) -> None:
    host = replace(SOUND, iptables=version and Iptables(version, "nf_tables"))
    assert has_wrong_iptables(host) is wrong
