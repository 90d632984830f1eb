"""Rules for the variables of one host, with the roles' own argument specifications."""

from __future__ import annotations

import os

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.rocknpu.edge.plugins.filter.inventory_problems import inventory_problems
from ansible_collections.rocknpu.edge.plugins.plugin_utils.variable_rules import VALUE_RULES
from rknpu_plugin.config import KEYS
from unit.filter.conftest import make_hostvars

SECRET = "sekrit token-5b"


def test_every_rule_is_about_an_option(specs):
    options = {name for role in specs.values() for name in role}
    assert set(VALUE_RULES) <= options


def test_defaults_of_all_roles_are_sound(specs, problems_of):
    defaults = {
        name: option["default"]
        for role in specs.values()
        for name, option in role.items()
        if "default" in option and "{{" not in str(option["default"]) and name != "k3s_token"
    }
    assert len(defaults) > 10
    assert problems_of(**defaults) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("device_plugin_shares", 1),
        ("device_plugin_shares", "2"),
        ("device_plugin_shares", 100),
        ("device_plugin_shares", None),
        ("device_plugin_max_contexts", 1),
        ("device_plugin_resource", "rockchip.com/npu"),
        ("device_plugin_mode", "absent"),
        ("device_plugin_mode", "daemonset"),
        ("device_plugin_image_registry", ""),
        ("device_plugin_image_registry", "registry.example.org:5000/edge/npu"),
        ("device_plugin_extra_devices", ["/dev/rga", "/dev/dri/card0:rw"]),
        ("device_plugin_mounts", ["/usr/lib/librknnrt.so", "/a:/b", "/a:/c:ro", "/c:/d:rw"]),
        ("device_plugin_listen", ""),
        ("device_plugin_listen", ":9475"),
        ("device_plugin_listen", "[::1]:9475"),
        ("device_plugin_listen", "192.0.2.1:65535"),
        ("device_plugin_listen", "localhost:9475"),
        ("device_plugin_permissions", "rwm"),
        ("device_plugin_cache_dir", "~/.cache/not/yet/there"),
        ("k3s_kubeconfig", "~/.kube/not/yet/there.yaml"),
        ("k3s_node_name", "a" * 63),
        ("k3s_node_name", "rk3588-node-01.lan"),
        ("k3s_node_ip", "192.0.2.12"),
        ("k3s_node_ip", "2001:db8::12"),
        ("k3s_node_ip", "192.0.2.12,2001:db8::12"),
        ("k3s_node_ip", ""),
        ("k3s_version", "v1.37.2+standin1"),
        ("k3s_version", "v1.37.0-rc1+k3s1"),
        ("k3s_checksum", "0" * 64),
        ("k3s_config_host", {"kubelet-arg": ["max-pods=20"]}),
        ("k3s_config_server", {"write-kubeconfig-mode": "0640"}),
        ("k3s_mirror_url", ""),
        ("k3s_mirror_url", "http://mirror.lan/k3s/"),
        ("k3s_no_proxy", [".lan", "192.0.2.0/24"]),
        ("k3s_proxy", "http://user:pass%21@proxy.lan:3128"),
        ("k3s_registries", {"mirrors": {"docker.io": {"endpoint": ["https://x"]}}, "configs": {}}),
        ("k3s_kubelet_config", {"maxPods": 20}),
        ("k3s_reboot", "yes"),
        ("npu_state", "absent"),
        ("npu_device_mode", "0660"),
    ],
)
def test_sound_values(problems_of, name, value):
    assert problems_of(**{name: value}) == []


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        *(
            ("device_plugin_shares", value, f"must be a whole number from 1 to 100, not {shown}")
            for value, shown in [
                (0, "0"),
                (101, "101"),
                (-1, "-1"),
                ("two", '"two"'),
                ("", '""'),
                ("1.5", '"1.5"'),
                (1.5, "1.5"),
                (True, "true"),
                ([2], "a list"),
            ]
        ),
        (
            "device_plugin_mode",
            "pod",
            'must be one of service, daemonset, absent, not "pod"',
        ),
        (
            "device_plugin_image_registry",
            "https://registry.example.org",
            "must be a registry and a path in lower case, such as registry.example.org/edge, not "
            '"https://registry.example.org"',
        ),
        ("device_plugin_image_base", "", 'must be the name of an image, not ""'),
        ("device_plugin_max_contexts", 0, "must be a whole number from 1 to 2147483647, not 0"),
        (
            "device_plugin_max_contexts",
            2**31,
            "must be a whole number from 1 to 2147483647, not 2147483648",
        ),
        (
            "device_plugin_max_shares_per_container",
            "x",
            'must be a whole number from 1 to 100, not "x"',
        ),
        ("device_plugin_max_shares_per_container", 101, "must be a whole number from 1 to 100, n"),
        ("device_plugin_max_contexts", "9" * 5000, "must be a whole number from 1 to"),
        *(
            ("device_plugin_permissions", value, "must be letters out of r, w and m, each once")
            for value in ["", "x", "rr", "rw\n", ["r"]]
        ),
        *(
            (
                "device_plugin_listen",
                value,
                "must be ADDRESS:PORT, :PORT or empty, with a port to 65535",
            )
            for value in ["9475", ":0", ":65536", ":99999", "host:", 9475, ":80\n"]
        ),
        ("device_plugin_listen", "::1:80", "must have an IPv6 address in brackets"),
        ("device_plugin_listen", "board.lan:80", "must begin with an address of the machine that"),
        ("device_plugin_listen", "[fe80::1%eth0]:80", "must have an IPv6 address in its brackets"),
        *(
            ("device_plugin_extra_devices", [value], "has an entry, number 1, that is not /dev/NAM")
            for value in ["rga", "/dev", "/dev/../etc/shadow", "/dev/rga:x", "/dev/rga:", 1, {}]
        ),
        (
            "device_plugin_extra_devices",
            ["/dev/rga", "/dev//rga:r"],
            "has an entry, number 2, that repeats another",
        ),
        *(
            ("device_plugin_mounts", ["/a", value], "has an entry, number 2, that is not HOST, HO")
            for value in ["b", "/", "/b:/", "/b:c", "/b:/c:rx", "/b:/c:ro:x", "/../b", ""]
        ),
        ("device_plugin_mounts", ["/a", "/b:/a"], "has an entry, number 2, that repeats another"),
        ("device_plugin_cache_dir", "", "must be the path of a directory on the control node"),
        (
            "device_plugin_cache_dir",
            "/etc/hostname/x/y",
            "cannot be made on the control node, wher",
        ),
        ("device_plugin_image_dir", "", "is empty; set"),
        ("k3s_kubeconfig", "", "must be the path of a file on the control node"),
        ("k3s_kubeconfig", "~nobody-of-that-name/x", "must be the path of a file on the control"),
        ("k3s_kubeconfig", "/etc", "must be the path of a file on the control node, where it is a"),
        ("k3s_kubeconfig", "/etc/hostname/config", "cannot be made on the control node, where"),
        ("k3s_kubeconfig", ["x"], "must be the path of a file on the control node, not a list"),
        ("k3s_kubeconfig_context", "", "is empty; set"),
        ("npu_device_group", "", "is empty; set"),
        (
            "device_plugin_resource",
            "npu",
            '"npu" is no valid resource name: it must be DOMAIN/NAME',
        ),
        ("device_plugin_resource", 3, "must be text such as rocknpu.device/npu, not 3"),
        ("device_plugin_mode", "servic", 'must be one of service, daemonset, absent, not "servic"'),
        ("device_plugin_extra_devices", "/dev/rga", 'must be a list, not "/dev/rga"'),
        ("device_plugin_mounts", {"/a": "/b"}, "must be a list, not a dictionary"),
        (
            "device_plugin_log_level",
            True,
            "must be text; numbers and words such as yes need quotes",
        ),
        ("k3s_node_name", "Node_1", "must be a node name by RFC 1123"),
        ("k3s_node_name", 7, "must be a node name by RFC 1123"),
        ("k3s_node_name", "a" * 64, "must be a node name by RFC 1123"),
        ("k3s_node_name", f"{'a' * 40}.{'b' * 23}", "must be a node name by RFC 1123"),
        ("k3s_node_ip", "192.0.2.300", "must be an IP address, or an IPv4 and an IPv6 address"),
        ("k3s_node_ip", "192.0.2.1,192.0.2.2", "must be an IP address, or an IPv4 and"),
        ("k3s_node_ip", 3221225996, "must be an IP address"),
        ("k3s_version", "v1.37.1", "must be the full name of a release, such as v1.37.1+k3s1"),
        ("k3s_version", 1.37, "must be the full name of a release, such as v1.37.1+k3s1, not 1.37"),
        ("k3s_version", None, "has no value"),
        ("k3s_checksum", "abc", 'must be a SHA-256, 64 hexadecimal digits, not "abc"'),
        ("k3s_mirror_url", "ftp://x", "must be an address that begins with https:// or http://"),
        ("k3s_mirror_url", "https://u:p@x/k3s", "must be an address that begins with https:// or"),
        ("k3s_no_proxy", ["a,b"], "must be a list of host names, domains, addresses or networks"),
        ("k3s_no_proxy", "a", "must be a list of host names"),
        (
            "k3s_kubelet_config",
            {"kind": "x"},
            "must be a dictionary of KubeletConfiguration fields",
        ),
        ("k3s_node_ip", "2001:db8:0::1", "must be an IP address, or an IPv4 and an IPv6 address"),
        (
            "k3s_config",
            {"write-kubeconfig-mode": 0o640},
            "must have write-kubeconfig-mode in quotes, because YAML reads 0640 as the number 416",
        ),
        ("k3s_reboot", "maybe", 'must be true or false, not "maybe"'),
        ("k3s_ready_timeout", 0, "must be a whole number of 1 or more, not 0"),
        ("k3s_config", "disable: traefik", "must be a dictionary"),
        (
            "k3s_config_host",
            {"server": "x", "token": "y"},
            "must not have the key server, token, w",
        ),
        ("k3s_config_server", {"write-kubeconfig": "x"}, "must not have the key write-kubeconfig,"),
        (
            "k3s_config_agent",
            {"--disable": "x"},
            "must have k3s' flags as keys without the leading",
        ),
        ("npu_state", "yes", 'must be one of auto, present, absent, not "yes"'),
        ("npu_device_mode", 0o666, "must be a quoted octal number"),
        ("npu_device_mode", "0888", "must be a quoted octal number"),
    ],
)
def test_broken_rules_name_host_variable_rule_and_place(problems_of, name, value, rule):
    (sentence,) = problems_of(**{name: value})
    assert sentence.startswith(f"board-01: {name}: {rule}")
    assert sentence.endswith("; set it in host_vars/board-01.yml.")


