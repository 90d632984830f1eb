"""Runs the role k3s for real against directories that stand for boards; no root, no containers."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
VERSION = "v1.37.2+standin1"
TOKEN = "5c9f0d-the-secret-of-this-cluster-7e21"

PLAY = """
- name: Run a part of the role on every board
  hosts: boards
  gather_facts: false
  environment:
    PATH: "{{ board }}/fake:{{ lookup('ansible.builtin.env', 'PATH') }}"
    BOARD: "{{ board }}"
  vars:
    ansible_facts: {service_mgr: systemd}
  module_defaults:
    rocknpu.edge.boot_arguments: {root: "{{ board }}/root"}
    rocknpu.edge.k3s_host_info: {root: "{{ host_root | default('/') }}"}
  tasks:
    - name: Run, and tell the message of a failure
      block:
        - name: Run
          ansible.builtin.include_role:
            name: rocknpu.edge.k3s
            tasks_from: "{{ item }}"
            public: true
          loop: "{{ parts }}"
      rescue:
        - name: Tell the message
          ansible.builtin.debug:
            msg: "@{{ ansible_failed_result.msg | b64encode }}@"
    - name: Tell a variable of the role
      ansible.builtin.debug:
        msg: "={{ lookup('ansible.builtin.vars', wanted) | to_json | b64encode }}="
      when: wanted is defined
