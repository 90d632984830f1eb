# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What must hold of a host before k3s is installed on it, one function for each rule.

A rule returns None, or one sentence that says what is wrong and what to do. It is added by adding
it to PROBLEMS, which stop the role, or to HINTS, which are shown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Callable, NamedTuple, Sequence

from .k3s_host import K3sHost


@dataclass(frozen=True)
class Wanted:
    """What the host is to be, as the inventory has it.

    version: the release of k3s.
    role: "server" or "agent".
    architectures: machine names that k3s has releases for.
    features: parts of the kernel that this configuration needs.
    takes_cgroup_v1: whether the kubelet is told to run with cgroup v1.
    cgroup_v2: whether the host is to be booted with cgroup v2.
    reboot: whether the role may reboot the host.
    embeds_etcd: whether the host is a server with embedded etcd.
    node_ip: addresses of the node; empty leaves the choice to k3s.
    kubelet_drop_in: whether the kubelet gets a drop-in file.
    data_dir: the data directory of k3s.
    """

    version: str
    role: str
    architectures: Sequence[str]
    features: Sequence[str]
    takes_cgroup_v1: bool
    cgroup_v2: bool
    reboot: bool
    embeds_etcd: bool
    node_ip: Sequence[str]
    kubelet_drop_in: bool
    data_dir: str


Rule = Callable[[K3sHost, Wanted], "str | None"]

# Certificates are valid from the moment they are made; the way of the question takes some seconds.
_CLOCK_TOLERANCE = 60

# k3s, what it unpacks, and the images of its own components.
_SPACE = 2 * 1024**3

# Interfaces of containers, bridges and tunnels, which are no way to the node.
_INNER = re.compile("docker|br-|veth|cni|flannel|kube|virbr|podman|cali|tunl|wg|tailscale|zt|dummy")


class BootPart(NamedTuple):
    """Something that the kernel can be started with, and the arguments for it."""

    name: str
    is_missing: Callable[[K3sHost, Wanted], bool]
    present: Sequence[str]
    absent: Sequence[str]


BOOT_PARTS = (
    BootPart(
        "the memory cgroup",
        lambda host, wanted: "memory" not in host.cgroups.running,
        ["cgroup_enable=memory", "cgroup_memory=1"],
        ["cgroup_disable=memory"],
    ),
    BootPart(
        "the cpuset cgroup",
        lambda host, wanted: "cpuset" not in host.cgroups.running,
        ["cgroup_enable=cpuset"],
        ["cgroup_disable=cpuset"],
    ),
    # https://www.freedesktop.org/software/systemd/man/latest/kernel-command-line.html
    BootPart(
        "cgroup v2",
        lambda host, wanted: wanted.cgroup_v2 and host.cgroups.version == 1,
        ["systemd.unified_cgroup_hierarchy=1"],
        ["systemd.unified_cgroup_hierarchy=0", "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1"],
    ),
)


class Owed(NamedTuple):
    """What the kernel runs without, and the arguments that it has to be started with.

    running: whether it was started with them already.
    """

    names: list[str]
    present: list[str]
    absent: list[str]
    running: bool


def find_owed(host: K3sHost, wanted: Wanted) -> Owed:
    """Compare the running kernel, not the files, with what is needed."""
    parts = [part for part in BOOT_PARTS if part.is_missing(host, wanted)]
    present = [argument for part in parts for argument in part.present]
    return Owed(
        [part.name for part in parts],
        present,
        [argument for part in parts for argument in part.absent],
        set(present) <= set(host.boot.arguments),
    )


def find_problems(host: K3sHost, wanted: Wanted) -> list[str]:
    """All that keeps this host from becoming what is wanted."""
    return [sentence for sentence in (rule(host, wanted) for rule in PROBLEMS) if sentence]


def find_hints(host: K3sHost, wanted: Wanted) -> list[str]:
    """All that may become a problem."""
    return [sentence for sentence in (rule(host, wanted) for rule in HINTS) if sentence]


def has_wrong_iptables(host: K3sHost) -> bool:
    """Whether the installed iptables is one whose rules are wrong.

    https://docs.k3s.io/known-issues, https://github.com/k3s-io/k3s/issues/3117
    """
    if host.iptables is None:
        return False
    return (1, 8) <= _numbers(host.iptables.version) <= (1, 8, 4)


def is_older(version: str, than: str) -> bool:
    """Whether a release of k3s is older than another one of its kind.

    Semantic versions say nothing of the order of builds; k3s counts them: +k3s1, +k3s2.

    >>> is_older("v1.37.2+k3s2", "v1.37.2+k3s10")
    True
    """
    (mine, build), (other, other_build) = _order(version), _order(than)
    return mine < other or (mine == other and build[0] == other_build[0] and build < other_build)


