"""Names, places and addresses of an edge."""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from virtual_edge.errors import RefusedError

_DEFAULT_NAME = "edge"
# A documentation range (RFC 5737): no real network uses it.
_DEFAULT_NET = "198.51.100"
DEFAULT_K3S_VERSION = "v1.37.2+standin1"

_NAME = re.compile(r"[a-z][a-z0-9-]{0,19}")
_BOARD_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class BoardSpec:
    """A board of an edge.

    name: host name and Ansible's inventory name.
    model: name of a file in models/, without its ending.
    host: last byte of its address.
    """

    name: str
    model: str
    host: int


BOARDS = (
    BoardSpec("rk3588-node-01", "rk3588", 11),
    BoardSpec("rk3588-node-02", "rk3588s", 12),
)


@dataclass(frozen=True)
class Edge:
    """One set of boards on one network.

    name: of the network and the prefix of its containers.
    subnet: IPv4 /24.
    cache: directory for everything that is kept between runs.
    boards: all boards to have.
    """

    name: str
    subnet: ipaddress.IPv4Network
    cache: Path
    boards: tuple[BoardSpec, ...] = field(default=BOARDS)

    @property
    def network(self) -> str:
        """Name of the podman network, and of the cgroup above the boards."""
        return f"rocknpu-{self.name}"

    @property
    def directory(self) -> Path:
        """Keys, token, kubeconfig and the boards' descriptions; mode 0700."""
        return self.cache / "edges" / self.name

    def container(self, board: str) -> str:
        """Name of a board's container."""
        return f"{self.network}-{board}"

    def address(self, board: BoardSpec) -> str:
        """IPv4 address of a board."""
        return str(self.subnet.network_address + board.host)

    def board_directory(self, board: str) -> Path:
        """The rendered description of a board, which the board sees read-only."""
        return self.directory / "boards" / board


def find_cache() -> Path:
    """The cache directory: $ROCKNPU_CACHE, else ~/.cache/rocknpu."""
    named = os.environ.get("ROCKNPU_CACHE", "")
    return Path(named).expanduser().absolute() if named else Path.home() / ".cache" / "rocknpu"


def default_name() -> str:
    """Name of the edge that is meant when none is given, as inventory/virtual knows it."""
    return os.environ.get("ROCKNPU_EDGE") or _DEFAULT_NAME


def default_subnet() -> str:
    """Subnet of that edge."""
    return f"{os.environ.get('ROCKNPU_EDGE_NET') or _DEFAULT_NET}.0/24"


def make_edge(name: str, subnet: str, cache: Path, extra: list[str] | None = None) -> Edge:
    """Check the settings of an edge and put them together.

    Args:
        name: lower-case letters, digits and hyphens, at most 20.
        subnet: IPv4 network with 24 bits, such as 198.51.100.0/24.
        cache: cache directory.
        extra: further boards, each MODEL=NAME:HOST, HOST being the last byte of the address.

    Raises:
        RefusedError: names the setting and the rule that it breaks.
    """
    if not _NAME.fullmatch(name):
        raise RefusedError(
            f"--name {name!r} is no edge's name: take at most 20 lower-case letters, digits and "
            "hyphens, a letter first."
        )
    try:
        network = ipaddress.IPv4Network(subnet)
    except ValueError as problem:
        raise RefusedError(f"--subnet {subnet!r} is no IPv4 network ({problem}).") from None
    if network.prefixlen != 24:
        raise RefusedError(f"--subnet {subnet} has {network.prefixlen} bits, not 24.")
    boards = list(BOARDS)
    for text in extra or []:
        boards.append(_parse_extra(text, boards))
    return Edge(name, network, cache, tuple(boards))


def _parse_extra(text: str, boards: list[BoardSpec]) -> BoardSpec:
    match = re.fullmatch(r"([^=]+)=([^:]+):([0-9]{1,3})", text)
    if match is None:
        raise RefusedError(f"--extra {text!r} is not MODEL=NAME:HOST, such as rocket=board:21.")
    model, name, host = match.group(1), match.group(2), int(match.group(3))
    if not _BOARD_NAME.fullmatch(name):
        raise RefusedError(f"--extra {text!r}: {name!r} is no host name in lower case (RFC 1123).")
    if not 2 <= host <= 254:
        raise RefusedError(f"--extra {text!r}: the address's last byte must be 2 to 254.")
    for board in boards:
        if board.name == name or board.host == host:
            raise RefusedError(
                f"--extra {text!r}: {board.name} already has this name or address; take others."
            )
    return BoardSpec(name, model, host)
