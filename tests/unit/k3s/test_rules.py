"""Each rule of the role: one board that breaks it, and the sentence that says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from unit.k3s.harness import READING, VERSION, Edge, Outcome, fake_k3s, make_release

SECRET = "a token with spaces 4711"
HASH = "0f" * 32

# Board -> its variables, part of the sentence (None: no rule is broken). The rules themselves have
# their tests in tests/unit/filter.
INVENTORY: dict[str, tuple[dict[str, object], str | None]] = {
    "plain": ({}, None),
    "full-token": ({"k3s_token": f"K10{HASH}::server:0123abcd"}, None),
    "words": ({"k3s_reboot": "yes", "k3s_ready_timeout": "300"}, None),
    "no-token": ({"k3s_token": ""}, "k3s_token is empty; take"),
    "spaced-token": ({"k3s_token": SECRET}, "k3s_token must be one word"),
    "under_score": ({}, "k3s_node_name must be a node name by RFC 1123: lower-case letters"),
    "registries": (
        {"k3s_registries": {"auths": {"registry.example": {"password": SECRET}}}},
        "k3s_registries must be a dictionary with the keys mirrors and configs",
    ),
    "proxy": ({"k3s_proxy": f"socks5://u:{HASH}@x"}, "k3s_proxy must be an address that begins"),
    "two": ({"k3s_version": "x", "k3s_checksum": "y"}, "k3s_checksum must be"),
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
    assert "k3s_version must be the full name of a release" in inventory.messages["two"]


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


def test_problems_stop_and_hints_do_not(edge: Edge) -> None:
    hints = ["The host swaps to /dev/zram0."]
    edge.add("server", "k3s_server", __k3s_host={**READING, "hints": hints})
    problems = ["The host has no default route.", "Its clock is wrong."]
    edge.add("agent", "k3s_agent", __k3s_host={**READING, "hints": hints, "problems": problems})
    outcome = edge.run("hint", "hint", "admit")
    assert outcome.messages == {"agent": " ".join(problems)}
    # Once for each host, although two ask.
    assert outcome.output.count(hints[0]) == 2


def test_what_is_on_the_host_is_seen(edge: Edge, tmp_path: Path) -> None:
    board = edge.add("server", "k3s_server", k3s_airgap_dir=str(make_release(tmp_path / "release")))
    (board / "bin" / "k3s").write_text(fake_k3s("v1.38.0+k3s1"), encoding="utf-8")
    (board / "bin" / "k3s").chmod(0o755)
    (board / "units" / "k3s-agent.service").write_text("[Unit]\n", encoding="utf-8")
    message = edge.run("inspect", "admit").messages["server"]
    assert "k3s v1.38.0+k3s1 is installed" in message
    assert "is a k3s agent (it has that service)" in message
    assert "group k3s_agent" in message


def test_a_release_that_is_there_is_not_looked_for(edge: Edge) -> None:
    board = edge.add("server", "k3s_server")
    (board / "bin" / f"k3s-{VERSION}").write_text(fake_k3s(), encoding="utf-8")
    edge.add("bare", "k3s_agent")
    messages = edge.run("inspect", "admit", extra={"_k3s_download_tries": 1}).messages
    assert "cannot be had from" in messages["bare"]
    assert "cannot be had from" not in messages.get("server", "")
