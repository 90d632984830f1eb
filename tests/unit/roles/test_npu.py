"""The role npu: modules and permissions, on files of the test."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from unit.board.golden import lay_out

from .conftest import needs_root, write_program

pytestmark = needs_root

NO_UDEV = {"_npu_udev_socket": "/nonexistent/control"}


def make_node(path: Path, mode: int = 0o600) -> str:
    """A character device that behaves like /dev/null."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(path, stat.S_IFCHR, os.makedev(1, 3))
    path.chmod(mode)
    return str(path)


def board(nodes: list[str], heaps: list[str], module: str = "builtin") -> dict[str, object]:
    npu = {"nodes": nodes, "dma_heaps": heaps, "module": module, "driver": "rknpu"}
    return {"__npu_board": {"npu": npu, "usable": True, "problems": []}}


# What is in the inventory, and the mode and group that nodes get from it.
PERMISSIONS = {
    "default": ({}, 0o666, "root"),
    "strict": ({"npu_device_mode": "0660", "npu_device_group": "video"}, 0o660, "video"),
}


def test_permissions(runner, tmp_path):
    """Nodes that are there are opened where no udev runs, and the rule does it from then on."""
    hosts, nodes = {}, {}
    for host, (variables, _, _) in PERMISSIONS.items():
        dev = tmp_path / host / "dev"
        nodes[host] = [make_node(dev / "dri" / name, 0o640) for name in ("card1", "renderD129")]
        heaps = [make_node(dev / "dma_heap" / name) for name in ("system", "cma")]
        hosts[host] = {
            **variables,
            "found": board(nodes[host], heaps)["__npu_board"],
            "rules": str(tmp_path / host / "rules.d" / "99-zz-rknpu.rules"),
        }
        nodes[host] += heaps

    def run(*, check: bool = False):
        extra = {"__npu_board": "{{ found }}", **NO_UDEV}
        return runner.run(
            "npu",
            "look.yml",
            "permissions.yml",
            hosts=hosts,
            extra={**extra, "_npu_rules_file": "{{ rules }}"},
            check=check,
        )

    told = run(check=True)
    assert told.code == 0, told.output
    assert told.changed > 0
    assert not (tmp_path / "default" / "rules.d").exists()
    assert stat.S_IMODE(Path(nodes["default"][0]).stat().st_mode) == 0o640

    first = run()
    assert first.code == 0, first.output
    for host, (_, mode, group) in PERMISSIONS.items():
        for path in nodes[host]:
            assert stat.S_ISCHR(Path(path).stat().st_mode)
            assert stat.S_IMODE(Path(path).stat().st_mode) == mode
            assert Path(path).group() == group
        lines = Path(hosts[host]["rules"]).read_text().splitlines()
        rules = [line for line in lines if line and not line.startswith("#")]
        assert len(rules) == 3
        assert all(f'GROUP:="{group}", MODE:="{mode:04o}"' in rule for rule in rules)

    second = run()
    assert (second.code, second.changed) == (0, 0), second.output


# The board, what modprobe does, and the state of the module before it.
MODULES = {
    "loads": ("rk3588-cm3588-module-loaded", 'echo "$@" >> calls', "available"),
    "loaded": ("rk3588-cm3588-module-loaded", "touch calls", "loaded"),
    "builtin": ("rk3588-rock5b-display", "touch calls", "builtin"),
    "refused": ("rk3588-module-not-loaded", "echo 'Exec format error' >&2; exit 1", "available"),
    "unbound": ("rk3588-probe-failed", "exit 0", "available"),
}


def test_modules(runner, tmp_path):
    """A module is loaded, and again at every boot; what does not load says why."""
    hosts = {}
    for host, (name, modprobe, state) in MODULES.items():
        place = tmp_path / host
        golden = lay_out(name, place / "root")
        for path in golden.devices:
            Path(path).unlink()
            make_node(Path(path), 0o660)
        script = f"#!/bin/sh\ncd {place}\n{modprobe}\n"
        write_program(place / "programs" / "modprobe", script)
        found = board([], [], state)["__npu_board"]
        hosts[host] = {"__npu_board": found, "place": str(place)}

    def run(*, check: bool = False):
        defaults = {"rocknpu.edge.npu_info": {"root": "{{ place }}/root"}}
        path = "{{ place }}/programs:" + os.environ["PATH"]
        return runner.run(
            "npu",
            "module.yml",
            hosts=hosts,
            play={"module_defaults": defaults, "environment": {"PATH": path}},
            extra={"_npu_modules_file": "{{ place }}/rknpu.conf"},
            check=check,
        )

    told = run(check=True)
    assert told.code == 0, told.output
    assert told.changed > 0
    assert not list(tmp_path.glob("*/calls")) + list(tmp_path.glob("*/rknpu.conf"))

    first = run()
    for host in ("loads", "loaded", "builtin"):
        assert first.message(host) == "", host
    assert (tmp_path / "loads" / "calls").read_text() == "rknpu\n"
    assert not (tmp_path / "loaded" / "calls").exists()
    assert not (tmp_path / "builtin" / "calls").exists()
    assert not (tmp_path / "builtin" / "rknpu.conf").exists()
    for host in ("loads", "loaded"):
        lines = (tmp_path / host / "rknpu.conf").read_text().splitlines()
        assert [line for line in lines if not line.startswith("#")] == ["rknpu"]
    for host, reason in {
        "refused": "modprobe says: Exec format error.",
        "unbound": "not bound to npu@fdab0000",
    }.items():
        message = first.message(host)
        assert message.startswith("The module rknpu does not bring the NPU of this board to work")
        assert reason in message


def test_absent(runner, tmp_path):
    """The role's own files and lines go, all others stay as they are."""
    theirs = "proc /proc proc defaults 0 0\ndebugfs /sys/kernel/debug debugfs defaults 0 0\n"
    ours = "debugfs /sys/kernel/debug debugfs nofail,nosuid,nodev,noexec 0 0\n"
    hosts = {
        "full": {"fstab": theirs + ours},
        "bare": {"fstab": theirs},
    }
    for host in hosts:
        place = tmp_path / host
        place.mkdir()
        hosts[host]["place"] = str(place)
        (place / "fstab").write_text(str(hosts[host].pop("fstab")))
        (place / "other.rules").write_text("theirs\n")
    for name in ("rknpu.conf", "99-zz-rknpu.rules", "sys-kernel-debug.mount"):
        (tmp_path / "full" / name).write_text("")

    def run():
        places = {
            "_npu_modules_file": "{{ place }}/rknpu.conf",
            "_npu_rules_file": "{{ place }}/99-zz-rknpu.rules",
            "_npu_debugfs_wanted_link": "{{ place }}/sys-kernel-debug.mount",
            "_npu_fstab": "{{ place }}/fstab",
        }
        return runner.run("npu", "absent.yml", hosts=hosts, extra={**places, **NO_UDEV})

    first = run()
    assert first.code == 0, first.output
    for host in hosts:
        assert {path.name for path in (tmp_path / host).iterdir()} == {"fstab", "other.rules"}
        assert (tmp_path / host / "fstab").read_text() == theirs
    assert run().changed == 0
