"""One board: its description, its container, its life."""

from __future__ import annotations

import hashlib
import json
import resource
import socket
import time
from pathlib import Path

from virtual_edge import cgroups, image, models, podman
from virtual_edge.errors import EdgeError
from virtual_edge.settings import BoardSpec, Edge
from virtual_edge.shell import require, run

_BOOT_TIMEOUT = 90
# Changes with what this file does to a container, so that older containers are made anew.
_FORMAT = 1


def describe(board: BoardSpec) -> dict[str, str | bytes]:
    """The files that a board finds in /var/lib/virtual-board, but for its keys."""
    model = models.load(board.model)
    numbers = models.stand_ins(Path("/proc/misc").read_text())
    tree: dict[str, str | bytes] = {
        f"hardware/{path}": content for path, content in models.render(model, numbers).items()
    }
    if model.get("debugfs_at_boot"):
        tree["debugfs-at-boot"] = ""
    if model.get("light"):
        tree["light"] = ""
    if "python" in model:
        tree["python"] = model["python"]
    return tree


def recipe(edge: Edge, board: BoardSpec) -> str:
    """Twelve hexadecimal digits that change with anything that a container is made from."""
    whole = hashlib.sha256(f"{_FORMAT} {image.digest()}".encode())
    whole.update(json.dumps(_arguments(edge, board)).encode())
    whole.update((edge.directory / "id_ed25519.pub").read_bytes())
    for path, content in sorted(describe(board).items()):
        data = content if isinstance(content, bytes) else content.encode()
        whole.update(path.encode() + b"\0" + data + b"\0")
    return whole.hexdigest()[:12]


def create(edge: Edge, board: BoardSpec) -> None:
    """Write a board's description and start its container, in place of what is there already."""
    container = edge.container(board.name)
    remove(container)
    tree = describe(board)
    keys = edge.directory / "host_keys" / board.name
    for name in ("ssh_host_ed25519_key", "ssh_host_ed25519_key.pub"):
        tree[f"ssh/{name}"] = (keys / name).read_text()
    tree["ssh/authorized_keys"] = (edge.directory / "id_ed25519.pub").read_text()
    if not cgroups.unified():
        tree["cgroup"] = f"{edge.network}/{board.name}\n"
        tree["hierarchies"] = "".join(f"{place}\n" for place in _hierarchies())
    models.write(tree, edge.board_directory(board.name))
    (edge.board_directory(board.name) / "ssh" / "ssh_host_ed25519_key").chmod(0o600)
    labels = [
        f"--label={podman.EDGE_LABEL}={edge.name}",
        f"--label={podman.RECIPE_LABEL}={recipe(edge, board)}",
    ]
    require(
        [
            "podman",
            *_arguments(edge, board)[:2],
            "run",
            "--detach",
            *labels,
            *_arguments(edge, board)[2:],
        ],
        timeout=180,
    )


def _arguments(edge: Edge, board: BoardSpec) -> list[str]:
    """Arguments of podman: two global ones, then those of its command run."""
    # crun does not start systemd on a machine with cgroup v1.
    start = ["--runtime=runc", "--cgroup-manager=cgroupfs"]
    if cgroups.unified():
        start[1] = "--log-level=error"
        groups = ["--cgroupns=private"]
    else:
        # A private namespace does not boot there, and below its own part of a hierarchy runc in the
        # board loses its way. So the board has the machine's hierarchies, on a file system of its
        # own, which systemd makes read-only. All of an edge lies below one cgroup.
        groups = ["--cgroupns=host", f"--cgroup-parent=/{edge.network}", "--tmpfs=/sys/fs/cgroup"]
        groups += [f"--volume={place}:{place}:rw" for place in _hierarchies()]
    return [
        *start,
        f"--name={edge.container(board.name)}",
        f"--hostname={board.name}",
        f"--network={edge.network}",
        f"--ip={edge.address(board)}",
        # Overlays over sysfs, control groups and the kubelet's mounts.
        "--privileged",
        "--systemd=always",
        *groups,
        # `systemctl reboot` ends the container's first process; podman then starts it again.
        "--restart=always",
        # podman's own choice is more than a machine may allow; it limits its processes to 32768.
        f"--ulimit=nofile={_limit(resource.RLIMIT_NOFILE, 1048576)}",
        f"--ulimit=nproc={_limit(resource.RLIMIT_NPROC, 32768)}",
        "--tmpfs=/run",
        "--tmpfs=/tmp",
        # Overlay mounts of containerd do not go on top of the board's own overlay.
        "--volume=/var/lib/rancher",
        "--volume=/var/lib/kubelet",
        f"--volume={edge.board_directory(board.name)}:/var/lib/virtual-board:ro",
        image.tag(),
        "/lib/systemd/systemd",
    ]


