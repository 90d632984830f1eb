"""Task files of the roles are the roles' own, wherever ansible-playbook is started.

Ansible takes an import in a file that was itself imported or included from `tasks/` of the working
directory, if there is a file of that name: such files have to include instead.
https://docs.ansible.com/ansible/latest/playbook_guide/playbook_pathing.html
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
