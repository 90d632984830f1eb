"""The check of the board's Python, which runs without a module: a shell is all there is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .conftest import Result, Runner, write_program


def python(path: Path, version: str) -> str:
    """A program that answers as that Python would; an empty version makes it fail."""
    answer = f"echo {version}" if version else "echo 'version not installed' >&2; exit 127"
    return str(write_program(path, f"#!/bin/sh\n{answer}\n"))


def named(interpreter: str) -> dict[str, object]:
    return {"ansible_python_interpreter": interpreter}


def found(*interpreters: str) -> dict[str, object]:
    return {
        "ansible_python_interpreter": "auto_silent",
        "ansible_interpreter_python_fallback": list(interpreters),
    }


@pytest.fixture(scope="module")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    directory = tmp_path_factory.mktemp("pythons")
    return {
        name: python(directory / name, version)
        for name, version in {
            "python3.6": "3.6.15",
            "python3.7": "3.7.16",
            "python3.12": "3.12.1",
            "python3.13": "",
        }.items()
    }


@pytest.fixture(scope="module", params=[False, True], ids=["run", "check mode"])
def result(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, pythons: dict
) -> Result:
    """One run over a host for each case."""
    hosts = {
        "good": named(sys.executable),
        "named36": named(pythons["python3.6"]),
        "named37": named(pythons["python3.7"]),
        "gone": named("/opt/nowhere/python3"),
        "without": found("python-of-no-board"),
        "broken": found("python-of-no-board", pythons["python3.13"]),
        "newfirst": found(pythons["python3.12"], pythons["python3.6"]),
        "oldfirst": found(pythons["python3.6"], pythons["python3.12"]),
    }
    runner = Runner(tmp_path_factory.mktemp("run"))
    return runner.run("preflight", "python.yml", hosts=hosts, check=request.param)


@pytest.mark.parametrize("host", ["good", "newfirst"])
def test_a_new_python_passes(result, host):
    assert result.message(host) == ""
    assert f"ok: [{host}]" in result.output


@pytest.mark.parametrize(
    ("host", "program", "version"),
    [
        ("named36", "python3.6", "3.6.15"),
        ("named37", "python3.7", "3.7.16"),
        ("oldfirst", "python3.6", "3.6.15"),
    ],
)
def test_an_old_python_gets_the_ways_out(result, pythons, host, program, version):
    message = result.message(host)
    start = f"{pythons[program]} on this host is Python {version}, and ansible-core 2."
    assert message.startswith(start)
    assert "install an operating system with a newer Python" in message
    assert "name it with ansible_python_interpreter" in message
    assert "use ansible-core 2.19" not in message


def test_a_named_python_that_is_not_there_is_named(result):
    start = "ansible_python_interpreter is /opt/nowhere/python3, which is not on this host"
    assert result.message("gone").startswith(start)


def test_a_host_without_python_is_told_what_to_install(result):
    assert result.message("without").startswith(
        "There is no Python on this host: install Python 3."
    )


def test_a_python_that_does_not_run_is_told_apart(result, pythons):
    start = f"{pythons['python3.13']} is on this host but does not run"
    assert result.message("broken").startswith(start)


def test_nothing_changes(result):
    assert result.changed == 0


@pytest.mark.parametrize(
    ("core", "floor"),
    [("2.19.14", "3.8"), ("2.20.0", "3.9")],
)
def test_each_ansible_core_has_its_floor(runner, tmp_path, core, floor):
    versions = {"below": "3.8.18", "above": "3.9.2"}
    hosts = {name: named(python(tmp_path / name, version)) for name, version in versions.items()}
    result = runner.run("preflight", "python.yml", hosts=hosts, extra={"_preflight_core": core})
    assert result.message("above") == ""
    if floor == "3.8":
        assert result.message("below") == ""
    else:
        assert f"ansible-core {core} needs 3.9 or newer there" in result.message("below")
        assert "use ansible-core 2.19 on the control node" in result.message("below")
