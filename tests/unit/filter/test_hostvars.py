"""The filter on ansible-core's own hostvars, which resolve templates when they are read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import VaultLib, VaultSecret
from ansible.plugins.loader import init_plugin_loader
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager
from ansible_collections.rocknpu.edge.plugins.filter.inventory_problems import inventory_problems
from unit.filter.conftest import ROLES, load_specs

ROOT = ROLES.parent
VAULT_PASSWORD = "correct horse"

GROUP_VARS = """
# Known only when facts are there, and in a task.
k3s_server_url: "https://{{ hostvars[groups['k3s_server'][0]].k3s_node_ip }}:6443"
k3s_node_ip: "{{ board_ip }}"
board_ip: "{{ ansible_facts['default_ipv4']['address'] }}"
k3s_kubeconfig: "{{ k3s_airgap_dir }}/kubeconfig"
k3s_mirror_url: "http://{{ hostvars['s'].inventory_hostname }}/k3s"
device_plugin_shares: "{{ 1 + 1 }}"
"""


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """A sound inventory of a server "s" and an agent "a"."""
    directory = tmp_path / "inventory"
    (directory / "group_vars").mkdir(parents=True)
    (directory / "host_vars").mkdir()
    groups = {"k3s_server": {"hosts": {"s": None}}, "k3s_agent": {"hosts": {"a": None}}}
    hosts = {"k3s_cluster": {"children": groups}}
    (directory / "hosts.yml").write_text(yaml.safe_dump(hosts))
    (directory / "group_vars" / "k3s_cluster.yml").write_text(GROUP_VARS)
    (directory / "group_vars" / "all.yml").write_text("k3s_token: 0123456789abcdef\n")
    return directory


@pytest.fixture(scope="module", autouse=True)
def _plugins() -> None:
    init_plugin_loader([str(ROOT / ".build")])


def find(inventory: Path, specs: dict[str, Any], hosts: tuple[str, ...] = ("s", "a")) -> list[str]:
    """Return the filter's answer on an inventory, read as ansible-playbook reads it."""
    loader = DataLoader()
    manager = InventoryManager(loader=loader, sources=[str(inventory)])
    variables = VariableManager(loader=loader, inventory=manager)
    return inventory_problems(HostVars(manager, variables, loader), list(hosts), specs)


def test_sound_inventory(inventory, specs):
    assert find(inventory, specs) == []


def test_example_inventory_lacks_nothing_but_a_token(specs):
    hosts = [path.stem for path in sorted((ROOT / "inventory/example/host_vars").glob("*.yml"))]
    (sentence,) = find(ROOT / "inventory/example", specs, hosts=tuple(hosts))
    assert len(hosts) >= 3
    assert sentence.startswith(f"{', '.join(hosts)}: k3s_token: is missing; set one")


def test_templates_that_cannot_be_resolved(inventory, specs):
    (inventory / "host_vars" / "a.yml").write_text(
        """
k3s_node_name: "{{ no_such_variable }}"
k3s_config_host: {kubelet-arg: ["{{ neither_this }}"]}
k3s_token: "{{ lookup('ansible.builtin.file', '/nonexistent/sekrit') }}"
device_plugin_shares: "{{ 'two' }}"
device_plugin_resource: "{{ 1 +"
npu_device_group: "{{ 1 / 0 }}"
"""
    )
    sentences = find(inventory, specs)
    starts = [
        'device_plugin_shares: must be a whole number from 1 to 100, not "two";',
        "device_plugin_resource: its template cannot be resolved: ",
        "k3s_config_host: its template cannot be resolved: ",
        "k3s_node_name: its template cannot be resolved: ",
        "k3s_token: its template cannot be resolved; define what it refers to",
        "npu_device_group: its template cannot be resolved: ",
    ]
    assert len(sentences) == len(starts)
    for start in starts:
        assert any(sentence.startswith(f"a: {start}") for sentence in sentences), start
    assert not any("sekrit" in sentence or "\n" in sentence for sentence in sentences)


