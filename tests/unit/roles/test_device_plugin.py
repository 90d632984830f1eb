"""The role device_plugin: releases and configuration, in directories of the test."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml
from unit.plugin_archive.conftest import make_wheel, source  # noqa: F401 (a fixture)

from .conftest import ROOT, Runner, needs_root

pytestmark = needs_root


@pytest.fixture
def install(runner: Runner, source: Path, tmp_path: Path):  # noqa: F811
    """Installs the release of ``source``; returns the run, the directory and the link."""
    index = tmp_path / "index"
    index.mkdir()
    make_wheel(index, "boarddep", "py3-none-any")
    runner.environment.update(
        PIP_NO_INDEX="1", PIP_FIND_LINKS=str(index), PIP_CONFIG_FILE="/dev/null"
    )
    place = tmp_path / "opt"

    def run(check: bool = False):
        return runner.run(
            "device_plugin",
            "read.yml",
            "install.yml",
            "activate.yml",
            extra={
                "_device_plugin_source": str(source),
                "_device_plugin_root": str(place),
                "device_plugin_cache_dir": str(tmp_path / "cache"),
            },
            check=check,
        )

    run.place = place
    run.link = place / "current"
    return run


def releases(place: Path) -> set[str]:
    return {entry.name for entry in place.iterdir() if entry.is_dir() and not entry.is_symlink()}


def change(source: Path, text: str) -> None:  # noqa: F811
    (source / "rknpu_plugin" / "new.py").write_text(text)


def test_a_release_is_installed_once(install):
    first = install()
    assert first.code == 0, first.output
    assert (install.link / "rknpu_plugin" / "board.py").read_text() == "CORES = 3\n"
    assert (install.link / "boarddep.py").is_file()
    assert releases(install.place) == {install.link.readlink().name}
    second = install()
    assert (second.code, second.changed) == (0, 0), second.output


def test_its_modules_are_compiled_for_a_service_that_may_not_write(install):
    install()
    assert list((install.link / "rknpu_plugin").glob("__pycache__/board.*.pyc"))


def test_check_mode_on_a_fresh_board_tells_and_changes_nothing(install):
    result = install(check=True)
    assert result.code == 0, result.output
    assert result.changed > 0
    assert not install.place.exists()


def test_a_new_release_keeps_one_before_it(install, source):  # noqa: F811
    names = []
    for text in ("A = 1\n", "A = 2\n", "A = 3\n"):
        change(source, text)
        assert install().code == 0
        names.append(install.link.readlink().name)
    assert len(set(names)) == 3
    assert releases(install.place) == set(names[1:])


def test_going_back_uses_the_release_that_is_still_there(install, source):  # noqa: F811
    change(source, "A = 1\n")
    install()
    before = install.link.readlink()
    inode = (install.place / before).stat().st_ino
    change(source, "A = 2\n")
    install()
    change(source, "A = 1\n")
    assert install().code == 0
    assert install.link.readlink() == before
    assert (install.place / before).stat().st_ino == inode


def test_what_an_interrupted_run_left_does_not_end_up_in_a_release(install):
    left_over = install.place / ".incoming" / "rknpu_plugin"
    left_over.mkdir(parents=True)
    (left_over / "half.py").write_text("")
    assert install().code == 0
    assert not (install.link / "rknpu_plugin" / "half.py").exists()
    assert not (install.place / ".incoming").exists()


def test_a_release_that_does_not_load_is_not_used(install, source):  # noqa: F811
    install()
    before = install.link.readlink()
    change(source, "import a_library_of_another_architecture\n")
    result = install()
    assert "do not load with" in result.message()
    assert "No module named 'a_library_of_another_architecture'" in result.message()
    assert install.link.readlink() == before
    assert releases(install.place) == {before.name}


@pytest.fixture
def configure(runner: Runner, tmp_path: Path):
    """Writes configuration and unit; returns the run and the file."""
    place = tmp_path / "etc"

    def run(check: bool = False, **variables: object):
        return runner.run(
            "device_plugin",
            "configure.yml",
            hosts={"board": variables},
            extra={
                "_device_plugin_python": sys.executable,
                "_device_plugin_release": str(ROOT / "files" / "rknpu_plugin"),
                "_device_plugin_config_file": str(place / "config.yaml"),
                "_device_plugin_unit_file": str(tmp_path / "rknpu-plugin.service"),
            },
            check=check,
        )

    run.file = place / "config.yaml"
    return run


def test_only_what_is_set_is_in_the_configuration(configure):
    result = configure()
    assert result.code == 0, result.output
    assert yaml.safe_load(configure.file.read_text()) == {"resource": "rocknpu.device/npu"}
    assert configure().changed == 0


def test_every_variable_reaches_the_configuration(configure):
    settings = {
        "resource": "example.org/npu",
        "shares": 3,
        "max_contexts": 2,
        "max_shares_per_container": 1,
        "permissions": "rwm",
        "extra_devices": ["/dev/rga", "/dev/mpp_service:rw"],
        "mounts": ["/usr/lib/librknnrt.so", "/srv/models:/models:ro"],
        "listen": "",
        "log_format": "json",
        "log_level": "debug",
    }
    result = configure(**{f"device_plugin_{key}": value for key, value in settings.items()})
    assert result.code == 0, result.output
    assert yaml.safe_load(configure.file.read_text()) == settings


def test_numbers_of_an_ini_inventory_become_numbers(configure):
    configure(device_plugin_shares="3", device_plugin_max_contexts="1")
    settings = yaml.safe_load(configure.file.read_text())
    assert (settings["shares"], settings["max_contexts"]) == (3, 1)


def test_an_empty_variable_is_one_that_is_not_set(configure):
    assert configure(device_plugin_shares=None, device_plugin_mounts=None).code == 0
    assert yaml.safe_load(configure.file.read_text()) == {"resource": "rocknpu.device/npu"}


def test_the_plugin_itself_refuses_a_configuration_before_it_is_written(configure):
    configure(device_plugin_shares=2)
    before = configure.file.read_text()
    result = configure(device_plugin_shares=101)
    assert result.code != 0
    assert "shares must be a whole number from 1 to 100" in result.output
    assert configure.file.read_text() == before


def test_check_mode_writes_no_configuration(configure):
    result = configure(check=True)
    assert result.code == 0, result.output
    assert result.changed > 0
    assert not configure.file.exists()