def _order(version: str) -> tuple[tuple[object, ...], tuple[str, int]]:
    core, _plus, build = version.lstrip("v").partition("+")
    numbers, _dash, candidate = core.partition("-")
    # A candidate comes before its release; rc2 before rc10.
    parts = [
        (0, int(part), "") if part.isdigit() else (1, 0, part)
        for part in re.findall(r"[0-9]+|[^0-9.]+", candidate)
    ]
    match = re.search(r"[0-9]*$", build)
    count = match.group() if match else ""
    return (_numbers(numbers), not candidate, parts), (
        build[: len(build) - len(count)],
        int(count or 0),
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]+", version))


def _minor(version: str) -> tuple[int, ...]:
    return _numbers(version)[:2]


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def _check_architecture(host: K3sHost, wanted: Wanted) -> str | None:
    if host.machine in wanted.architectures:
        return None
    return (
        f"k3s has no release for the architecture {host.machine}, only for "
        f"{', '.join(wanted.architectures)}."
    )


def _check_systemd(host: K3sHost, wanted: Wanted) -> str | None:
    if host.systemd:
        return None
    return "The host is not run by systemd, which k3s is a service of: install a system that is."


def _check_downgrade(host: K3sHost, wanted: Wanted) -> str | None:
    if not host.k3s_version or not is_older(wanted.version, host.k3s_version):
        return None
    return (
        f"k3s {host.k3s_version} is installed and k3s_version asks for the older {wanted.version}; "
        f"the datastore does not survive a downgrade, so set k3s_version to {host.k3s_version} or "
        "newer."
    )


def _check_other_unit(host: K3sHost, wanted: Wanted) -> str | None:
    if host.files.get("other_unit", "absent") == "absent":
        return None
    other = "agent" if wanted.role == "server" else "server"
    return (
        f"The host is a k3s {other} (it has that service), and the inventory makes it a k3s "
        f"{wanted.role}: remove k3s from it first, or move it back to the group k3s_{other}."
    )


def _check_boot_file(host: K3sHost, wanted: Wanted) -> str | None:
    """https://github.com/k3s-io/k3s/issues/8890"""
    owed = find_owed(host, wanted)
    if not owed.names or owed.running or host.boot.kind:
        return None
    return (
        f"The kernel runs without {_listed(owed.names)}, and nothing shows which file the boot "
        f"loader of this image reads: add {' '.join(owed.present)} to its kernel arguments and "
        "reboot."
    )


def _check_boot_effect(host: K3sHost, wanted: Wanted) -> str | None:
    owed = find_owed(host, wanted)
    if not owed.names or not owed.running:
        return None
    return (
        f"The kernel was started with {' '.join(owed.present)} and still runs without "
        f"{_listed(owed.names)}: it was built so. Install another kernel, such as the board "
        "vendor's newest."
    )


def _check_cgroup_version(host: K3sHost, wanted: Wanted) -> str | None:
    """https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/5573-remove-cgroup-v1"""
    refuses = _minor(wanted.version) >= (1, 35) and not wanted.takes_cgroup_v1
    if host.cgroups.version == 2 or wanted.cgroup_v2 or not refuses:
        return None
    return (
        f"The host runs cgroup v1, which the kubelet of k3s {wanted.version} refuses, as all do "
        "from 1.35 on: set k3s_cgroup_v2 to true, or kubelet-arg in k3s_config to "
        '["fail-cgroupv1=false"], or k3s_version to 1.34 or older.'
    )


def _check_features(host: K3sHost, wanted: Wanted) -> str | None:
    """https://github.com/k3s-io/k3s/issues/8015, https://github.com/radxa/debos-radxa/issues/32"""
    absent = [name for name in wanted.features if host.features[name] == "absent"]
    if not absent:
        return None
    instead = ", or set flannel-backend to host-gw in k3s_config_server"
    return (
        f"Kernel {host.kernel_release} has no {_listed(absent)}, neither built in nor as a module, "
        "and k3s does not work without: install another kernel, such as the board vendor's newest"
        f"{instead if absent == ['vxlan'] else ''}."
    )


def _check_modules(host: K3sHost, wanted: Wanted) -> str | None:
    gone = [name for name in wanted.features if host.features[name] == "gone"]
    if not gone:
        return None
    return (
        f"The modules of the running kernel {host.kernel_release} are gone, as after an upgrade of "
        f"the kernel, and {_listed(gone)} cannot be loaded: reboot the host."
    )


def _check_clock(host: K3sHost, wanted: Wanted) -> str | None:
    ahead = host.clock.ahead or 0
    if abs(ahead) <= _CLOCK_TOLERANCE:
        return None
    return (
        f"The clock of the host is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the "
        "control node's, and certificates of one are not valid for the other: set the time right "
        "(timedatectl set-ntp true, or an NTP server that the host reaches)."
    )