def test_datastore_that_is_not_known_yet(inventory, specs):
    path = inventory / "hosts.yml"
    path.write_text(path.read_text().replace("s: null", "s: null\n        t: null"))
    (inventory / "group_vars" / "k3s_server.yml").write_text(
        "k3s_config_server: {datastore-endpoint: \"{{ ansible_facts['hostname'] }}\"}\n"
    )
    assert find(inventory, specs, hosts=("s", "t", "a")) == []


def test_limit(inventory, specs):
    (inventory / "host_vars" / "a.yml").write_text("k3s_node_name: s\n")
    (inventory / "host_vars" / "s.yml").write_text("device_plugin_shares: 0\n")
    (sentence,) = find(inventory, specs, hosts=("a",))
    assert 'must be unique in the cluster, but a, s all have "s"' in sentence


def test_ini_inventory(tmp_path, specs):
    inventory = tmp_path / "hosts.ini"
    inventory.write_text(
        "[k3s_server]\ns k3s_token=0123456789abcdef device_plugin_shares=2\n"
        "[k3s_agent]\na k3s_token=0123456789abcdef device_plugin_shares=two\n"
        "[k3s_cluster:children]\nk3s_server\nk3s_agent\n"
    )
    (sentence,) = find(inventory, specs)
    assert sentence.startswith("a: device_plugin_shares: must be a whole number from 1 to 100")


def encrypt(text: str) -> str:
    """Return text as a value that YAML reads from a vault."""
    vault = VaultLib([("default", VaultSecret(VAULT_PASSWORD.encode()))])
    lines = vault.encrypt(text, vault_id="default").decode().splitlines()
    return "!vault |\n" + "\n".join(f"  {line}" for line in lines) + "\n"


def test_vault_without_its_password(inventory, specs):
    (inventory / "group_vars" / "all.yml").write_text(
        f"""
k3s_token: {encrypt("sekrit")}
k3s_proxy: "http://{{{{ 'u:' ~ k3s_token }}}}@proxy"
"""
    )
    sentences = find(inventory, specs)
    for name, sentence in zip(("k3s_proxy", "k3s_token"), sentences, strict=True):
        assert sentence.startswith(f"s, a: {name}: is encrypted, and the password of its vault is")
        assert "ANSIBLE_VAULT_PASSWORD_FILE" in sentence
        assert "sekrit" not in sentence


def test_in_a_play(inventory):
    """One run of ansible-playbook, with a vault and with extra variables."""
    work = inventory.parent
    (work / "password").write_text(VAULT_PASSWORD)
    (inventory / "group_vars" / "all.yml").write_text(f"k3s_token: {encrypt('sekrit and spaces')}")
    for host, contexts in [("s", "2"), ("a", "two")]:
        path = inventory / "host_vars" / f"{host}.yml"
        path.write_text(f"device_plugin_max_contexts: {encrypt(contexts)}")
    (work / "specs.json").write_text(json.dumps(load_specs()))
    (work / "play.yml").write_text(
        """
- hosts: k3s_cluster
  gather_facts: false
  tasks:
    - ansible.builtin.debug:
        msg: >-
          {{ hostvars | rocknpu.edge.inventory_problems(hosts=ansible_play_hosts_all,
             specs=lookup('ansible.builtin.file', 'specs.json') | from_json) }}
      run_once: true
"""
    )
    command = [sys.executable, "-m", "ansible", "playbook", "-i", str(inventory), "play.yml"]
    options = ["--vault-password-file", "password", "--extra-vars", "device_plugin_shares=101"]
    process = subprocess.run(
        [*command, "-vvv", *options],
        cwd=work,
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".build")},
        capture_output=True,
        text=True,
        check=False,
    )
    output = process.stdout + process.stderr
    assert process.returncode == 0, output
    assert "a, s: device_plugin_shares: must be a whole number from 1 to 100, not" in output
    assert "a, s: k3s_token: must be one word of printable" in output
    assert "s: device_plugin_max_contexts" not in output
    assert (
        "a: device_plugin_max_contexts: must be a whole number from 1 to 2147483647, not" in output
    )
    assert "sekrit" not in output
