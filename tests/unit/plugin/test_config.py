"""The configuration: keys, places, order, and how mistakes are told."""

from __future__ import annotations

import json
import os

import pytest
import yaml
from rknpu_plugin.commands import main
from rknpu_plugin.config import KEYS, ExtraDevice, HostMount, plain
from rknpu_plugin.config_sources import ConfigError, load_config
from rknpu_plugin.log import set_up_logging

DEFAULTS = {
    "resource": "rocknpu.device/npu",
    "shares": None,
    "max_contexts": None,
    "max_shares_per_container": None,
    "permissions": "rw",
    "extra_devices": [],
    "mounts": [],
    "host_root": "/",
    "kubelet_dir": "/var/lib/kubelet/device-plugins",
    "listen": ":9475",
    "log_format": "text",
    "log_level": "info",
}


@pytest.fixture
def load(tmp_path):
    """The configuration of a file with this text."""

    def run(text, flags=None, environment=None):
        file = tmp_path / "config.yaml"
        file.write_text(text)
        return load_config(flags or {}, environment or {}, str(file))

    return run


@pytest.fixture
def problems(load):
    def run(text, **places):
        with pytest.raises(ConfigError) as caught:
            load(text, **places)
        return caught.value.problems

    return run


def test_defaults(load):
    assert plain(load("").config) == DEFAULTS


def test_kubelets_directory_is_a_constant():
    """Whatever --root-dir or k3s' --data-dir say.

    https://github.com/kubernetes/kubernetes/issues/68567
    https://github.com/Mellanox/k8s-rdma-shared-dev-plugin/issues/96
    """
    assert load_config({}, {}).config.kubelet_dir == "/var/lib/kubelet/device-plugins"


def test_missing_default_file_means_defaults(monkeypatch, tmp_path):
    monkeypatch.setattr("rknpu_plugin.config_sources.DEFAULT_FILE", str(tmp_path / "none.yaml"))
    assert plain(load_config({}, {}).config) == DEFAULTS


def test_missing_named_file_is_an_error(tmp_path):
    for flags, environment in (
        ({"file": str(tmp_path / "x")}, {}),
        ({}, {"RKNPU_PLUGIN_CONFIG": str(tmp_path / "x")}),
    ):
        with pytest.raises(ConfigError, match="there is no such file"):
            load_config({}, environment, **flags)


def test_flag_wins_over_environment_over_file_over_default(load):
    environment = {"RKNPU_PLUGIN_SHARES": "3", "RKNPU_PLUGIN_MAX_CONTEXTS": "3"}
    loaded = load("shares: 4\nmax_contexts: 4\npermissions: r\n", {"shares": "2"}, environment)
    assert loaded.config.shares == 2
    assert loaded.config.max_contexts == 3
    assert loaded.config.permissions == "r"
    assert loaded.origins["shares"] == "command line"
    assert loaded.origins["max_contexts"] == "environment RKNPU_PLUGIN_MAX_CONTEXTS"
    assert loaded.origins["permissions"].endswith("config.yaml")
    assert loaded.origins["resource"] == "default"


def test_every_key_in_every_place(load):
    values = {
        "resource": "example.org/npu",
        "shares": 7,
        "max_contexts": 2,
        "max_shares_per_container": 3,
        "permissions": "rwm",
        "extra_devices": ["/dev/rga", "/dev/mpp_service:r"],
        "mounts": ["/usr/lib/librknnrt.so", "/opt/models:/models:rw"],
        "host_root": "/host",
        "kubelet_dir": "/var/lib/k",
        "listen": "127.0.0.1:9000",
        "log_format": "json",
        "log_level": "debug",
    }
    assert set(values) == {key.name for key in KEYS}
    texts = {
        name: ",".join(value) if isinstance(value, list) else str(value)
        for name, value in values.items()
    }
    environment = {f"RKNPU_PLUGIN_{name.upper()}": text for name, text in texts.items()}
    assert plain(load(yaml.safe_dump(values)).config) == values
    assert plain(load("", texts).config) == values
    assert plain(load("", {}, environment).config) == values


def test_null_means_default(load):
    text = "".join(f"{key.name}:\n" for key in KEYS)
    assert plain(load(text).config) == DEFAULTS


