"""Keys, known hosts and token of an edge: made once, so that even the first contact is checked."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from virtual_edge.settings import Edge
from virtual_edge.shell import require


def prepare(edge: Edge) -> None:
    """Have all of them; what is complete stays as it is."""
    edge.directory.mkdir(parents=True, exist_ok=True)
    edge.directory.chmod(0o700)
    _make_key(edge.directory / "id_ed25519", f"virtual edge {edge.name}")
    lines = []
    for board in edge.boards:
        key = edge.directory / "host_keys" / board.name / "ssh_host_ed25519_key"
        _make_key(key, board.name)
        kind, public = key.with_suffix(".pub").read_text().split()[:2]
        lines.append(f"{edge.address(board)} {kind} {public}\n")
    _write(edge.directory / "known_hosts", "".join(lines))
    token = edge.directory / "token"
    if not token.exists():
        _write(token, secrets.token_hex(32) + "\n")


def _make_key(path: Path, comment: str) -> None:
    public = path.with_suffix(".pub")
    # The public key is written last; without it, the pair is what an interrupted run left behind.
    if public.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    require(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)])


def _write(path: Path, text: str) -> None:
    """Write a file with mode 0600, complete or not at all."""
    scratch = path.with_name(path.name + ".tmp")
    scratch.unlink(missing_ok=True)
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    scratch.replace(path)
