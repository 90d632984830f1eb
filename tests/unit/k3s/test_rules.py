"""Each rule of the role: one board that breaks it, and the sentence that says so."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from unit.k3s.harness import Edge, Outcome, fake_k3s

SECRET = "a token with spaces 4711"
HASH = "0f" * 32

# Board -> its variables, part of the sentence (None: no rule is broken).
INVENTORY: dict[str, tuple[dict[str, object], str | None]] = {
    "plain": ({}, None),
    "full-token": ({"k3s_token": f"K10{HASH}::server:0123abcd"}, None),
    "bootstrap-token": ({"k3s_token": "abcdef.0123456789abcdef"}, None),
    "full-bootstrap": ({"k3s_token": f"K10{HASH}::abcdef.0123456789abcdef"}, None),
    "candidate": ({"k3s_version": "v1.38.0-rc2+k3s1"}, None),
    "ipv6": ({"k3s_server_url": "https://[2001:db8::1]:6443"}, None),
    "options": ({"k3s_config": {"node-label": ["a=b"]}, "k3s_config_host": {"debug": True}}, None),
    "no-token": ({"k3s_token": ""}, "k3s_token is missing"),
    "number-token": ({"k3s_token": 471147114711}, "k3s_token is missing (or no text)"),
    "null-token": ({"k3s_token": None}, "k3s_token is missing"),
    "spaced-token": ({"k3s_token": SECRET}, "k3s_token holds a space"),
    "cut-token": ({"k3s_token": f"K10{HASH[:-9]}::server:4711"}, "it may be cut short"),
    "cut-end": ({"k3s_token": f"K10{HASH}"}, "it may be cut short"),
    "short-version": ({"k3s_version": "v1.37"}, 'k3s_version is "v1.37"'),
    "no-build": ({"k3s_version": "v1.37.1"}, "such as v1.37.1+k3s1"),
    "no-v": ({"k3s_version": "1.37.1+k3s1"}, 'k3s_version is "1.37.1+k3s1"'),
    "http-server": ({"k3s_server_url": "http://192.0.2.1:6443"}, "must be https://ADDRESS:PORT"),
    "path-server": ({"k3s_server_url": "https://192.0.2.1:6443/x"}, "without a path"),
    "checksum": ({"k3s_checksum": "abc"}, "k3s_checksum must be a SHA-256"),
    "release": ({"k3s_release_url": "/srv/k3s"}, "set k3s_airgap_dir"),
    "owned": (
        {"k3s_config_agent": {"token": SECRET, "server": "https://x:6443"}},
        "must not set token, server: set k3s_token, k3s_server_url instead",
    ),
    "dashes": ({"k3s_config_host": {"--debug": True}}, "without the leading dashes: --debug"),
    "mode": ({"k3s_config": {"write-kubeconfig-mode": 0o640}}, "must be quoted"),
    "two": ({"k3s_version": "x", "k3s_checksum": "y"}, "k3s_checksum must be"),
}

# Board -> machine, init, installed version, unit of a server that is there; part of the sentence.
HOST: dict[str, tuple[dict[str, str], str | None]] = {
    "fresh": ({}, None),
    "arm64": ({"machine": "aarch64"}, None),
    "armhf": ({"machine": "armv7l"}, None),
    "same": ({"installed": "v1.37.2+k3s1"}, None),
    "older": ({"installed": "v1.9.12+k3s7"}, None),
    "older-build": ({"installed": "v1.37.2+k3s0"}, None),
    "candidate": ({"installed": "v1.37.2-rc1+k3s1"}, None),
    "other-kind": ({"installed": "v1.37.2+standin9"}, None),
    "mips": ({"machine": "mips64"}, "no release for the architecture mips64, only for x86_64"),
    "openrc": ({"init": "openrc"}, "runs openrc; this role needs systemd"),
    "newer": ({"installed": "v1.37.10+k3s1"}, "v1.37.10+k3s1 is installed"),
    "newer-minor": (
        {"installed": "v1.38.0+standin10"},
        "k3s v1.38.0+standin10 is installed",
    ),
    "newer-build": ({"installed": "v1.37.2+k3s10"}, "set k3s_version to v1.37.2+k3s10 or newer"),
    "was-server": ({"unit": "k3s"}, "is a k3s server"),
}


@pytest.fixture(scope="module")
def inventory(new_edge: Callable[[str], Edge]) -> Outcome:
    edge = new_edge("inventory")
    edge.add("server", "k3s_server")
    for name, (variables, _) in INVENTORY.items():
        edge.add(name, "k3s_agent", **variables)
    return edge.run("validate", arguments=["-vvv"])


@pytest.mark.parametrize("name", INVENTORY)
def test_inventory_rule(inventory: Outcome, name: str) -> None:
    sentence = INVENTORY[name][1]
    if sentence is None:
        assert name not in inventory.messages
    else:
        assert sentence in inventory.messages[name]


def test_every_broken_rule_is_told_at_once(inventory: Outcome) -> None:
    assert inventory.messages["two"].startswith('k3s_version is "x" and must be')


def test_no_secret_is_told(inventory: Outcome) -> None:
    for secret in (SECRET, HASH[:20], "4711471147"):
        assert secret not in inventory.output


def test_groups(edge: Edge) -> None:
    edge.add("both", "k3s_server", "k3s_agent")
    edge.add("second", "k3s_server")
    external = {"datastore-endpoint": "postgres://192.0.2.9/k3s"}
    edge.add("external", "k3s_server", k3s_config_server=external)
    edge.add("full", "k3s_server", k3s_token=f"K10{HASH}::server:0123abcd")
    edge.add("neither")
    edge.add("agent", "k3s_agent")
    outcome = edge.run("validate")
    assert "both must be in exactly one of the groups" in outcome.messages["both"]
    assert "neither must be in exactly one of the groups" in outcome.messages["neither"]
    assert "k3s_server has 4 hosts: embedded etcd" in outcome.messages["second"]
    assert "external" not in outcome.messages
    assert "agent" not in outcome.messages
    assert "must be the short form" in outcome.messages["full"]
    assert "short form" not in outcome.messages["second"]


def test_no_server(edge: Edge) -> None:
    edge.add("agent", "k3s_agent")
    outcome = edge.run("validate")
    assert "k3s_server has no host" in outcome.messages["agent"]


@pytest.fixture(scope="module")
def hosts(new_edge: Callable[[str], Edge]) -> Outcome:
    edge = new_edge("hosts")
    for name, (seen, _) in HOST.items():
        version = seen.get("installed")
        edge.add(
            name,
            "k3s_agent",
            k3s_version="v1.37.2+k3s1",
            machine=seen.get("machine", "x86_64"),
            init=seen.get("init", "systemd"),
            __k3s_version={"stdout": f"k3s version {version} (0123abcd)\ngo version go1.26.0"}
            if version
            else {"msg": "Exec format error"},
            __k3s_other_unit={"stat": {"exists": "unit" in seen}},
        )
    return edge.run("admit")


@pytest.mark.parametrize("name", HOST)
def test_host_rule(hosts: Outcome, name: str) -> None:
    sentence = HOST[name][1]
    if sentence is None:
        assert name not in hosts.messages
    else:
        assert sentence in hosts.messages[name]


def test_what_is_on_the_host_is_seen(edge: Edge) -> None:
    board = edge.add("server", "k3s_server")
    (board / "bin" / "k3s").write_text(fake_k3s("v1.38.0+k3s1"), encoding="utf-8")
    (board / "bin" / "k3s").chmod(0o755)
    unit = board / "units" / "k3s-agent.service"
    unit.write_text("[Unit]\n", encoding="utf-8")
    message = edge.run("inspect", "admit").messages["server"]
    assert "k3s v1.38.0+k3s1 is installed" in message
    assert f"is a k3s agent ({unit} exists)" in message
    assert "group k3s_agent" in message