def test_empty_variable_unsets_a_number_and_turns_listening_off(load):
    environment = {"RKNPU_PLUGIN_SHARES": "", "RKNPU_PLUGIN_LISTEN": ""}
    config = load("shares: 4", {}, environment).config
    assert config.shares is None
    assert config.listen is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("shares: 0", "shares: must be a whole number from 1 to 100, not 0."),
        ("shares: 101", "shares: must be a whole number from 1 to 100, not 101."),
        ("shares: two", 'shares: must be a whole number from 1 to 100, not "two".'),
        ("shares: '2'", 'shares: must be a whole number from 1 to 100, not "2".'),
        ("shares: 2.0", "shares: must be a whole number from 1 to 100, not 2.0."),
        ("shares: yes", "shares: must be a whole number from 1 to 100, not true."),
        ("shares: [2]", "shares: must be a whole number"),
        ("shares: 0x" + "f" * 8000, "shares: must be a whole number from 1 to 100, not a number"),
        ("max_contexts: 0", "max_contexts: must be a whole number from 1 to 2147483647, not 0."),
        ("max_contexts: 0x80000000", "max_contexts: must be a whole number from 1 to 2147483647"),
        ("max_shares_per_container: -1", "max_shares_per_container: must be"),
        ("permissions: rx", "permissions: must be letters out of r, w and m"),
        ("permissions: rr", "permissions: must be letters out of r, w and m"),
        ('permissions: "rw\\n"', "permissions: must consist of printable characters"),
        ("permissions: ''", "permissions: must be letters out of r, w and m"),
        ('mounts: ["/\\ud800"]', 'mounts: must consist of printable characters, not "/\\ud800".'),
        ('mounts: ["/a\\nb"]', 'mounts: must consist of printable characters, not "/a\\nb".'),
        (
            'log_level: "\\e[31m"',
            'log_level: must be one of debug, info, warning, error, not "\\u001b',
        ),
        ("extra_devices: /dev/rga", "extra_devices: must be a list"),
        ("extra_devices: [/etc/passwd]", "extra_devices: must be device nodes below /dev"),
        ("extra_devices: [/dev/../etc]", 'extra_devices: must be an absolute path without ".."'),
        ("extra_devices: [rga]", "extra_devices: must be an absolute path"),
        ("extra_devices: [/dev/rga:x]", "extra_devices: must be letters"),
        ("extra_devices: [/dev/rga, /dev/rga:r]", "extra_devices: names /dev/rga more than once"),
        ("mounts: [/a:/b:rx]", "mounts: must be HOST, HOST:CONTAINER or HOST:CONTAINER:ro|rw"),
        ("mounts: [/a:/b:ro:x]", "mounts: must be HOST"),
        ("mounts: [/a:/]", "mounts: must not cover the container's root"),
        ("mounts: ['/a:/x', '/b:/x']", "mounts: names /x more than once"),
        ("host_root: host", "host_root: must be an absolute path"),
        ("kubelet_dir: /" + "d" * 90, "kubelet_dir: has 91 bytes, at most 66"),
        ("listen: 9475", "listen: must be a text, not 9475"),
        ("listen: ':0'", "listen: must be ADDRESS:PORT"),
        ("listen: ':65536'", "listen: must be ADDRESS:PORT"),
        ("listen: localhost", "listen: must be ADDRESS:PORT"),
        ("listen: '::1:9475'", "listen: must have an IPv6 address in brackets"),
        ("listen: '[::1:9475'", "listen: must have an IPv6 address in brackets"),
        ("listen: '[]:9475'", "listen: must have an IPv6 address in its brackets"),
        ("listen: '[board]:9475'", "listen: must have an IPv6 address in its brackets"),
        ("listen: '[fe80::1%eth0]:80'", "listen: must have an IPv6 address in its brackets, with"),
        ("listen: '256.0.0.1:9475'", "listen: must begin with an address of the machine that"),
        (
            "listen: '*:9475'",
            "listen: must begin with an address of the machine that listens, or l",
        ),
        ("listen: 'board.lan:9475'", "listen: must begin with an address of the machine that"),
        ("listen: 'Localhost:9475'", "listen: must begin with an address of the machine that"),
        ("log_format: xml", "log_format: must be one of text, json"),
        ("log_level: loud", "log_level: must be one of debug, info, warning, error"),
    ],
)
def test_bad_value_is_told_with_file_key_and_rule(problems, tmp_path, text, words):
    found = problems(text)
    assert len(found) == 1
    assert found[0].startswith(f"{tmp_path / 'config.yaml'}: {words}")
    assert found[0].endswith(".")


