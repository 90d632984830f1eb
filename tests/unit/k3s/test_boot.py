"""Kernel arguments: the module on boot files of many images, and what the role does with it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from unit.boot.images import ADDED, IMAGES, OFF, ON, UNKNOWN, lay_out
from unit.k3s.harness import READING, Edge

# One image of each way to boot, those whose files are hard to leave as they are, and one that is
# refused. For the others tests/unit/boot compares the bytes; running the module takes its time.
SOME = [
    *("armbian-crlf", "armbian-missing-key-and-end", "armbian-value-twice", "orangepi"),
    *("turing-rk1", "extlinux", "radxa", "u-boot-menu", "pi-no-final-newline", "grub"),
]
REFUSED = "grub-unclear"
UNKNOWN_NAME = "cmdline-on-rockchip"

PLAY = """
- name: Edit the kernel arguments of some images
  hosts: boards
  gather_facts: false
  module_defaults:
    rocknpu.edge.boot_arguments:
      present: "{{ present }}"
      absent: "{{ absent }}"
      root: "{{ board }}/{{ item }}"
  tasks:
    - name: Edit
      rocknpu.edge.boot_arguments:
      diff: true
      loop: "{{ some }}"
      register: edited
      ignore_errors: true
    - name: Edit again
      rocknpu.edge.boot_arguments:
        backup: true
      loop: "{{ some }}"
      register: again
      ignore_errors: true
    - name: Tell what came of it
      ansible.builtin.copy:
        content: "{{ {'edited': edited.results, 'again': again.results} | to_json }}"
        dest: "{{ board }}.results"
        mode: "0600"
