"""Keys and token: made once, private, and whole after an interruption."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from virtual_edge import keys
from virtual_edge.settings import Edge, make_edge

pytestmark = pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="there is no ssh-keygen")


@pytest.fixture
def edge(tmp_path: Path) -> Edge:
    made = make_edge("edge", "198.51.100.0/24", tmp_path)
    keys.prepare(made)
    return made


def test_secrets_are_their_owners_alone(edge: Edge) -> None:
    assert edge.directory.stat().st_mode & 0o777 == 0o700
    for name in ("id_ed25519", "token", "known_hosts"):
        assert (edge.directory / name).stat().st_mode & 0o777 == 0o600


def test_every_board_is_known_before_the_first_contact(edge: Edge) -> None:
    lines = (edge.directory / "known_hosts").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["198.51.100.11", "198.51.100.12"]
    key = edge.directory / "host_keys/rk3588-node-02/ssh_host_ed25519_key.pub"
    assert lines[1].split()[1:] == key.read_text().split()[:2]


def test_a_second_run_keeps_everything(edge: Edge) -> None:
    before = {path: path.read_bytes() for path in edge.directory.rglob("*") if path.is_file()}
    keys.prepare(edge)
    assert before == {
        path: path.read_bytes() for path in edge.directory.rglob("*") if path.is_file()
    }


def test_half_a_key_is_made_anew(edge: Edge) -> None:
    public = edge.directory / "id_ed25519.pub"
    old = public.read_text()
    public.unlink()
    keys.prepare(edge)
    assert public.read_text() != old