@pytest.mark.parametrize(
    "name",
    [
        "nsm.ligato.io",
        "npu",
        "kubernetes.io/npu",
        "x.kubernetes.io/npu",
        "fpga.example.com/" + "x" * 64,
        "Rocknpu.device/npu",
        "rocknpu.device/npu/npu",
        "/npu",
        "rocknpu.device/",
        "requests.rocknpu.device/npu",
    ],
)
def test_resource_names_that_kubernetes_refuses(problems, name):
    """https://github.com/intel/intel-device-plugins-for-kubernetes/issues/301"""
    (problem,) = problems(f"resource: {name}")
    assert f'resource: "{name}" is no valid resource name' in problem


def test_unknown_key_is_an_error_with_a_suggestion(problems):
    """A key in the wrong place must not be ignored silently.

    https://github.com/NVIDIA/k8s-device-plugin/issues/1433
    """
    (problem,) = problems("share: 2")
    assert "share: is unknown, did you mean shares." in problem
    (problem,) = problems("sharing:\n  timeSlicing: {}")
    assert "sharing: is unknown" in problem


def test_unknown_variable_is_an_error(problems):
    (problem,) = problems("", environment={"RKNPU_PLUGIN_SHARE": "2"})
    assert problem == (
        "environment: RKNPU_PLUGIN_SHARE: is unknown, did you mean RKNPU_PLUGIN_SHARES."
    )


def test_bad_variable_and_flag_are_told_with_their_place(problems):
    found = problems("", flags={"shares": "two"}, environment={"RKNPU_PLUGIN_PERMISSIONS": "z"})
    assert found[0].startswith("command line: shares: must be a whole number from 1 to 100")
    assert found[1].startswith("environment RKNPU_PLUGIN_PERMISSIONS: permissions: must be")


def test_all_mistakes_are_told_at_once(problems):
    assert len(problems("shares: 0\nresource: npu\nodd: 1\nlisten: x\n")) == 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("shares: [", "is not valid YAML: line 1"),
        (
            "shares: 2\nshares: 3\n",
            "line 2, column 1: shares stands more than once",
        ),
        ("- shares", "must hold keys and values"),
        ("just text", "must hold keys and values"),
        ("!!python/object:os.system {}", "is not valid YAML"),
        ("? [a, b]\n: 1\n", "is not valid YAML"),
        ("1: 2", "1: is unknown"),
        ('"a\\nb": 2', '"a\\nb": is unknown'),
        ('"a\\nb": 2\n"a\\nb": 2', '"a\\nb" stands more than once'),
        ("max_contexts: &n 2\nshares: *n", "line 2, column 9: aliases are not supported"),
        ("shares: &a [*a]", "aliases are not supported"),
        ("shares: " + "[" * 30, "line 1, column 29: too many brackets in brackets"),
        ("shares: " + "{a: " * 30, "too many brackets in brackets"),
        ("- " * 30000, "is not valid YAML: maximum recursion depth exceeded"),
        ("shares: !!int ''", "is not valid YAML: a value does not fit its tag"),
        ("shares: !!bool 2", "is not valid YAML: a value does not fit its tag"),
        ("shares: !!timestamp 2", "is not valid YAML: a value does not fit its tag"),
        ("#" * 65536 + "\nshares: 2", "cannot be read: it is larger than 64 KiB"),
    ],
)
def test_broken_file_is_told(problems, text, words):
    assert any(words in problem for problem in problems(text))


def test_file_that_is_no_text(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_bytes(b"shares: \xff\xfe")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        load_config({}, {}, str(file))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.mkdir(), "cannot be read: Is a directory"),
        (os.mkfifo, "cannot be read: it is no regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "cannot be read: it is no regular file"),
        (lambda path: path.symlink_to(path), "cannot be read: Too many levels of symbolic links"),
        (lambda path: path.symlink_to("nowhere"), "there is no such file"),
    ],
    ids=["directory", "fifo", "device", "loop", "dangling"],
)
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, make, words):
    file = tmp_path / "config.yaml"
    make(file)
    with pytest.raises(ConfigError, match=words):
        load_config({}, {}, str(file))


def test_entries_of_lists(load):
    config = load("extra_devices: [/dev/rga:rw]\nmounts: ['/a/./b/:/c']\n").config
    assert config.extra_devices == (ExtraDevice("/dev/rga", "rw"),)
    assert config.mounts == (HostMount("/a/b", "/c", True),)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        (":9475", "", 9475),
        ("[::1]:80", "::1", 80),
        ("0.0.0.0:1", "0.0.0.0", 1),
        ("192.0.2.12:65535", "192.0.2.12", 65535),
    ],
)
def test_addresses(load, text, host, port):
    config = load(f"listen: '{text}'").config
    assert config.listen == (host, port)
    assert plain(config)["listen"] == text


