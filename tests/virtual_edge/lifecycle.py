"""A whole edge: up, down, and its boards' reboots and failures."""

from __future__ import annotations

import json
import os
import shutil
import time
from contextlib import AbstractContextManager
from pathlib import Path

from virtual_edge import boards, cgroups, keys, limits, podman
from virtual_edge.errors import EdgeError, RefusedError
from virtual_edge.locks import locked
from virtual_edge.progress import say
from virtual_edge.settings import BoardSpec, Edge
from virtual_edge.shell import require, run


def up(edge: Edge) -> None:
    """Have every board of an edge running.

    What runs from the present recipe stays as it is; stopped boards are started; if any board was
    made from another recipe, the whole edge is made anew, because a cluster cannot outlive that.
    """
    with _lock(edge):
        keys.prepare(edge)
        known = podman.containers()
        ours = {board.name: known.get(edge.container(board.name)) for board in edge.boards}
        stale = [name for name, one in ours.items() if one and not _is_current(edge, name, one)]
        if stale or not _network_fits(edge):
            if any(ours.values()):
                say(f"{', '.join(stale) or edge.network}: another recipe, making the edge anew")
            _remove(edge)
            keys.prepare(edge)
            ours = dict.fromkeys(ours)
        _make_network(edge)
        limits.raise_inotify_instances()
        changed = [board for board in edge.boards if _start(edge, board, ours[board.name])]
        for board in edge.boards:
            if board in changed or not boards.answers(edge, board):
                boards.wait_until_up(edge, board)
                say(f"{board.name} is up at {edge.address(board)}")
        if not changed:
            say(f"all boards of {edge.name} are up already")


def is_running(edge: Edge) -> bool:
    """Whether every board's container runs."""
    known = podman.containers()
    return all(
        known.get(name) is not None and known[name].running
        for name in map(edge.container, (board.name for board in edge.boards))
    )


def _is_current(edge: Edge, name: str, container: podman.Container) -> bool:
    board = next(board for board in edge.boards if board.name == name)
    if not (edge.board_directory(name) / "hardware").is_dir():
        return False
    return container.labels.get(podman.RECIPE_LABEL) == boards.recipe(edge, board)


def _start(edge: Edge, board: BoardSpec, container: podman.Container | None) -> bool:
    if container is None:
        say(f"starting {board.name}: {board.model}, {edge.address(board)}")
        boards.create(edge, board)
        return True
    if not container.running:
        say(f"{board.name} was stopped: starting it")
        require(["podman", "start", container.name])
        return True
    return False


def _open_network() -> bool:
    """Whether boards may reach beyond this machine; only the real k3s release wants to."""
    return bool(os.environ.get("ROCKNPU_K3S_RELEASE"))


def _network_fits(edge: Edge) -> bool:
    network = next((one for one in podman.networks() if one["name"] == edge.network), None)
    if network is None:
        return True
    subnets = [entry["subnet"] for entry in network.get("subnets") or []]
    return subnets == [str(edge.subnet)] and network["internal"] != _open_network()


def _make_network(edge: Edge) -> None:
    if run(["podman", "network", "exists", edge.network]).returncode == 0:
        return
    command = ["podman", "network", "create", f"--subnet={edge.subnet}"]
    command += [f"--label={podman.EDGE_LABEL}={edge.name}"]
    if not _open_network():
        command += ["--internal"]
    require([*command, edge.network])


def down(edge: Edge) -> None:
    """Remove an edge: containers, volumes, network, control groups, keys and token."""
    with _lock(edge):
        _remove(edge)


def _remove(edge: Edge) -> None:
    for container in podman.containers().values():
        if container.labels.get(podman.EDGE_LABEL) == edge.name:
            say(f"removing {container.name}")
            boards.remove(container.name)
    for network in podman.networks():
        if (network.get("labels") or {}).get(podman.EDGE_LABEL) == edge.name:
            require(["podman", "network", "rm", network["name"]])
    left = cgroups.remove(edge.network)
    if left:
        raise EdgeError(
            f"Processes of {edge.name} still run in {left[0]}: end them (cgroup.procs lists them) "
            "and run `down` again."
        )
    if edge.directory.exists():
        shutil.rmtree(edge.directory)


def all_names(cache: Path) -> list[str]:
    """Names of the edges that exist, from their containers, networks and directories."""
    found = {one.labels.get(podman.EDGE_LABEL) for one in podman.containers().values()}
    found |= {(one.get("labels") or {}).get(podman.EDGE_LABEL) for one in podman.networks()}
    places = cache / "edges"
    if places.is_dir():
        found |= {entry.name for entry in places.iterdir() if entry.is_dir()}
    return sorted(name for name in found if name)


def find_board(edge: Edge, name: str) -> BoardSpec:
    """The description of a board that exists, also of one that was started by --extra.

    Raises:
        RefusedError: no board of the edge has this name.
    """
    container = podman.containers().get(edge.container(name))
    if container is None or container.labels.get(podman.EDGE_LABEL) != edge.name:
        raise RefusedError(f"The edge {edge.name} has no board {name!r}: `check` lists its boards.")
    inspected = json.loads(require(["podman", "inspect", container.name]))[0]
    address = inspected["NetworkSettings"]["Networks"][edge.network]["IPAddress"]
    return BoardSpec(name, "", int((address or "0.0.0.0").rsplit(".", 1)[1]))


def reboot(edge: Edge, name: str) -> None:
    """Reboot one board and wait until it is up."""
    with _lock(edge):
        board = find_board(edge, name)
        started = time.monotonic()
        boards.restart(edge, board)
        say(f"{name} rebooted in {time.monotonic() - started:.0f} s")


def reimage(edge: Edge, name: str) -> None:
    """Make one board anew, as from a fresh image: same address and ssh keys, nothing else kept.

    Raises:
        RefusedError: no board has this name; one of --extra has to be named again.
    """
    board = next((board for board in edge.boards if board.name == name), None)
    if board is None:
        raise RefusedError(
            f"The edge {edge.name} has no board {name!r}: name it as it was started, --extra too."
        )
    with _lock(edge):
        boards.create(edge, board)
        boards.wait_until_up(edge, board)
        say(f"{name} is a new board")


def change_npu(edge: Edge, name: str, action: str) -> None:
    """Take a board's NPU nodes away ("lose") or bring them back ("return")."""
    find_board(edge, name)
    podman.inside(edge.container(name), "/usr/lib/virtual-board/nodes", action)
    say(f"{name}: NPU nodes {'gone' if action == 'lose' else 'back'}")


def _lock(edge: Edge) -> AbstractContextManager[None]:
    return locked(edge.cache / "edges" / f"{edge.name}.lock", f"another run works on {edge.name}")
