"""Runs task files of the roles with ansible-playbook on this machine, on files of the test."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="the tasks give files to root, which only root can do"
)


@dataclass
class Result:
    """Outcome of one run of ansible-playbook."""

    code: int
    output: str

    @property
    def changed(self) -> int:
        """Number of tasks that changed something, over all hosts."""
        return sum(int(number) for number in re.findall(r"changed=(\d+)", self.output))

    def message(self, host: str = "board") -> str:
        """Why a host failed; empty if it did not."""
        found = re.search(rf"^fatal: \[{host}\]: .*?=> (?={{)", self.output, re.MULTILINE)
        if not found:
            return ""
        return json.JSONDecoder().raw_decode(self.output[found.end() :])[0]["msg"]


class Runner:
    """Runs task files of one role against this machine."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = {
            **os.environ,
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".build"),
            "ANSIBLE_CONFIG": str(directory / "ansible.cfg"),
            "ANSIBLE_INJECT_FACT_VARS": "false",
            "ANSIBLE_LOCAL_TEMP": str(directory / "tmp"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_PIPELINING": "1",
        }
        (directory / "ansible.cfg").write_text("")

    def run(
        self,
        role: str,
        *task_files: str,
        hosts: dict[str, dict[str, object]] | None = None,
        groups: dict[str, list[str]] | None = None,
        play: dict[str, object] | None = None,
        extra: dict[str, object] | None = None,
        then: list[dict[str, object]] | None = None,
        check: bool = False,
    ) -> Result:
        """Run ``task_files`` of ``role``.

        hosts: names with their variables in the inventory. groups: names with the hosts in them.
        play: keywords of the play. extra: variables that win over the role's own, such as registers
        and places. then: tasks after those of the role.
        """
        local = {
            "ansible_become": False,
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
        }
        inventory = {
            "all": {
                "hosts": {
                    name: {**local, **variables}
                    for name, variables in (hosts or {"board": {}}).items()
                }
            },
            **{name: {"hosts": dict.fromkeys(members)} for name, members in (groups or {}).items()},
        }
        tasks: list[dict[str, object]] = [
            {
                "ansible.builtin.include_role": {
                    "name": f"rocknpu.edge.{role}",
                    "tasks_from": name,
                    "public": True,
                }
            }
            for name in task_files
        ]
        # Handlers act on services of the machine, so the play ends before they run.
        tasks += [*(then or []), {"ansible.builtin.meta": "end_play"}]
        book = [{"hosts": "all", "gather_facts": False, **(play or {}), "tasks": tasks}]
        files = {"inventory": inventory, "play": book, "extra": extra or {}}
        for name, content in files.items():
            (self.directory / f"{name}.json").write_text(json.dumps(content))
        command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "inventory.json"]
        command += ["-e", "@extra.json", "play.json"]
        command += ["--check"] if check else []
        process = subprocess.run(
            command,
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Result(process.returncode, process.stdout)


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    """A runner whose files lie in a directory of their own."""
    directory = tmp_path / "run"
    directory.mkdir()
    return Runner(directory)


def write_program(path: Path, text: str) -> Path:
    """Write a program and make it executable."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path
