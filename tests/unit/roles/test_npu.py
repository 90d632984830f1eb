"""The role npu: modules and permissions, on files of the test."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from unit.board.golden import lay_out

from .conftest import Runner, needs_root, write_program

pytestmark = needs_root

NO_UDEV = {"__npu_udev": {"stat": {"issock": False}}}


def make_node(path: Path, mode: int = 0o600) -> str:
    """A character device that behaves like /dev/null."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(path, stat.S_IFCHR, os.makedev(1, 3))
    path.chmod(mode)
    return str(path)


def board(nodes: list[str], heaps: list[str], module: str = "builtin") -> dict[str, object]:
    npu = {"nodes": nodes, "dma_heaps": heaps, "module": module, "driver": "rknpu"}
    return {"__npu_board": {"npu": npu, "usable": True, "problems": []}, "__npu_board_loaded": {}}


@pytest.fixture
def nodes(tmp_path: Path) -> list[str]:
    return [make_node(tmp_path / "dev/dri" / name, 0o660) for name in ("card1", "renderD129")]


@pytest.fixture
def heaps(tmp_path: Path) -> list[str]:
    return [make_node(tmp_path / "dev/dma_heap" / name) for name in ("system", "cma")]


def open_nodes(runner: Runner, nodes, heaps, *, check=False, **variables):
    return runner.run(
        "npu",
        "permissions.yml",
        hosts={"board": variables},
        extra={
            **board(nodes, heaps),
            **NO_UDEV,
            "_npu_rules_file": str(runner.directory / "udev" / "99-zz-rknpu.rules"),
        },
        check=check,
    )


def test_nodes_are_opened_without_udev_and_stay_so(runner, nodes, heaps):
    first = open_nodes(runner, nodes, heaps)
    assert first.code == 0, first.output
    for path in nodes + heaps:
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o666
        assert stat.S_ISCHR(os.stat(path).st_mode)
    second = open_nodes(runner, nodes, heaps)
    assert (second.code, second.changed) == (0, 0)


def test_mode_and_group_are_those_of_the_inventory(runner, nodes, heaps):
    variables = {"npu_device_mode": "0660", "npu_device_group": "video"}
    result = open_nodes(runner, nodes, heaps, **variables)
    assert result.code == 0, result.output
    for path in nodes + heaps:
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o660
        assert Path(path).group() == "video"
    rules = (runner.directory / "udev" / "99-zz-rknpu.rules").read_text()
    applied = [line for line in rules.splitlines() if line and not line.startswith("#")]
    assert len(applied) == 3
    assert all('GROUP:="video", MODE:="0660"' in line for line in applied)


def test_check_mode_tells_and_changes_nothing(runner, nodes, heaps):
    result = open_nodes(runner, nodes, heaps, check=True)
    assert result.code == 0, result.output
    assert result.changed > 0
    assert not (runner.directory / "udev").exists()
    assert stat.S_IMODE(os.stat(nodes[0]).st_mode) == 0o660


def load_module(runner: Runner, root: Path, modprobe: str, module="available", check=False):
    """Run module.yml where ``modprobe`` is the given shell script."""
    programs = runner.directory / "programs"
    write_program(programs / "modprobe", f"#!/bin/sh\n{modprobe}\n")
    extra = board([], [], module)
    del extra["__npu_board_loaded"]
    return runner.run(
        "npu",
        "module.yml",
        play={
            "module_defaults": {"rocknpu.edge.npu_info": {"root": str(root)}},
            "environment": {"PATH": f"{programs}:{os.environ['PATH']}"},
        },
        extra={**extra, "_npu_modules_file": str(runner.directory / "rknpu.conf")},
        check=check,
    )


def loaded_words(runner: Runner) -> list[str]:
    lines = (runner.directory / "rknpu.conf").read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_a_module_is_loaded_now_and_at_every_boot(runner, tmp_path):
    root = tmp_path / "root"
    golden = lay_out("rk3588-cm3588-module-loaded", root)
    for path in golden.devices:
        Path(path).unlink()
        make_node(Path(path), 0o660)
    result = load_module(runner, root, f'echo "$@" >> {tmp_path}/calls')
    assert result.code == 0, result.output
    assert (tmp_path / "calls").read_text() == "rknpu\n"
    assert loaded_words(runner) == ["rknpu"]


def test_a_loaded_module_is_only_made_to_last(runner, tmp_path):
    result = load_module(runner, tmp_path, "exit 1", module="loaded")
    assert (result.code, result.changed) == (0, 1), result.output
    assert loaded_words(runner) == ["rknpu"]
    assert load_module(runner, tmp_path, "exit 1", module="loaded").changed == 0


def test_a_built_in_driver_needs_no_module(runner, tmp_path):
    result = load_module(runner, tmp_path, "exit 1", module="builtin")
    assert (result.code, result.changed) == (0, 0), result.output
    assert not (runner.directory / "rknpu.conf").exists()


def test_a_module_that_does_not_load_tells_why(runner, tmp_path):
    root = tmp_path / "root"
    lay_out("rk3588-module-not-loaded", root)
    words = "modprobe: ERROR: could not insert 'rknpu': Exec format error"
    result = load_module(runner, root, f'echo "{words}" >&2; exit 1')
    assert "The module rknpu does not bring the NPU of this board to work." in result.message()
    assert words in result.message()


def test_a_module_that_loads_without_taking_the_npu_tells_why(runner, tmp_path):
    root = tmp_path / "root"
    lay_out("rk3588-probe-failed", root)
    result = load_module(runner, root, "exit 0")
    assert "does not bring the NPU of this board to work" in result.message()
    assert "not bound to npu@fdab0000" in result.message()


def test_check_mode_loads_nothing(runner, tmp_path):
    result = load_module(runner, tmp_path, f"touch {tmp_path}/called", check=True)
    assert (result.code, result.changed) == (0, 1), result.output
    assert not (tmp_path / "called").exists()
