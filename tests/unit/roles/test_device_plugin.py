"""The role device_plugin: releases and configuration, in directories of the test."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml
from unit.node_capacity.kube_server import KubeServer, make_node
from unit.plugin_archive.conftest import make_wheel, source  # noqa: F401 (a fixture)

from .conftest import ROOT, Result, Runner, needs_root

pytestmark = needs_root


class Board:
    """Where releases are installed from ``source``."""

    def __init__(self, runner: Runner, source: Path, directory: Path) -> None:  # noqa: F811
        self.runner = runner
        self.source = source
        self.directory = directory
        self.place = directory / "opt"
        self.link = self.place / "current"
        index = directory / "index"
        index.mkdir()
        make_wheel(index, "boarddep", "py3-none-any")
        runner.environment.update(
            PIP_NO_INDEX="1", PIP_FIND_LINKS=str(index), PIP_CONFIG_FILE="/dev/null"
        )

    def install(self, *, check: bool = False) -> Result:
        return self.runner.run(
            "device_plugin",
            "read.yml",
            "install.yml",
            "configure.yml",
            play={"gather_facts": True, "gather_subset": ["!all", "!min", "platform", "python"]},
            extra={
                # The plugin of the test checks no configuration.
                "_device_plugin_files": ["{{ _device_plugin_link }}"],
                "_device_plugin_source": str(self.source),
                "_device_plugin_root": str(self.place),
                "device_plugin_cache_dir": str(self.directory / "cache"),
            },
            check=check,
        )

    def change(self, text: str) -> None:
        """Make another release."""
        (self.source / "rknpu_plugin" / "new.py").write_text(text)

    def releases(self) -> set[str]:
        return {entry.name for entry in self.place.iterdir() if not entry.is_symlink()}


@pytest.fixture
def board(runner: Runner, source: Path, tmp_path: Path) -> Board:  # noqa: F811
    return Board(runner, source, tmp_path)


def test_first_release(board):
    told = board.install(check=True)
    assert told.code == 0, told.output
    assert told.changed > 0
    assert not board.place.exists()

    # What an interrupted run has left must not end up in a release.
    left_over = board.place / ".incoming" / "rknpu_plugin"
    left_over.mkdir(parents=True)
    (left_over / "half.py").write_text("")
    first = board.install()
    assert first.code == 0, first.output
    assert (board.link / "rknpu_plugin" / "board.py").read_text() == "CORES = 3\n"
    assert (board.link / "boarddep.py").is_file()
    assert not (board.link / "rknpu_plugin" / "half.py").exists()
    assert board.releases() == {board.link.readlink().name}
    # The service may not write into its own directory, so it finds compiled files there.
    assert list((board.link / "rknpu_plugin").glob("__pycache__/board.*.pyc"))

    second = board.install()
    assert (second.code, second.changed) == (0, 0), second.output


def test_later_releases(board):
    names = []
    for text in ("A = 1\n", "A = 2\n", "A = 3\n"):
        board.change(text)
        result = board.install()
        assert result.code == 0, result.output
        names.append(board.link.readlink().name)
    # One release before the present one is kept.
    assert len(set(names)) == 3
    assert board.releases() == set(names[1:])

    # It is used as it is when it is wanted again.
    kept = (board.place / names[1]).stat().st_ino
    board.change("A = 2\n")
    assert board.install().code == 0
    assert board.link.readlink().name == names[1]
    assert (board.place / names[1]).stat().st_ino == kept

    # A release that the board's Python cannot load is not used.
    board.change("import a_library_of_another_architecture\n")
    broken = board.install()
    assert "do not load with" in broken.message()
    assert "No module named 'a_library_of_another_architecture'" in broken.message()
    assert board.link.readlink().name == names[1]


SETTINGS = {
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
# Where systemd listens, by what the plugin is told; it looks up no names.
SOCKETS = {
    ":9475": "9475",
    "localhost:9476": "127.0.0.1:9476",
    "[2001:db8::2]:9475": "[2001:db8::2]:9475",
}
# What is in the inventory, and what has to be in the file.
CONFIGURATIONS: dict[str, tuple[dict[str, object], dict[str, object] | None]] = {
    "nothing": ({}, {"resource": "rocknpu.device/npu"}),
    "everything": (SETTINGS, SETTINGS),
    "ini": (
        {"shares": "3", "max_contexts": "1"},
        {"resource": "rocknpu.device/npu", "shares": 3, "max_contexts": 1},
    ),
    "loopback": (
        {"listen": "localhost:9476"},
        {"resource": "rocknpu.device/npu", "listen": "localhost:9476"},
    ),
    "ipv6": (
        {"listen": "[2001:db8::2]:9475"},
        {"resource": "rocknpu.device/npu", "listen": "[2001:db8::2]:9475"},
    ),
    "empty": ({"shares": None, "mounts": None}, {"resource": "rocknpu.device/npu"}),
    "wrong": ({"shares": 101}, None),
}


def settings_of(unit: Path) -> dict[str, str]:
    """The settings of a unit, whose last one of a name counts."""
    lines = [line for line in unit.read_text().splitlines() if not line.startswith(("#", "["))]
    return dict(line.split("=", 1) for line in lines if line)


def test_configurations(runner, tmp_path):
    """All of them at once, each host with a directory of its own."""
    places = {name: tmp_path / name for name in CONFIGURATIONS}
    (places["wrong"] / "etc").mkdir(parents=True)
    (places["wrong"] / "etc" / "config.yaml").write_text("shares: 2\n")
    hosts = {}
    for name, (variables, _) in CONFIGURATIONS.items():
        places[name].mkdir(exist_ok=True)
        hosts[name] = {f"device_plugin_{key}": value for key, value in variables.items()}
        hosts[name]["place"] = str(places[name])

    def configure(*, check: bool = False) -> Result:
        return runner.run(
            "device_plugin",
            "configure.yml",
            hosts=hosts,
            extra={
                "_device_plugin_python": sys.executable,
                "_device_plugin_release": str(ROOT / "files" / "rknpu_plugin"),
                "_device_plugin_config_file": "{{ place }}/etc/config.yaml",
                "_device_plugin_unit_file": "{{ place }}/rknpu-plugin.service",
                "_device_plugin_socket_file": "{{ place }}/rknpu-plugin.socket",
                "_device_plugin_current": "{{ place }}/current",
                "_device_plugin_digest": "release",
            },
            check=check,
        )

    told = configure(check=True)
    assert told.changed > 0
    assert not (places["everything"] / "etc").exists()

    first = configure()
    for name, (_, expected) in CONFIGURATIONS.items():
        text = (places[name] / "etc" / "config.yaml").read_text()
        if expected is None:
            # The plugin itself refuses it before it is put in place.
            assert first.message(name) != ""
            assert "must be a whole number from 1 to 100" in first.output
            assert text == "shares: 2\n"
        else:
            assert first.message(name) == "", name
            assert yaml.safe_load(text) == expected, name
            unit = settings_of(places[name] / "rknpu-plugin.service")
            address = SOCKETS.get(str(expected.get("listen", ":9475")))
            assert unit["RestrictAddressFamilies"] == "AF_UNIX", name
            assert unit["PrivateNetwork"] == "true", name
            assert unit.get("Sockets") == (address and "rknpu-plugin.socket"), name
            file = places[name] / "rknpu-plugin.socket"
            assert file.exists() == (address is not None), name
            if address is not None:
                assert settings_of(file)["ListenStream"] == address

    assert configure().changed == 0


NPU = {
    "soc": "rk3588",
    "driver": "rknpu",
    "driver_version": "0.9.8",
    "cores": 3,
    "mode": "drm",
}
LABELS = {
    "rocknpu.device/soc": "rk3588",
    "rocknpu.device/driver": "rknpu",
    "rocknpu.device/driver-version": "0.9.8",
    "rocknpu.device/cores": "3",
    "rocknpu.device/mode": "drm",
    "rocknpu.device/plugin": "service",
}
# Variables of a board, what is on it, and which of the labels its node gets.
IN_CLUSTER: dict[str, tuple[dict[str, object], dict[str, object], set[str]]] = {
    "whole": ({}, NPU, set(LABELS)),
    "unversioned": (
        {},
        {**NPU, "driver_version": None, "cores": None},
        LABELS.keys() - {"rocknpu.device/driver-version", "rocknpu.device/cores"},
    ),
    "absent": ({"device_plugin_mode": "absent"}, NPU, set()),
    # There is no cluster any more, which is as good.
    "reset": (
        {"_device_plugin_api_must_answer": False, "device_plugin_mode": "absent"},
        NPU,
        set(),
    ),
    "lost": ({}, NPU, set()),
}


def write_kubeconfig(path: Path, url: str) -> str:
    config = {
        "clusters": [{"name": "edge", "cluster": {"server": url}}],
        "users": [{"name": "admin", "user": {}}],
        "contexts": [{"name": "edge", "context": {"cluster": "edge", "user": "admin"}}],
        "current-context": "edge",
    }
    path.write_text(yaml.safe_dump(config))
    return str(path)


def test_cluster(runner, tmp_path):
    """What the API server is told of each board, and that nothing of it is left in the end."""
    with KubeServer() as server:
        server.nodes = [make_node(name, "0", "0", "Unknown") for name in IN_CLUSTER]
        absent = server.nodes[2]
        memory = json.dumps({"labels": list(LABELS)})
        absent["metadata"]["annotations"] = {"rocknpu.device/labels-of-npu": memory}
        absent["metadata"]["labels"].update(LABELS)
        access = {name: write_kubeconfig(tmp_path / name, server.url) for name in IN_CLUSTER}
        for name in ("reset", "lost"):
            Path(access[name]).unlink()

        def run(*, check: bool = False) -> Result:
            return runner.run(
                "device_plugin",
                "cluster.yml",
                hosts={
                    name: {**variables, "npu": npu, "k3s_kubeconfig": access[name]}
                    for name, (variables, npu, _) in IN_CLUSTER.items()
                },
                extra={"__npu_board": {"npu": "{{ npu }}"}},
                check=check,
            )

        told = run(check=True)
        assert (told.code, told.changed) == (0, 4), told.output
        assert LABELS.items() <= absent["metadata"]["labels"].items()

        first = run()
        assert first.changed == 4, first.output
        assert "No way to the Kubernetes API" in first.message("lost -> localhost")
        for node, (_, _, keys) in zip(server.nodes, IN_CLUSTER.values()):
            labels = {key: LABELS[key] for key in keys}
            assert node["metadata"]["labels"] == {"kubernetes.io/arch": "arm64", **labels}
        assert "rocknpu.device/npu" not in absent["status"]["capacity"]
        assert run().changed == 0


def test_service_absent(runner, tmp_path):
    kubelet = tmp_path / "kubelet"
    files = ("opt/current/x.py", "etc/config.yaml", "rknpu-plugin.socket")
    for name in (*files, "kubelet/rknpu-1-lock", "kubelet/other"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")

    def run() -> Result:
        return runner.run(
            "device_plugin",
            "service_absent.yml",
            extra={
                "_device_plugin_unit_file": str(tmp_path / "rknpu-plugin.service"),
                "_device_plugin_socket_file": str(tmp_path / "rknpu-plugin.socket"),
                "_device_plugin_config_file": str(tmp_path / "etc" / "config.yaml"),
                "_device_plugin_root": str(tmp_path / "opt"),
                "_device_plugin_kubelet_dir": str(kubelet),
                "_device_plugin_unit": "rknpu-plugin-of-a-test.service",
            },
        )

    # Without a unit the files in the kubelet's directory may be those of a pod.
    assert run().code == 0
    assert {path.name for path in tmp_path.iterdir()} >= {"kubelet"}
    assert not (tmp_path / "opt").exists()
    assert not (tmp_path / "etc").exists()
    assert not (tmp_path / "rknpu-plugin.socket").exists()
    assert {path.name for path in kubelet.iterdir()} == {"rknpu-1-lock", "other"}
    assert run().changed == 0