def test_localhost_is_an_address(load):
    """Looking it up could give another one than systemd has been told to listen on."""
    assert load("listen: 'localhost:80'").config.listen == ("127.0.0.1", 80)


# The commands


def test_check_of_a_good_file_says_nothing(tmp_path, capsys):
    file = tmp_path / "config.yaml"
    file.write_text("shares: 2\n")
    assert main(["config", "--check", str(file)]) == 0
    assert capsys.readouterr() == ("", "")


def test_check_of_a_bad_file_ends_with_2_and_the_reason(tmp_path, capsys):
    file = tmp_path / "config.yaml"
    file.write_text("shares: 101\n")
    assert main(["config", "--check", str(file)]) == 2
    assert (
        f"{file}: shares: must be a whole number from 1 to 100, not 101." in capsys.readouterr().err
    )


def test_check_of_no_name_is_no_check_of_the_default_file(capsys):
    assert main(["config", "--check", ""]) == 2


def test_check_looks_at_the_file_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RKNPU_PLUGIN_SHARES", "0")
    file = tmp_path / "config.yaml"
    file.write_text("shares: 2\n")
    assert main(["config", "--check", str(file)]) == 0


def test_effective_configuration_can_be_used_as_a_file(tmp_path, capsys, load):
    file = tmp_path / "mine.yaml"
    file.write_text("shares: 3\nextra_devices: [/dev/rga]\nmounts: [/a:/b]\n")
    assert main(["config", "--config", str(file), "--max-contexts=2"]) == 0
    printed = capsys.readouterr().out
    assert f"shares: 3  # {file}" in printed
    assert "max_contexts: 2  # command line" in printed
    assert 'resource: "rocknpu.device/npu"  # default' in printed
    again = plain(load(printed).config)
    assert again == {
        **DEFAULTS,
        "shares": 3,
        "extra_devices": ["/dev/rga"],
        "mounts": ["/a:/b"],
        "max_contexts": 2,
    }


def test_effective_configuration_as_json(tmp_path, capsys):
    file = tmp_path / "mine.yaml"
    file.write_text("shares: 3\n")
    assert main(["config", "--config", str(file), "--format", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["values"]["shares"] == 3
    assert printed["origins"]["shares"] == str(file)


def test_serve_ends_with_2_before_it_does_anything(tmp_path, capsys):
    file = tmp_path / "config.yaml"
    file.write_text("shares: 101\n")
    assert main(["serve", "--config", str(file), f"--kubelet-dir={tmp_path}"]) == 2
    assert "shares: must be" in capsys.readouterr().err
    assert [entry.name for entry in tmp_path.iterdir()] == ["config.yaml"]


# Reloading


def test_reload_changes_what_containers_get(kubelet, run_plugin):
    kubelet.start()
    plugin = run_plugin()
    kubelet.wait_client()
    plugin.reload(max_contexts=5, permissions="r")
    response = kubelet.allocate(["npu0-share-0"])[0]
    assert response.envs["RKNN_MAX_CONTEXTS"] == "5"
    assert {device.permissions for device in response.devices} == {"r"}
    assert len(kubelet.clients) == 1


def test_broken_reload_keeps_what_runs_and_says_so(kubelet, run_plugin, capfd):
    set_up_logging("text", "info")
    kubelet.start()
    plugin = run_plugin(shares=2)
    kubelet.wait_client()
    plugin.reload(shares=0)
    assert plugin.metric("rknpu_plugin_config_last_reload_successful") == 0
    assert "not reloaded" in capfd.readouterr().err
    assert kubelet.allocatable == 2
    assert plugin.plugin.config.shares == 2
    plugin.reload(shares=3)
    assert plugin.metric("rknpu_plugin_config_last_reload_successful") == 1
    kubelet.wait(lambda: kubelet.allocatable == 3)


@pytest.mark.parametrize("key", [key.name for key in KEYS if not key.reloadable])
def test_keys_that_need_a_restart_say_so(kubelet, run_plugin, key):
    values = {
        "resource": "example.org/npu",
        "host_root": "/host",
        "kubelet_dir": "/elsewhere",
        "listen": ":1",
    }
    plugin = run_plugin()
    before = plugin.plugin.config
    plugin.reload(**{key: values[key]})
    assert plugin.plugin.config == before
    assert plugin.metric("rknpu_plugin_config_last_reload_successful") == 0
