"""What preflight says of hosts that cannot run k3s, together with what it says of their NPU."""

from __future__ import annotations

from pathlib import Path

from unit.board.golden import lay_out
from unit.k3s_host.test_hosts import HOSTS

from .conftest import Runner


def test_all_problems_of_a_node_are_told_at_once(runner: Runner, tmp_path: Path) -> None:
    """A board without driver, bridge filter, route and release; and one that is no node."""
    root = lay_out("rk3588-without-option", tmp_path / "board").root
    lay_out("rock-5b-without-br-netfilter", root, HOSTS)
    board = {"board_root": str(root)}
    result = runner.run(
        "preflight",
        "npu.yml",
        "k3s.yml",
        "host.yml",
        hosts={"node": board, "other": board},
        groups={"k3s_agent": ["node"]},
        play={
            "module_defaults": {
                "rocknpu.edge.npu_info": {"root": "{{ board_root }}"},
                "rocknpu.edge.k3s_host_info": {"root": "{{ board_root }}"},
            }
        },
        # This machine need not run systemd.
        extra={
            "_preflight_rules": [],
            "_k3s_download_tries": 1,
            "k3s_mirror_url": "http://127.0.0.1:9",
            "k3s_token": "0123456789abcdef",
            "k3s_reboot": False,
        },
    )
    driver = "The RKNPU driver is not in kernel"
    route = "The host has no default route"
    assert driver in result.message("node")
    assert route in result.message("node")
    assert driver in result.message("other")
    assert route not in result.message("other")
    assert "has no br_netfilter, neither built in nor as a module" in result.message("node")
    assert "cannot be had from http://127.0.0.1:9/" in result.message("node")
    assert result.changed == 0