def _check_node_ip(host: K3sHost, wanted: Wanted) -> str | None:
    own = [address.address for address in host.addresses]
    foreign = [address for address in wanted.node_ip if address not in own]
    # Without addresses there was no answer.
    if not foreign or not own:
        return None
    return (
        f"k3s_node_ip is {','.join(wanted.node_ip)}, but the host has no address "
        f"{_listed(foreign)}, only {_listed(own)}."
    )


def _check_space(host: K3sHost, wanted: Wanted) -> str | None:
    if host.k3s_version or host.free_bytes >= _SPACE:
        return None
    return (
        f"{wanted.data_dir} has {host.free_bytes / 1024**3:.1f} GiB free, and k3s with its images "
        f"needs {_SPACE / 1024**3:.0f} GiB: make room, or set data-dir in k3s_config to a larger "
        "disk."
    )


def _check_ports(host: K3sHost, wanted: Wanted) -> str | None:
    own = ("k3s.service", "k3s-agent.service")
    taken = [listener for listener in host.listeners if listener.unit not in own]
    if not taken:
        return None
    ports = [f"{each.port} ({each.program or 'another program'} has it)" for each in taken]
    return f"k3s needs the TCP port {_listed(ports)}: stop what is there, or give it another port."


def _check_default_route(host: K3sHost, wanted: Wanted) -> str | None:
    """https://docs.k3s.io/installation/airgap"""
    if host.default_route:
        return None
    return (
        "The host has no default route, which k3s needs even if it leads nowhere: see "
        "https://docs.k3s.io/installation/airgap#default-network-route for a dummy one."
    )


def _check_kubelet_drop_in(host: K3sHost, wanted: Wanted) -> str | None:
    if not wanted.kubelet_drop_in or _minor(wanted.version) >= (1, 32):
        return None
    return (
        f"k3s_kubelet_config needs k3s 1.32 or newer, and k3s_version is {wanted.version}: use "
        "kubelet-arg in k3s_config."
    )


def _hint_reboot(host: K3sHost, wanted: Wanted) -> str | None:
    owed = find_owed(host, wanted)
    if not owed.names or owed.running or wanted.reboot or not host.boot.kind:
        return None
    return (
        f"The kernel runs without {_listed(owed.names)}. The role will write "
        f"{' '.join(owed.present)} to {host.boot.path} and stop there, because k3s_reboot is not "
        "true."
    )


def _hint_addresses(host: K3sHost, wanted: Wanted) -> str | None:
    choice = [
        f"{each.address} ({each.interface})"
        for each in host.addresses
        if ":" not in each.address and not _INNER.match(each.interface)
    ]
    if wanted.node_ip or len(choice) < 2:
        return None
    return (
        f"The host has the addresses {_listed(choice)}: k3s will take the one of the default "
        "route. Set k3s_node_ip to choose."
    )


def _hint_slow_disk(host: K3sHost, wanted: Wanted) -> str | None:
    """https://docs.k3s.io/installation/requirements"""
    if not (wanted.embeds_etcd and host.on_mmc):
        return None
    return (
        f"{wanted.data_dir} lies on an SD card or eMMC, which is too slow for embedded etcd and "
        "wears out: set data-dir in k3s_config to an SSD or NVMe, or use one server."
    )


def _hint_swap(host: K3sHost, wanted: Wanted) -> str | None:
    if not host.swaps:
        return None
    return (
        f"The host swaps to {_listed(host.swaps)}, which makes pods slow before it makes them "
        "fail: swapoff -a and /etc/fstab (or the service of zram) turn it off."
    )


def _hint_clock(host: K3sHost, wanted: Wanted) -> str | None:
    """https://github.com/rancher/k3os/issues/381"""
    if host.clock.synchronized is not False:
        return None
    return (
        "Nothing keeps the clock of the host right, which may start in the past after a power cut: "
        "timedatectl set-ntp true, with an NTP server that the host reaches."
    )


PROBLEMS: Sequence[Rule] = (
    _check_architecture,
    _check_systemd,
    _check_downgrade,
    _check_other_unit,
    _check_boot_file,
    _check_boot_effect,
    _check_cgroup_version,
    _check_features,
    _check_modules,
    _check_clock,
    _check_node_ip,
    _check_space,
    _check_ports,
    _check_default_route,
    _check_kubelet_drop_in,
)

HINTS: Sequence[Rule] = (
    _hint_reboot,
    _hint_addresses,
    _hint_slow_disk,
    _hint_swap,
    _hint_clock,
)
