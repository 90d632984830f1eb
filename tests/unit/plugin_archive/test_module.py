"""The module as Ansible starts it: arguments in, one JSON answer out."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rocknpu.edge.plugins.filter.plugin_digest import plugin_digest
from ansible_collections.rocknpu.edge.plugins.module_utils.archive import ArchiveError
from ansible_collections.rocknpu.edge.plugins.modules import plugin_archive
from unit.module_process import run_module


def run(arguments: dict[str, object]) -> dict[str, object]:
    return run_module(plugin_archive, arguments)[0]


@pytest.fixture
def arguments(source, index, tmp_path) -> dict[str, object]:
    return {
        "source": str(source),
        "cache_dir": str(tmp_path / "cache"),
        "python_version": "3.8.18",
        "architecture": "aarch64",
        "libc_version": "2.31",
    }


def test_first_run_builds_and_second_does_not(arguments):
    first = run(arguments)
    second = run(arguments)
    assert (first["changed"], second["changed"]) == (True, False)
    assert first["path"] == second["path"]
    assert Path(first["path"]).is_file()
    assert first["digest"] in first["path"]
    assert first["platforms"][0] == "manylinux_2_31_aarch64"


def test_check_mode_predicts_and_builds_nothing(arguments, tmp_path):
    check = {**arguments, "_ansible_check_mode": True}
    fresh = run(check)
    assert fresh["changed"] is True
    assert not (tmp_path / "cache").exists()
    built = run(arguments)
    assert (fresh["path"], fresh["digest"]) == (built["path"], built["digest"])
    assert run(check)["changed"] is False


def test_failure_is_one_message(arguments):
    answer = run({**arguments, "architecture": "riscv64"})
    assert answer["failed"] is True
    assert answer["msg"].startswith("There are no Python packages for architecture 'riscv64'")


def test_the_filter_names_the_release_that_the_module_builds(arguments, source):
    kind = ("3.8.18", "aarch64", "glibc", "2.31")
    assert plugin_digest(str(source), *kind) == run(arguments)["digest"]
    (source / "rknpu_plugin" / "new.py").write_text("")
    assert plugin_digest(str(source), *kind) == run(arguments)["digest"]
    with pytest.raises(ArchiveError, match="No such file or directory"):
        plugin_digest(str(source / "rknpu_plugin"), *kind)