@pytest.mark.parametrize("scheme", ["https://", "https:/", ""])
@pytest.mark.parametrize("name", ["k3s_mirror_url", "k3s_server_url"])
def test_a_password_in_an_address_is_not_told(problems_of, name, scheme):
    sentences = problems_of(**{name: f"{scheme}edge:hunter2@x/k3s"})
    assert sum(text.startswith(f"board-01: {name}: must be ") for text in sentences) == 1
    assert "hunter2" not in str(sentences)


def test_read_only_home(problems_of, monkeypatch, tmp_path):
    """Root may write anywhere, so the answer is not asked of the system here."""
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    (tmp_path / "config").touch()
    for name, path, rule in [
        ("k3s_kubeconfig", "config", "is a file that this user may not write"),
        (
            "k3s_kubeconfig",
            "a/b/config",
            f"cannot be made on the control node, where this user may not write to {tmp_path}",
        ),
        ("device_plugin_cache_dir", "a", "cannot be made on the control node, where this user may"),
    ]:
        (sentence,) = problems_of(**{name: str(tmp_path / path)})
        assert sentence.startswith(f"board-01: {name}: {rule}")


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("shares", [0, 1, 100, 101, True]),
        ("max_contexts", [0, 1, 1000, 2**31 - 1, 2**31]),
        ("max_shares_per_container", [0, 1, 100, 101]),
        ("permissions", ["", "r", "rwm", "rr", "x", "rw\n"]),
        ("listen", ["", ":1", ":0", ":65536", "a:1", "[::1]:1", "::1:1", "a", 1, ":1\n", "[a:1"]),
        ("listen", ["[]:1", "[a]:1", "[::1%a]:1", "1.2.3.4:1", "256.0.0.1:1", "*:1", "a b:1"]),
        ("listen", ["localhost:1", "Localhost:1", "\u00e9:1", "a.b-c:1", "1:1", "[::1:1", "1.2:1"]),
        ("extra_devices", [["/dev/a"], ["/dev/a:rw"], ["/dev/a:"], ["/dev"], ["/dev/../a"], "a"]),
        ("extra_devices", [["/dev/a", "/dev//a:r"], ["//dev/a"], ["/dev/a:rw:r"], [1], []]),
        (
            "mounts",
            [["/a"], ["/a:/b"], ["/a:/b:rw"], ["/a:/b:x"], ["/a:b"], ["/"], ["/:/a"], "a"],
        ),
        ("mounts", [["/a", "/b:/a"], ["/a/../b"], ["/a:/b/.."], ["/a:/"], [""], ["/a:"], [{}]]),
        ("log_level", ["info", "INFO", ""]),
        ("resource", ["a.b/c", "a", "kubernetes.io/npu", ""]),
    ],
)
def test_inventory_and_plugin_take_the_same(problems_of, key, values):
    """The plugin stops at a value that it does not take, so the inventory must not have it."""
    read = {one.name: one.read for one in KEYS}[key]
    for value in values:
        try:
            read(value)
        except ValueError:
            taken = False
        else:
            taken = True
        assert (problems_of(**{f"device_plugin_{key}": value}) == []) is taken, value