"""


def files_below(root: Path) -> dict[str, bytes]:
    """All files, by their paths there."""
    return {
        f"/{path.relative_to(root)}": path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory, collections: Path) -> Path:
    """The directory with all images after both tasks."""
    edge = Edge(tmp_path_factory.mktemp("images"), collections)
    board = edge.add("board")
    for name in [*SOME, REFUSED]:
        IMAGES[name].lay_out(board / name)
    (board / UNKNOWN_NAME).mkdir()
    lay_out(UNKNOWN[UNKNOWN_NAME], board / UNKNOWN_NAME)
    edge.play(PLAY, {"present": ON, "absent": OFF, "some": [*SOME, REFUSED, UNKNOWN_NAME]})
    return board


def result(board: Path, task: str, name: str) -> dict[str, Any]:
    """What the module returned for an image."""
    results = json.loads(Path(f"{board}.results").read_text(encoding="utf-8"))
    return next(each for each in results[task] if each["item"] == name)


@pytest.mark.parametrize("name", SOME)
def test_image(board: Path, name: str) -> None:
    """Every file is compared, so that none that the boot loader does not read has changed."""
    image = IMAGES[name]
    assert files_below(board / name) == image.files(after=True)
    edited = result(board, "edited", name)
    assert not edited.get("failed"), edited
    assert edited["changed"] == (image.before != image.expected)
    assert (edited["kind"], edited["path"]) == (image.kind, image.path)
    assert (edited["running"], edited["due"]) == (False, True)
    if edited["changed"]:
        assert edited["diff"]["before"].encode() == image.before
        assert edited["diff"]["after"].encode() == image.expected
    again = result(board, "again", name)
    assert again["changed"] is False
    assert "backup_file" not in again
    # What the boot loader's command has not done is still owed.
    assert edited["command"] == again["command"] == image.command


def test_file_that_is_not_understood(board: Path) -> None:
    edited = result(board, "edited", REFUSED)
    assert edited["failed"]
    assert edited["msg"].startswith(IMAGES[REFUSED].unclear)
    assert files_below(board / REFUSED) == IMAGES[REFUSED].files()


def test_image_that_is_not_known(board: Path) -> None:
    edited = result(board, "edited", UNKNOWN_NAME)
    assert edited["failed"]
    assert "set them by hand (cgroup_enable=memory cgroup_memory=1) and reboot" in edited["msg"]
    assert files_below(board / UNKNOWN_NAME) == UNKNOWN[UNKNOWN_NAME]


OWED = {
    **READING,
    "owed": {
        "names": ["the memory cgroup", "the cpuset cgroup"],
        "present": ON,
        "absent": OFF,
        "running": False,
    },
}
RADXA = IMAGES["radxa"]
U_BOOT_UPDATE = """#!/bin/sh
cd "$BOARD/root"
printf '# u-boot-update\\nappend %s\\n' "$(cat etc/kernel/cmdline)" >boot/extlinux/extlinux.conf
"""


def test_role(edge: Edge) -> None:
    """One run in check mode, one for real, and one after it that finds the reboot still due."""
    boards = {
        name: edge.add(name, "k3s_agent", __k3s_host=OWED, k3s_reboot=reboot)
        for name, reboot in {
            "armbian": False,
            "radxa": False,
            "stubborn": False,
            "pi": True,
        }.items()
    }
    IMAGES["armbian"].lay_out(boards["armbian"] / "root")
    IMAGES["pi"].lay_out(boards["pi"] / "root")
    # It has started with what the file holds since, and does not run with it.
    boards["deaf"] = edge.add("deaf", "k3s_agent", __k3s_host=OWED, k3s_reboot=True)
    root = boards["deaf"] / "root"
    edge.hosts["deaf"]["host_root"] = str(root)
    lay_out({**IMAGES["armbian"].files(after=True), "/proc/stat": b"btime 99999999999\n"}, root)
    for name, program in {"radxa": U_BOOT_UPDATE, "stubborn": "#!/bin/sh\n"}.items():
        RADXA.lay_out(boards[name] / "root")
        (boards[name] / "fake" / "u-boot-update").write_text(program)
        (boards[name] / "fake" / "u-boot-update").chmod(0o755)

    before = {name: files_below(board) for name, board in boards.items()}
    checked = edge.run("boot", arguments=["--check", "--diff"])
    assert checked.messages == {}
    assert {name: files_below(board) for name, board in boards.items()} == before
    assert "+extraargs=cma=256M cgroup_enable=memory cgroup_memory=1" in checked.output

    first = edge.run("boot")
    assert first.messages["armbian"] == (
        "armbian has to be rebooted: its kernel runs without the memory cgroup and the cpuset "
        "cgroup, and /boot/armbianEnv.txt now holds cgroup_enable=memory cgroup_memory=1. "
        "Reboot it and run again, or set k3s_reboot to true."
    )
    assert first.messages["radxa"].startswith("radxa has to be rebooted: its kernel runs without")
    assert first.messages["stubborn"].startswith(
        "u-boot-update on stubborn did not take cgroup_enable=memory cgroup_memory=1 from "
        "/etc/kernel/cmdline"
    )
    assert first.messages["deaf"].startswith(
        "deaf was rebooted and its kernel still runs without the memory cgroup and the cpuset "
        "cgroup. It was not started with cgroup_enable=memory cgroup_memory=1"
    )
    # The copy for whoever has to repair the card by hand.
    (copy,) = (boards["armbian"] / "root/boot").glob("armbianEnv.txt.*~")
    assert copy.read_bytes() == IMAGES["armbian"].before
    assert ADDED.decode() in (boards["radxa"] / "root/boot/extlinux/extlinux.conf").read_text()
    assert (boards["pi"] / "root" / IMAGES["pi"].path[1:]).read_bytes() == IMAGES["pi"].expected
    # The board that may be rebooted would be, once; it is this machine, which Ansible refuses.
    refused = r"^fatal: \[(.+?)\].*would reboot the control node"
    assert re.findall(refused, first.output, re.M) == ["pi"]

    second = edge.run("boot", arguments=["--limit", "armbian,pi"])
    assert second.messages["armbian"] == first.messages["armbian"]
    assert re.findall(refused, second.output, re.M) == ["pi"]
    assert len([*(boards["armbian"] / "root/boot").glob("armbianEnv.txt.*~")]) == 1
