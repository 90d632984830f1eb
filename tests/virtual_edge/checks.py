"""What must hold on this machine before the virtual edge changes anything on it."""

from __future__ import annotations

import json
import os
import platform
import shutil
from pathlib import Path

from virtual_edge import image, podman, tools
from virtual_edge.addresses import (
    find_name_conflict,
    find_network_conflict,
    find_route_conflict,
)
from virtual_edge.errors import EdgeError
from virtual_edge.settings import Edge
from virtual_edge.shell import require, run

_GIB = 1024**3
# Two boards with Kubernetes' control plane on one of them take 1.3 GiB.
_NEEDED_MEMORY = 2 * _GIB
# A running edge needs room for its containers' data; the builds need more, once.
_NEEDED_DISK = 2 * _GIB
_NEEDED_DISK_TO_BUILD = 6 * _GIB


def find_problems(edge: Edge, *, built: bool) -> list[str]:
    """Every reason why `up` would fail, as sentences with their remedy.

    Packages that `build` will install are no problem; podman is asked only where it is installed.

    Args:
        edge: what is to be started.
        built: whether everything that is built once is in the cache.
    """
    if os.geteuid() != 0:
        return [
            "The virtual edge starts privileged containers, which needs root: run again as root "
            "(sudo -i), or use real boards with INVENTORY=."
        ]
    problems = [*_find_machine_problems(), *_find_disk_problems(edge.cache, built)]
    missing = tools.missing_packages()
    if missing and not tools.can_install():
        problems.append(
            f"The Debian packages {', '.join(missing)} are missing and there is no apt-get to "
            "install them: install what corresponds to them and run again."
        )
    if not shutil.which("podman"):
        return problems
    info = run(["podman", "info"])
    if info.returncode:
        said = (info.stderr.strip().splitlines() or ["it says nothing"])[-1]
        return [*problems, f"podman does not work on this machine ({said}): repair that first."]
    return [*problems, *_find_name_problems(edge), *_find_address_problems(edge)]


def _find_machine_problems() -> list[str]:
    problems = []
    if platform.machine() not in ("x86_64", "aarch64"):
        problems.append(
            f"The virtual edge was made for x86_64 and aarch64, and this machine is "
            f"{platform.machine()}: use another one."
        )
    if "\toverlay" not in Path("/proc/filesystems").read_text():
        loaded = run(["modprobe", "overlay"]).returncode == 0 if shutil.which("modprobe") else False
        if not loaded:
            problems.append(
                "This kernel has no overlay file system, which holds the simulated hardware: load "
                "or build the module overlay."
            )
    return problems


def _find_disk_problems(cache: Path, built: bool) -> list[str]:
    place = cache
    while not place.exists():
        place = place.parent
    needed = _NEEDED_DISK if built else _NEEDED_DISK_TO_BUILD
    free = shutil.disk_usage(place).free
    if free >= needed:
        return []
    return [
        f"{place} has {free / _GIB:.1f} GiB free and {needed // _GIB} are needed: make room, or "
        "name another directory in ROCKNPU_CACHE."
    ]


def find_memory_problem(meminfo: str) -> str | None:
    """A sentence if there is too little memory for two boards, from the text of /proc/meminfo."""
    fields = dict(line.split(":", 1) for line in meminfo.splitlines() if ":" in line)
    available = int(fields["MemAvailable"].split()[0]) * 1024
    if available >= _NEEDED_MEMORY:
        return None
    return (
        f"{available / _GIB:.1f} GiB of memory are available and the two boards need "
        f"{_NEEDED_MEMORY // _GIB}: stop something, or `make clean` another edge."
    )


def _find_name_problems(edge: Edge) -> list[str]:
    problems = []
    known = podman.containers()
    for board in edge.boards:
        container = known.get(edge.container(board.name))
        if container and container.labels.get(podman.EDGE_LABEL) != edge.name:
            problems.append(
                f"The container {container.name} is not of this edge: rename or remove it, or take "
                "another --name."
            )
    return problems


def _find_address_problems(edge: Edge) -> list[str]:
    networks = podman.networks()
    own = next((network for network in networks if network["name"] == edge.network), None)
    if own and (own.get("labels") or {}).get(podman.EDGE_LABEL) != edge.name:
        return [
            f"The podman network {edge.network} is not of this edge: remove it, or take another "
            "name (ROCKNPU_EDGE in the environment)."
        ]
    # Heard by make and the inventory alike.
    another = "take another range (ROCKNPU_EDGE_NET=198.18.52 in the environment)"
    other = find_network_conflict(edge.subnet, networks, edge.network)
    if other:
        return [
            f"{edge.subnet} is in use by the podman network {other}: remove that one "
            f"(podman network rm {other}), or {another}."
        ]
    routes = json.loads(require(["ip", "-json", "-4", "route", "show", "table", "all"]) or "[]")
    device = own.get("network_interface") if own else None
    wanted = [edge.subnet.network_address + host for host in (1, *(b.host for b in edge.boards))]
    route = find_route_conflict(edge.subnet, wanted, routes, device)
    if route:
        return [
            f"This machine already has a route to {edge.subnet} ({route}): {another}, or "
            "remove the route."
        ]
    name = find_name_conflict(edge.subnet, Path("/etc/hosts").read_text())
    if name:
        return [f"{edge.subnet} would hide a host that /etc/hosts names ({name}): {another}."]
    return []


def describe(edge: Edge) -> list[str]:
    """Lines about what is there, for people."""
    missing = tools.missing_packages()
    lines = [
        f"packages to install: {', '.join(missing) if missing else 'none'}",
        f"board image {image.digest()}: {'built' if image.is_built(edge.cache) else 'to build'}",
    ]
    if shutil.which("podman"):
        try:
            running = [name for name, one in podman.containers().items() if one.running]
        except EdgeError:
            running = []
        for board in edge.boards:
            state = "running" if edge.container(board.name) in running else "not running"
            lines.append(f"{board.name} ({board.model}, {edge.address(board)}): {state}")
    return lines