"""

PLACES = {
    "_k3s_bin_dir": "{{ board }}/bin",
    "_k3s_config_dir": "{{ board }}/etc",
    "_k3s_unit_dir": "{{ board }}/units",
    "_k3s_invocation": "{{ board }}/invocation",
    "_k3s_reach_patience": 0,
}

# What the module k3s_host_info returns of a board that lacks nothing, as far as the role looks.
READING: dict[str, Any] = {
    "problems": [],
    "hints": [],
    "owed": {"names": [], "present": [], "absent": [], "running": True},
    "machine": "x86_64",
    "k3s_version": None,
    "wrong_iptables": False,
    "addresses": [
        {"interface": "end0", "address": "192.0.2.99", "network": "192.0.2.0/24"},
        {"interface": "wlan0", "address": "198.51.100.9", "network": "198.51.100.0/24"},
    ],
    "image_archives": [],
    "files": dict.fromkeys(
        (
            "binary",
            "other_unit",
            "unit",
            "founded",
            "member",
            "joined",
            "registries",
            "environment",
            "kubelet",
        ),
        "absent",
    ),
}


def as_root() -> list[str]:
    """Prefix of a command that has to own files as root: none for root, else a user namespace."""
    if os.geteuid() == 0:
        return []
    prefix = ["unshare", "--user", "--map-root-user"]
    if shutil.which("unshare") and subprocess.run([*prefix, "true"], check=False).returncode == 0:
        return prefix
    pytest.skip("needs root or user namespaces (kernel.unprivileged_userns_clone=1)")


def fake_k3s(version: str = VERSION) -> str:
    """A program that answers like k3s where the role asks."""
    text = (HERE / "files" / "k3s").read_text(encoding="utf-8")
    return text.replace("@VERSION@", version)


def make_release(directory: Path, version: str = VERSION) -> Path:
    """The files of one release, as the release address or the control node offers them."""
    directory.mkdir(parents=True)
    (directory / "k3s").write_text(fake_k3s(version), encoding="utf-8")
    (directory / "k3s-airgap-images-amd64.tar.gz").write_bytes(b"images of " + version.encode())
    # A second architecture, which must not be taken for the first.
    (directory / "k3s-arm64").write_bytes(b"\x7fELF for another machine")
    (directory / "k3s-airgap-images-arm64.tar.gz").write_bytes(b"images for another machine")
    for arch, names in {
        "amd64": ("k3s", "k3s-airgap-images-amd64.tar.gz"),
        "arm64": ("k3s-arm64", "k3s-airgap-images-arm64.tar.gz"),
    }.items():
        lines = [
            f"{hashlib.sha256((directory / name).read_bytes()).hexdigest()}  {name}\n"
            for name in reversed(names)
        ]
        (directory / f"sha256sum-{arch}.txt").write_text("".join(lines), encoding="utf-8")
    return directory


@dataclass
class Outcome:
    """What one run of the playbook did."""

    output: str
    messages: dict[str, str]

    def changed(self, host: str) -> int:
        """Number of tasks that changed something on the host."""
        match = re.search(rf"^{re.escape(host)} .*changed=(\d+)", self.output, re.MULTILINE)
        assert match, self.output
        return int(match.group(1))


class Edge:
    """A set of boards, each a directory, and the playbook runs on them."""

    def __init__(self, path: Path, collections: Path) -> None:
        self.path = path
        self.collections = collections
        self.hosts: dict[str, dict[str, Any]] = {}
        self.groups: dict[str, set[str]] = {"k3s_server": set(), "k3s_agent": set()}

    def add(self, name: str, *groups: str, **variables: Any) -> Path:
        """A new board of these groups; returns its directory."""
        board = self.path / name
        (board / "bin").mkdir(parents=True)
        (board / "units").mkdir()
        (board / "fake").mkdir()
        for program in ("systemctl", "journalctl"):
            shutil.copy2(HERE / "files" / program, board / "fake" / program)
        self.hosts[name] = {
            "board": str(board),
            "ansible_connection": "local",
            # The system's own starts faster than most others.
            "ansible_python_interpreter": shutil.which("python3", path="/usr/bin")
            or sys.executable,
            "k3s_version": VERSION,
            "k3s_token": TOKEN,
            # Nobody answers there; no test is to ask the internet.
            "k3s_mirror_url": "http://127.0.0.1:9",
            "k3s_ready_timeout": 3,
            "ansible_become": False,
            # A part that reads the board itself replaces this.
            "__k3s_host": READING,
            "k3s_kubeconfig": str(board / "control" / "kube.yaml"),
            **variables,
        }
        for group in groups:
            self.groups[group].add(name)
        return board

    def run(
        self,
        *parts: str,
        arguments: Sequence[str] = (),
        extra: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """Run parts of the role (task files) on all boards."""
        variables = {**PLACES, "parts": parts or ("main",), **(extra or {})}
        output = self.play(PLAY, variables, arguments)
        messages = {
            host: base64.b64decode(text).decode()
            for host, text in re.findall(r'ok: \[(.+?)\] => {\s+"msg": "@(.*)@"', output)
        }
        return Outcome(output, messages)

    def value(self, name: str, extra: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """A variable of the role, as each board sees it."""
        outcome = self.run("validate", extra={"wanted": name, **(extra or {})})
        found = re.findall(r'ok: \[(.+?)\] => {\s+"msg": "=(.*)="', outcome.output)
        return {host: json.loads(base64.b64decode(text)) for host, text in found}

    def play(
        self,
        play: str,
        variables: Mapping[str, Any],
        arguments: Sequence[str] = (),
    ) -> str:
        """Run a play with these extra variables; returns what it displayed."""
        inventory = {
            "boards": {"hosts": self.hosts},
            **{
                group: {"hosts": {name: {} for name in sorted(names)}}
                for group, names in self.groups.items()
                if names
            },
        }
        (self.path / "inventory.json").write_text(json.dumps(inventory), encoding="utf-8")
        (self.path / "play.yml").write_text(play, encoding="utf-8")
        (self.path / "ansible.cfg").write_text("[defaults]\n", encoding="utf-8")
        (self.path / "extra.json").write_text(json.dumps(variables), encoding="utf-8")
        program = shutil.which("ansible-playbook", path=str(Path(sys.executable).parent))
        command = [
            *as_root(),
            program or "ansible-playbook",
            *("-i", str(self.path / "inventory.json"), "-e", f"@{self.path / 'extra.json'}"),
            *arguments,
            str(self.path / "play.yml"),
        ]
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(self.path / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(self.collections),
            "ANSIBLE_FORKS": "4",
            "ANSIBLE_INJECT_FACT_VARS": "false",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_PIPELINING": "true",
            "ANSIBLE_HOME": str(self.path / "ansible"),
        }
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=self.path, env=environment
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    @staticmethod
    def load(path: Path) -> Any:
        """The content of a YAML file."""
        return yaml.safe_load(path.read_text(encoding="utf-8"))
