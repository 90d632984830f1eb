"""Settings of an edge, and the sentences for bad ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from virtual_edge.checks import find_memory_problem
from virtual_edge.errors import RefusedError
from virtual_edge.settings import BoardSpec, default_name, default_subnet, find_cache, make_edge

CACHE = Path("/nowhere")


def test_two_boards_unless_more_are_asked_for() -> None:
    edge = make_edge("edge", "198.51.100.0/24", CACHE, ["rocket=rocket:21"])
    assert [board.name for board in edge.boards] == ["rk3588-node-01", "rk3588-node-02", "rocket"]
    assert edge.address(edge.boards[1]) == "198.51.100.12"
    assert edge.boards[2] == BoardSpec("rocket", "rocket", 21)
    assert edge.address(edge.boards[2]) == "198.51.100.21"


def test_make_and_inventory_mean_the_same_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROCKNPU_EDGE", "ROCKNPU_EDGE_NET"):
        monkeypatch.delenv(name, raising=False)
    assert (default_name(), default_subnet()) == ("edge", "198.51.100.0/24")
    monkeypatch.setenv("ROCKNPU_EDGE", "other")
    monkeypatch.setenv("ROCKNPU_EDGE_NET", "198.18.52")
    assert (default_name(), default_subnet()) == ("other", "198.18.52.0/24")
    monkeypatch.setenv("ROCKNPU_EDGE_NET", "198.18.52.0/24")
    with pytest.raises(RefusedError, match="is no IPv4 network"):
        make_edge(default_name(), default_subnet(), CACHE)


def test_names_of_two_edges_never_meet() -> None:
    one = make_edge("edge", "198.51.100.0/24", CACHE)
    two = make_edge("molecule", "198.18.51.0/24", CACHE)
    assert one.network != two.network
    assert one.directory != two.directory
    assert one.container("x") != two.container("x")


@pytest.mark.parametrize("name", ["", "Edge", "9edge", "a" * 21, "a b", "../edge", "edge/.."])
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(RefusedError, match="is no edge's name"):
        make_edge(name, "198.51.100.0/24", CACHE)


@pytest.mark.parametrize(
    ("subnet", "rule"),
    [
        ("198.51.100.0", "has 32 bits"),
        ("198.51.100.0/16", "no IPv4 network"),
        ("198.51.0.0/16", "has 16 bits"),
        ("198.51.100.1/24", "no IPv4 network"),
        ("fd00::/64", "no IPv4 network"),
        ("here", "no IPv4 network"),
    ],
)
def test_a_bad_subnet_is_refused(subnet: str, rule: str) -> None:
    with pytest.raises(RefusedError, match=rule):
        make_edge("edge", subnet, CACHE)


@pytest.mark.parametrize(
    ("extra", "rule"),
    [
        ("rocket", "is not MODEL=NAME:HOST"),
        ("rocket=a", "is not MODEL=NAME:HOST"),
        ("rocket=a:x", "is not MODEL=NAME:HOST"),
        ("rocket=A:21", "no host name"),
        ("rocket=a_b:21", "no host name"),
        ("rocket=a:1", "2 to 254"),
        ("rocket=a:255", "2 to 254"),
        ("rocket=rk3588-node-01:21", "rk3588-node-01 already has"),
        ("rocket=a:12", "rk3588-node-02 already has"),
    ],
)
def test_a_bad_further_board_is_refused(extra: str, rule: str) -> None:
    with pytest.raises(RefusedError, match=rule):
        make_edge("edge", "198.51.100.0/24", CACHE, [extra])


def test_the_cache_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKNPU_CACHE", "/srv/cache")
    assert find_cache() == Path("/srv/cache")
    monkeypatch.setenv("ROCKNPU_CACHE", "")
    monkeypatch.setenv("HOME", "/home/someone")
    assert find_cache() == Path("/home/someone/.cache/rocknpu")


def test_too_little_memory_is_told_with_both_numbers() -> None:
    assert find_memory_problem("MemTotal: 8 kB\nMemAvailable: 2097152 kB\n") is None
    problem = find_memory_problem("MemTotal: 8 kB\nMemAvailable: 1048576 kB\n")
    assert problem is not None
    assert problem.startswith("1.0 GiB of memory are available and the two boards need 2")