@pytest.mark.parametrize(
    "url",
    [
        "http://192.0.2.11:6443",
        "https://192.0.2.11/x",
        "https://192.0.2.11:",
        "https://2001:db8::11:6443",
        "https://u:p@x:6443",
    ],
)
def test_address_of_the_api(specs, url):
    both = {"k3s_token": "0123456789abcdef", "k3s_server_url": url}
    (sentence,) = inventory_problems(make_hostvars({"s": both}, {"a": both}), ["s", "a"], specs)
    assert sentence.startswith("s, a: k3s_server_url: must be https://ADDRESS:PORT without a path")
    both = {**both, "k3s_server_url": "https://[2001:db8::11]:6443"}
    assert inventory_problems(make_hostvars({"s": both}, {"a": both}), ["s", "a"], specs) == []


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("", "is empty"),
        (SECRET, "must be one word"),
        (f"{SECRET}\n", "must be one word"),
        ("K10sekrit", "begins with K10 but is no full token"),
        (20260101, "must be text; put it in quotes"),
        (["sekrit"], "must be text"),
    ],
)
def test_token_is_never_shown(problems_of, value, rule):
    sentences = problems_of(k3s_token=value)
    assert f"board-01: k3s_token: {rule}" in sentences[0]
    for sentence in sentences:
        assert "sekrit" not in sentence
        assert "20260101" not in sentence


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("k3s_proxy", f"socks5://u:{SECRET}@x"),
        ("k3s_proxy", [SECRET]),
        ("k3s_registries", {"auths": {"registry.lan": {"password": SECRET}}}),
        ("k3s_registries", SECRET),
        ("k3s_config_server", {"--datastore-endpoint": SECRET}),
    ],
)
def test_other_secrets_are_never_shown(problems_of, name, value):
    (sentence,) = problems_of(**{name: value})
    assert "sekrit" not in sentence


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("device_plugin_share", "did you mean device_plugin_shares? Rename or remove it."),
        ("k3s_nodeip", "did you mean k3s_node_ip? Rename or remove it."),
        ("npu_zzzzzzzzzz", "rename or remove it."),
        ("deviceplugin_shares", "did you mean device_plugin_shares? Rename or remove it."),
        ("device_plguin_shares", "did you mean device_plugin_shares? Rename or remove it."),
        ("device-plugin-shares", "did you mean device_plugin_shares? Rename or remove it."),
        ("K3S_TOKEN", "did you mean k3s_token? Rename or remove it."),
        ("k3_token", "did you mean k3s_token? Rename or remove it."),
    ],
)
def test_unknown_variables(problems_of, name, hint):
    rule = "no role of this collection has this variable"
    assert problems_of(**{name: "x"}) == [f"board-01: {name}: {rule}; {hint}"]


