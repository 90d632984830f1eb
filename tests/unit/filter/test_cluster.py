"""Rules that look at all hosts together."""

from __future__ import annotations

import pytest
from ansible_collections.rocknpu.edge.plugins.filter.inventory_problems import inventory_problems
from unit.filter.conftest import make_hostvars

TOKEN = {"k3s_token": "0123456789abcdef"}
FULL_TOKEN = "K10" + "0" * 64 + "::server:0123456789abcdef"


def find(servers, agents, specs, hosts=None):
    hostvars = make_hostvars(servers, agents)
    return inventory_problems(hostvars, hosts or [*hostvars], specs)


def test_sound_cluster(specs):
    assert find({"s": TOKEN}, {"a": TOKEN, "b": TOKEN}, specs) == []


def test_agents_may_have_the_full_form_of_the_same_token(specs):
    assert find({"s": TOKEN}, {"a": {"k3s_token": FULL_TOKEN}}, specs) == []


def test_control_node_without_the_kubernetes_client(specs, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    (problem,) = find({"s1": TOKEN}, {}, specs)
    assert "has no package kubernetes; install it (" in problem


def test_no_server(specs):
    (sentence,) = find({}, {"a": TOKEN}, specs)
    assert sentence == (
        "inventory: k3s_server: has no host; put the host there that is to run the API server."
    )


ENDPOINT = {"datastore-endpoint": "postgres://k3s:hunter2@192.0.2.9/k3s"}


@pytest.mark.parametrize("number", [1, 3, 5])
def test_odd_number_of_servers(specs, number):
    assert find({f"s{n}": TOKEN for n in range(number)}, {}, specs) == []


@pytest.mark.parametrize("number", [2, 4])
def test_even_number_of_servers(specs, number):
    (sentence,) = find({f"s{n}": TOKEN for n in range(number)}, {"a": TOKEN}, specs)
    assert sentence.startswith("inventory: k3s_server: must have an odd number of hosts, because")
    assert "and has s0, s1" in sentence


@pytest.mark.parametrize("name", ["k3s_config", "k3s_config_server", "k3s_config_host"])
def test_external_datastore_takes_any_number_of_servers(specs, name):
    both = TOKEN | {name: ENDPOINT}
    assert find({"s": both, "t": both}, {"a": TOKEN}, specs) == []


def test_server_without_etcd_has_no_vote(specs):
    plain = TOKEN | {"k3s_config_host": {"disable-etcd": True}}
    assert find({"s": TOKEN, "t": plain}, {}, specs) == []


def test_servers_that_do_not_share_their_datastore(specs):
    (sentence,) = find({"s": TOKEN | {"k3s_config_host": ENDPOINT}, "t": TOKEN}, {}, specs)
    assert "datastore-endpoint in k3s_config_server: there must be one datastore" in sentence
    assert "hunter2" not in sentence


def test_host_in_both_groups_and_in_neither(specs):
    hostvars = make_hostvars({"s": TOKEN}, {"a": TOKEN, "b": TOKEN})
    hostvars["a"]["group_names"] = ["k3s_cluster"]
    hostvars["b"]["group_names"] = ["k3s_agent", "k3s_cluster", "k3s_server"]
    sentences = inventory_problems(hostvars, ["s", "a", "b"], specs)
    assert sentences[0].startswith("a: groups: the host is in neither k3s_server nor k3s_agent;")
    assert sentences[1].startswith("b: groups: the host is in both k3s_server and k3s_agent;")


def test_missing_token_is_said_once_for_all_hosts(specs):
    (sentence,) = find({"s": {}}, {"a": {}, "b": {}}, specs)
    assert sentence.startswith("s, a, b: k3s_token: is missing; set one for the whole cluster in")


def test_full_token_on_the_server(specs):
    (sentence,) = find({"s": {"k3s_token": FULL_TOKEN}}, {"a": TOKEN}, specs)
    assert sentence.startswith("s: k3s_token: must be the short form on a server")
    assert "0123" not in sentence


def test_tokens_that_differ(specs):
    (sentence,) = find({"s": TOKEN}, {"a": {"k3s_token": "sekrit"}}, specs)
    assert sentence.startswith("inventory: k3s_token: there must be one token for the whole")
    assert "sekrit" not in sentence
    assert "0123" not in sentence


def test_addresses_of_the_api_that_differ(specs):
    one, other = {"k3s_server_url": "https://x:6443"}, {"k3s_server_url": "https://y:6443"}
    (sentence,) = find({"s": TOKEN | one}, {"a": TOKEN | one, "b": TOKEN | other}, specs)
    assert "k3s_server_url: there must be one address of the API server" in sentence
    assert "differs between s, a, b;" in sentence
    assert find({"s": TOKEN | one}, {"a": TOKEN | one, "b": TOKEN | one}, specs) == []


def test_address_of_the_api_that_some_do_not_have(specs):
    (sentence,) = find({"s": TOKEN}, {"a": TOKEN | {"k3s_server_url": "https://x:6443"}}, specs)
    assert sentence.startswith(
        "inventory: k3s_server_url: there must be one way to reach the API server, but s would"
    )


@pytest.mark.parametrize("name", ["rk3588_node", "Rock", "rock-"])
def test_name_in_the_inventory_that_is_no_node_name(specs, name):
    (sentence,) = find({"s": TOKEN}, {name: TOKEN}, specs)
    assert sentence.startswith(f"{name}: k3s_node_name: is the host's name in the inventory by")
    assert find({"s": TOKEN}, {name: TOKEN | {"k3s_node_name": "rock"}}, specs) == []


def test_node_name_of_another_host(specs):
    (sentence,) = find({"s": TOKEN}, {"a": TOKEN | {"k3s_node_name": "s"}}, specs)
    assert 'k3s_node_name: must be unique in the cluster, but a, s all have "s";' in sentence


def test_node_address_of_another_host(specs):
    same = TOKEN | {"k3s_node_ip": "192.0.2.11"}
    (sentence,) = find({"s": same}, {"a": same, "b": TOKEN}, specs)
    assert "k3s_node_ip: must be unique in the cluster, but a, s all have 192.0.2.11;" in sentence


@pytest.mark.parametrize(
    ("server", "agent"),
    [
        ({"ansible_host": "192.0.2.11"}, {"ansible_host": "192.0.2.11"}),
        ({}, {"ansible_host": "s"}),
        ({"ansible_host": "x", "ansible_port": "22"}, {"ansible_host": "x"}),
    ],
)
def test_one_machine_under_two_names(specs, server, agent):
    (sentence,) = find({"s": TOKEN | server}, {"a": TOKEN | agent, "b": TOKEN}, specs)
    assert sentence.startswith(
        "inventory: ansible_host: must be another machine for each, but s, a all have "
    )
    assert find({"s": TOKEN | server}, {"a": TOKEN | agent | {"ansible_port": 2222}}, specs) == []


def test_limit_does_not_hide_the_rest_of_the_cluster(specs):
    agents = {"a": TOKEN | {"k3s_node_name": "s"}, "b": {**TOKEN, "device_plugin_shares": 0}}
    (sentence,) = find({"s": TOKEN}, agents, specs, hosts=["a"])
    assert "must be unique in the cluster, but a, s all" in sentence
    assert find({"s": TOKEN}, {"a": TOKEN}, specs, hosts=["a"]) == []


def test_cluster_that_is_set_up_by_other_means(specs):
    assert inventory_problems({"a": {"device_plugin_shares": 2}}, ["a"], specs) == []
