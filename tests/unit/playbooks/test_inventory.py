"""What the playbooks say of inventories that are not what was meant."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CLUSTER = "k3s_cluster:\n  hosts:\n    board-01:\n    board-02:\n"


def run(playbook: str, inventory: Path) -> tuple[int, str]:
    """Return the exit code, and the output without the breaks that it has in long sentences."""
    process = subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", "-i", str(inventory), playbook],
        cwd=inventory.parent,
        env={
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".build"),
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "yaml",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    return process.returncode, " ".join((process.stdout + process.stderr).split())


@pytest.mark.parametrize("playbook", ["site", "verify", "upgrade", "reset"])
def test_an_inventory_without_hosts_is_no_success(tmp_path, playbook):
    (tmp_path / "hosts.yml").write_text("all:\n  hosts:\n    somebody:\n")
    code, output = run(f"rocknpu.edge.{playbook}", tmp_path / "hosts.yml")
    assert code != 0
    assert "No host is in the groups k3s_cluster and k3s_server of the inventory" in output
    assert f"({tmp_path / 'hosts.yml'}): name the right one" in output


@pytest.mark.parametrize("source", ["", "hosts.yml"], ids=["directory", "file"])
def test_variables_for_no_host_are_named(tmp_path, source):
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "hosts.yml").write_text(CLUSTER)
    for name in ("board-01.yml", "board-03.yml", "board-4.yaml"):
        (tmp_path / "host_vars" / name).write_text("device_plugin_shares: 1\n")
    code, output = run("rocknpu.edge.inventory", tmp_path / source)
    assert code == 0
    assert "host_vars/board-03.yml, " in output
    assert "host_vars/board-4.yaml: no host of the inventory has this name" in output
    assert "board-01.yml" not in output


@pytest.mark.parametrize("playbook", ["site", "verify", "upgrade"])
def test_variables_are_checked_before_anybody_is_asked(tmp_path, playbook):
    hosts = CLUSTER.replace("    board-01:\n", "    board-01:\n      device_plugin_shares: two\n")
    (tmp_path / "hosts.yml").write_text(hosts)
    code, output = run(f"rocknpu.edge.{playbook}", tmp_path / "hosts.yml")
    assert code != 0
    assert "board-01: device_plugin_shares" in output
    assert "UNREACHABLE" not in output


def test_verify_shows_boards_that_fail(tmp_path):
    board = {"usable": True, "npu": {"soc": "rk3588", "default_shares": 2}}
    hosts = {
        "k3s_cluster": {
            "children": {
                "k3s_server": {"hosts": {"board-01": {}}},
                "k3s_agent": {"hosts": {"board-02": {}}},
            },
            "vars": {
                "k3s_kubeconfig": str(tmp_path / "none"),
                # As the role npu has read it.
                "__npu_board": board,
            },
        }
    }
    (tmp_path / "hosts.yml").write_text(json.dumps(hosts))
    code, output = run("rocknpu.edge.verify", tmp_path / "hosts.yml")
    assert code != 0
    assert f"{tmp_path / 'none'}" in output
    assert "board-01 RK3588 - - - - board-02 RK3588 - - - -" in output