def test_variables_of_others_are_left_alone(problems_of):
    others = {"npu": 1, "k3sup_x": 2, "_k3s_x": 3, "board_type": "x", "k8s_token": 4, "state": 5}
    assert problems_of(ansible_host="x", vault_k3s_token="x", my_k3s_version=1, **others) == []


def test_what_is_a_role_s_own_is_left_alone(problems_of):
    assert problems_of(__k3s_kubeconfig={"rc": 0}, __npu_board={}, _k3s_token="x") == []


def test_all_problems_are_told_at_once(problems_of):
    assert len(problems_of(device_plugin_shares=0, npu_state="x", k3s_node_ip="x", k3s_x=1)) == 4


NESTED = {
    "monitoring": {
        "monitoring_targets": {
            "type": "list",
            "elements": "dict",
            "options": {"port": {"type": "int", "required": True}, "tls": {"type": "bool"}},
        },
        "monitoring_kinds": {"type": "list", "elements": "str", "choices": ["node", "npu"]},
        "monitoring_ratio": {"type": "float"},
        "monitoring_any": {"type": "raw"},
        "monitoring_key": {"type": "int", "no_log": True},
        "monitoring_name": {"type": "str", "required": True},
    }
}


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({}, None),
        ({"monitoring_targets": [{"port": "80", "tls": "yes"}]}, None),
        ({"monitoring_kinds": ["npu", "node"], "monitoring_ratio": "0.5"}, None),
        ({"monitoring_any": {"x": [None]}}, None),
        (
            {"monitoring_targets": [{"port": 1}, {"port": "x"}]},
            'monitoring_targets[1].port: must be a whole number, not "x"',
        ),
        ({"monitoring_targets": [{}]}, "monitoring_targets[0].port: is missing"),
        (
            {"monitoring_targets": [{"port": 1, "tsl": 1}]},
            "monitoring_targets[0].tsl: is no key; there are port, tls",
        ),
        ({"monitoring_kinds": ["cpu"]}, 'monitoring_kinds[0]: must be one of node, npu, not "cpu"'),
        ({"monitoring_ratio": "half"}, 'monitoring_ratio: must be a number, not "half"'),
        ({"monitoring_key": "sekrit"}, "monitoring_key: must be a whole number; set it in"),
        ({"monitoring_name": None}, "monitoring_name: has no value"),
    ],
)
def test_types_come_from_the_specs(variables, sentence):
    hostvars = {"a": {"monitoring_name": "x", **variables}}
    sentences = inventory_problems(hostvars, ["a"], NESTED)
    if sentence is None:
        assert sentences == []
    else:
        assert [text.startswith(f"a: {sentence}") for text in sentences] == [True]


def test_required_variables():
    sentences = inventory_problems({"a": {}, "b": {"monitoring_name": "x"}}, ["a", "b"], NESTED)
    assert sentences == ["a: monitoring_name: is missing; set it in host_vars/a.yml."]


@pytest.mark.parametrize("arguments", [("text", ["a"], {}), ({}, ["a"], ["k3s"])])
def test_misuse(arguments):
    with pytest.raises(AnsibleFilterError, match="needs hostvars, and specs by role"):
        inventory_problems(*arguments)