def _hierarchies() -> list[str]:
    return cgroups.hierarchies(Path("/proc/mounts").read_text())


def _limit(kind: int, most: int) -> str:
    """The hard limit of this process, which only CAP_SYS_RESOURCE may raise, or *most*."""
    hard = resource.getrlimit(kind)[1]
    value = most if hard == resource.RLIM_INFINITY else min(hard, most)
    return f"{value}:{value}"


def wait_until_up(edge: Edge, board: BoardSpec) -> None:
    """Wait for systemd to be done and sshd to answer.

    Raises:
        EdgeError: it is not up in time, or units failed; names them.
    """
    deadline = time.monotonic() + _BOOT_TIMEOUT
    state = _wait_for_systemd(edge.container(board.name), deadline)
    if state != "running":
        failed = _failed_units(edge.container(board.name))
        raise EdgeError(
            f"{board.name} did not start ({state}; failed units: {failed}): read "
            f"`podman exec {edge.container(board.name)} journalctl -b`, then run `down` and `up`."
        )
    address = edge.address(board)
    while not _answers(address):
        if time.monotonic() > deadline:
            raise EdgeError(
                f"{board.name} does not answer on {address} port 22: look for a firewall rule of "
                f"this machine that covers {edge.subnet}."
            )
        time.sleep(0.2)


def _wait_for_systemd(container: str, deadline: float) -> str:
    state = "no answer from systemd"
    while time.monotonic() < deadline:
        command = ["podman", "exec", container, "systemctl", "is-system-running", "--wait"]
        result = run(command, timeout=_BOOT_TIMEOUT + 10)
        state = result.stdout.strip() or state
        # "offline" and errors: systemd is not that far yet.
        if state in ("running", "degraded", "maintenance"):
            return state
        time.sleep(0.3)
    return state


def _failed_units(container: str) -> str:
    command = ["systemctl", "list-units", "--failed", "--plain", "--no-legend"]
    listed = run(["podman", "exec", container, *command]).stdout.splitlines()
    return ", ".join(line.split()[0] for line in listed if line) or "unknown"


def _answers(address: str) -> bool:
    try:
        with socket.create_connection((address, 22), timeout=2) as connection:
            connection.settimeout(5)
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def answers(edge: Edge, board: BoardSpec) -> bool:
    """Whether a board's sshd answers now."""
    return _answers(edge.address(board))


def restart(edge: Edge, board: BoardSpec) -> None:
    """Reboot a board from outside: its services are asked to stop, for 10 s at most."""
    require(["podman", "restart", "--time", "10", edge.container(board.name)], timeout=120)
    wait_until_up(edge, board)


def remove(container: str) -> None:
    """Remove a container and its volumes; none is fine.

    podman may stumble over a container that ends by itself at that moment, hence several tries.
    """
    command = ["podman", "rm", "--force", "--ignore", "--volumes", "--time", "2", container]
    for _ in range(3):
        result = run(command)
        if result.returncode == 0:
            return
        time.sleep(1)
    require(command)
