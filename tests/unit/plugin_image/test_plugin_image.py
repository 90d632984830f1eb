"""The module's real main with pip running for real, and a podman that only keeps a list."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.rocknpu.edge.plugins.module_utils.image import ImageError, find_kind
from ansible_collections.rocknpu.edge.plugins.modules import plugin_image
from unit.plugin_archive.conftest import make_wheel, source  # noqa: F401 (a fixture)

BASE = "registry.example.org/python:3.13-slim"
FILES = ["usr/local/lib/python3.13/os.py", "usr/lib/x86_64-linux-gnu/libstdc++.so.6"]
FAKE = Path(__file__).with_name("fake_podman.py")


class Machine:
    """A control node: what is installed, what its podman has, and what the module answers."""

    def __init__(self, directory: Path, source: Path, capsys: Any, monkeypatch: Any) -> None:  # noqa: F811
        self.cache = directory / "cache"
        self.source = source
        self._capsys = capsys
        self._state = directory / "store" / "state.json"
        self._state.parent.mkdir()
        self.programs = directory / "programs"
        self.programs.mkdir()
        self.install("podman")
        lists = ("calls", "containers", "pushed", "missing", "manifests", "refuses")
        self.write(**{key: [] for key in lists}, images={}, bases=[BASE], files=FILES)
        index = directory / "index"
        index.mkdir()
        for tag in ("cp313-cp313-manylinux2014_aarch64", "cp313-cp313-manylinux2014_x86_64"):
            make_wheel(index, "boarddep", tag)
        for name, value in {
            "PATH": str(self.programs),
            "FAKE_STORE": str(self._state.parent),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(index),
            "PIP_CONFIG_FILE": "/dev/null",
        }.items():
            monkeypatch.setenv(name, value)

    def install(self, name: str) -> None:
        (self.programs / name).write_text(f"#!{sys.executable}\n{FAKE.read_text()}")
        (self.programs / name).chmod(0o755)

    def write(self, **state: Any) -> None:
        self._state.write_text(json.dumps({**self.state, **state}))

    @property
    def state(self) -> dict[str, Any]:
        return json.loads(self._state.read_text()) if self._state.exists() else {}

    def run(self, **options: Any) -> dict[str, Any]:
        given = {"source": str(self.source), "base": BASE, "cache_dir": str(self.cache), **options}
        with patch_module_args(given), pytest.raises(SystemExit):
            plugin_image.main()
        answer: dict[str, Any] = json.loads(self._capsys.readouterr().out)
        return answer


@pytest.fixture
def machine(
    tmp_path: Path,
    source: Path,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Machine:
    (source / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\nCOPY tree /opt/rknpu-plugin\n")
    (source / "rknpu_plugin" / "__init__.py").write_text('__version__ = "1.2.3"\n')
    return Machine(tmp_path, source, capsys, monkeypatch)


def test_archives(machine):
    told = machine.run(_ansible_check_mode=True)
    assert (told["changed"], told["archives"], told["built"]) == (True, {}, [])
    assert not machine.cache.exists()

    first = machine.run()
    assert first["reference"].startswith("localhost/rknpu-plugin:1.2.3-")
    assert first["archives"].keys() == {"arm64", "amd64"}
    for architecture, archive in first["archives"].items():
        assert archive.endswith(f"{first['reference'].partition(':')[2]}-{architecture}.tar")
        content = Path(archive).read_text().splitlines()
        assert {"Dockerfile", "tree/boarddep.py", "tree/rknpu_plugin/board.py"} <= set(content)
    built = first["built"]
    assert [image["architecture"] for image in built] == ["arm64", "amd64"]
    assert all(image["added"] == image["size"] - 1000 > 0 for image in built)
    state = machine.state
    # The images stay for who wants to run them; containers that were only looked into do not.
    assert state["images"].keys() == {image["reference"] for image in built}
    assert state["containers"] == []
    builds = [call for call in state["calls"] if call[0] == "build"]
    assert [f"--build-arg=BASE={BASE}" in call for call in builds] == [True, True]
    assert ["--no-cache" in call for call in builds] == [True, True]
    assert not list(machine.cache.glob(".*build*"))

    again = machine.run()
    assert (again["changed"], again["archives"]) == (False, first["archives"])
    assert len(machine.state["calls"]) == len(state["calls"])
    # Another release has another name, and only what is asked for is built.
    (machine.source / "rknpu_plugin" / "new.py").write_text("")
    assert machine.run(build=False)["archives"] == {}
    other = machine.run(architectures=["amd64"])
    assert other["archives"].keys() == {"amd64"}
    assert other["reference"] != first["reference"]


def test_registry(machine):
    first = machine.run(registry="registry.example.org/edge/")
    reference = first["reference"]
    assert reference.startswith("registry.example.org/edge/rknpu-plugin:1.2.3-")
    images = [f"{reference}-arm64", f"{reference}-amd64"]
    assert machine.state["pushed"] == [*images, reference]
    assert first["archives"] == {}
    again = machine.run(registry="registry.example.org/edge/")
    assert (again["changed"], again["reference"]) == (False, reference)


def test_index_that_the_registry_refuses_is_not_taken_for_pushed(machine):
    machine.write(refuses=["everybody"])
    failed = machine.run(registry="registry.example.org/edge")
    assert "cannot be pushed: unauthorized; log in to the registry" in failed["msg"]
    machine.write(refuses=[])
    assert machine.run(registry="registry.example.org/edge")["changed"]
    assert machine.state["manifests"] == []


def test_docker_where_there_is_no_podman(machine):
    (machine.programs / "podman").unlink()
    machine.install("docker")
    assert machine.run(architectures=["arm64"])["archives"].keys() == {"arm64"}
    assert not any("--format=docker-archive" in call for call in machine.state["calls"])


def test_failures_are_told_in_one_sentence(machine):
    machine.write(missing=["arm64"])
    failed = machine.run()
    assert failed["msg"] == (
        f"The base image {BASE} cannot be used for arm64: pinging container registry: no such "
        "host; check the network, or name another one."
    )
    machine.write(missing=[], files=["bin/sh"])
    assert "it has no Python, neither below" in machine.run()["msg"]
    assert machine.state["containers"] == []
    machine.write(files=[*FILES, "./usr/lib/python3.9/os.py"])
    (machine.source / "requirements.txt").write_text("missing-package\n")
    assert "pip cannot get the packages for Python 3.13 on aarch64" in machine.run()["msg"]
    assert list(machine.cache.glob("*.tar")) == []
    (machine.programs / "podman").unlink()
    assert "the control node has neither" in machine.run()["msg"]


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        (FILES, ("3.13", "aarch64", "glibc", "2.17")),
        # Two of them: the one that comes first in PATH, else the newest.
        ([*FILES, "usr/lib/python3.14/os.py"], ("3.13", "aarch64", "glibc", "2.17")),
        (
            ["./usr/lib/python3.8/os.py", "./usr/lib/python3.11/os.py", "./usr/lib/libstdc++.so.6"],
            ("3.11", "aarch64", "glibc", "2.17"),
        ),
        ([*FILES, "lib/ld-musl-aarch64.so.1"], ("3.13", "aarch64", "musl", "1.2")),
    ],
)
def test_python_and_library_of_a_base(files, kind):
    assert find_kind(files, "arm64") == kind


def test_base_without_the_library_of_grpc():
    with pytest.raises(ImageError, match=r"no libstdc\+\+.so.6, which gRPC needs"):
        find_kind(FILES[:1], "arm64")
