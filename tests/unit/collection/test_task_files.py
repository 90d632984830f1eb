"""Task files of the roles are the roles' own, wherever ansible-playbook is started.

Ansible takes an import in a file that was itself imported or included from `tasks/` of the working
directory, if there is a file of that name: such files have to include instead.
https://docs.ansible.com/ansible/latest/playbook_guide/playbook_pathing.html
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
PLAYBOOKS = sorted(f"rocknpu.edge.{path.stem}" for path in (ROOT / "playbooks").glob("*.yml"))


def test_playbooks_do_not_read_the_directory_that_they_are_started_in(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    for path in ROOT.glob("roles/*/tasks/*.yml"):
        (tmp_path / "tasks" / path.name).write_text("- name: STRANGER\n  ansible.builtin.fail:\n")
    (tmp_path / "hosts").write_text("[k3s_server]\nboard\n[k3s_cluster:children]\nk3s_server\n")
    (tmp_path / "roles.yml").write_text(
        "- name: Roles\n  hosts: all\n  roles:\n"
        + "".join(f"    - rocknpu.edge.{path.name}\n" for path in (ROOT / "roles").iterdir())
    )
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts", "--list-tasks"]
    listed = subprocess.run(
        [*command, "roles.yml", *PLAYBOOKS],
        cwd=tmp_path,
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".build")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert listed.returncode == 0, listed.stderr
    assert "rocknpu.edge.k3s : " in listed.stdout
    assert "STRANGER" not in listed.stdout


def calls(tasks: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """How task files are called, and which."""
    for task in tasks:
        for part in ("block", "rescue", "always"):
            yield from calls(task.get(part, []))
        for word in ("import_tasks", "include_tasks"):
            called = task.get(f"ansible.builtin.{word}")
            if called:
                yield word, called if isinstance(called, str) else called["file"]


@pytest.mark.parametrize("role", sorted(path.name for path in (ROOT / "roles").iterdir()))
def test_only_files_that_no_other_calls_import(role: str) -> None:
    """Ansible lists no tasks of what is included, so this reads them."""
    directory = ROOT / "roles" / role
    files = [*directory.glob("tasks/*.yml"), *directory.glob("handlers/*.yml")]
    found = {path: list(calls(yaml.safe_load(path.read_text()))) for path in files}
    called = {name for all_calls in found.values() for _, name in all_calls}
    assert called <= {path.name for path in files}
    wrong = [
        path.name
        for path, all_calls in found.items()
        if path.name in called and "import_tasks" in dict(all_calls)
    ]
    assert wrong == []
