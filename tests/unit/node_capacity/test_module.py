"""What users get from the module, one test for each thing that can be wrong."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.rocknpu.edge.plugins.module_utils.kube_api import AUTH_ARGUMENTS, connect
from ansible_collections.rocknpu.edge.plugins.modules import node_capacity
from unit.module_process import run_module
from unit.node_capacity.conftest import PATIENCE, TOKEN
from unit.node_capacity.kube_server import KubeServer, make_certificates, make_node, make_pod


def access(server: KubeServer, **more: Any) -> dict[str, Any]:
    return {"host": server.url, "api_key": TOKEN, **more}


def write_kubeconfig(path: Path, server: KubeServer, token: str = TOKEN, **cluster: Any) -> str:
    """Write a kubeconfig with the contexts "edge" (current) and "wrong"."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "edge", "cluster": {"server": server.url, **cluster}}],
        "users": [
            {"name": "good", "user": {"token": token}},
            {"name": "bad", "user": {"token": "other"}},
        ],
        "contexts": [
            {"name": "edge", "context": {"cluster": "edge", "user": "good"}},
            {"name": "wrong", "context": {"cluster": "edge", "user": "bad"}},
        ],
        "current-context": "edge",
    }
    path.write_text(yaml.safe_dump(config))
    return str(path)


# Nodes


def test_success_returns_what_each_node_offers(server, run):
    server.nodes = [make_node("node-02", "4", "3"), make_node("node-01")]
    server.pods = [
        make_pod("a", "node-01"),
        make_pod("b", "node-02", "2"),
        make_pod("c", "node-02"),
    ]
    answer = run(**access(server), nodes=["node-01", "node-02"], expected=None, minimum=2)
    node = {"name": "node-01", "state": "ok", "ready": True, "capacity": 2, "allocatable": 2}
    other = {"name": "node-02", "state": "ok", "ready": True, "capacity": 4, "allocatable": 3}
    assert answer["nodes"] == [
        {**node, "message": "", "requested": 1, "free": 1, "rejected_pods": []},
        {**other, "message": "", "requested": 3, "free": 0, "rejected_pods": []},
    ]
    assert answer["changed"] is False
    assert answer["waited"] >= 0
    assert "warnings" not in answer


def test_each_node_may_have_a_number_of_its_own(server, run):
    server.nodes = [make_node("node-01"), make_node("node-02", "1", "1")]
    both = {**access(server), "nodes": ["node-01", "node-02"]}
    assert "failed" not in run(**both, expected={"node-01": "2", "node-02": 1, "node-03": 7})
    answer = run(**both, expected={"node-01": 2, "node-02": 3})
    assert [node["state"] for node in answer["nodes"]] == ["ok", "fewer"]
    assert answer["nodes"][0]["message"] == ""
    assert answer["msg"] == f"node-02: {answer['nodes'][1]['message']}"


def test_free_is_never_below_zero(server, run):
    server.nodes = [make_node("node-01", "2", "1")]
    server.pods = [make_pod("a", "node-01"), make_pod("b", "node-01")]
    node = run(**access(server), expected=None, minimum=1)["nodes"][0]
    assert (node["requested"], node["free"]) == (2, 0)


@pytest.mark.parametrize(
    ("node", "state", "says"),
    [
        (make_node("node-03"), "missing", "no node of this name, its nodes are node-03;"),
        (make_node("node-01", ready="False", message="no cni"), "not_ready", "NotReady: no cni;"),
        (make_node("node-01", None, None), "never_registered", "was never registered there;"),
        (make_node("node-01", "2", "0"), "none_allocatable", "allocatable is 0 and capacity 2"),
        (make_node("node-01", "0", "0"), "none_allocatable", "allocatable is 0 and capacity 0"),
        (make_node("node-01", "2", "1"), "fewer", "is 1, fewer than expected (exactly 2)"),
        (make_node("node-01", "3", "3"), "more", "more than expected (exactly 2)"),
    ],
)
def test_each_fault_has_its_own_message(server, run, node, state, says):
    server.nodes = [node]
    answer = run(**access(server))
    assert answer["msg"].startswith("node-01: ")
    assert says in answer["msg"]
    assert (answer["reason"], answer["nodes"][0]["state"]) == ("nodes", state)


def test_all_failing_nodes_are_in_one_message(server, run):
    server.nodes = [make_node("node-01"), make_node("node-02", "0", "0")]
    answer = run(**access(server), nodes=["node-01", "node-02", "node-03"])
    assert "node-01: " not in answer["msg"]
    assert "node-02: rocknpu.device/npu is registered, but" in answer["msg"]
    assert "node-03: the cluster has no node of this name" in answer["msg"]
    assert [node["state"] for node in answer["nodes"]] == ["ok", "none_allocatable", "missing"]


def test_nodes_named_twice_are_looked_at_once(server, run):
    server.nodes = [make_node("node-01")]
    assert len(run(**access(server), nodes=["node-01", "node-01"])["nodes"]) == 1


def test_other_resource(server, run):
    server.nodes = [make_node("node-01", None, None, **{"example.com/npu": "1k"})]
    answer = run(**access(server), resource="example.com/npu", expected=1000)
    assert answer["nodes"][0]["allocatable"] == 1000


# Waiting


def test_waits_until_the_plugin_is_back(server, run):
    server.nodes = [make_node("node-01", "0", "0")]
    timer = threading.Timer(0.4, lambda: server.nodes.__setitem__(0, make_node("node-01")))
    timer.start()
    answer = run(**access(server), timeout=PATIENCE + 30)
    assert answer["nodes"][0]["state"] == "ok"
    assert 0.2 <= answer["waited"] < 30


def test_waits_until_the_api_is_up(server, run):
    server.status = 503
    server.nodes = [make_node("node-01")]
    timer = threading.Timer(0.4, lambda: setattr(server, "status", 200))
    timer.start()
    assert run(**access(server), timeout=PATIENCE + 30)["nodes"][0]["state"] == "ok"


def test_says_what_was_seen_before_the_api_went_away(server, run):
    server.nodes = [make_node("node-01", "2", "1")]
    timer = threading.Timer(1, lambda: setattr(server, "status", 503))
    timer.start()
    answer = run(**access(server), timeout=PATIENCE + 3)
    assert answer["reason"] == "unavailable"
    assert "answers 503" in answer["msg"]
    assert "Before that: node-01: allocatable rocknpu.device/npu is 1" in answer["msg"]


def test_timeout_zero_asks_once(server, run):
    server.nodes = [make_node("node-01", "0", "0")]
    run(**access(server))
    assert len(server.requests) == 2  # nodes, and the pods of one


# The API


def refused_address() -> str:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{unused.getsockname()[1]}"


def test_refused(run):
    address = refused_address()
    answer = run(host=f"http://{address}", api_key=TOKEN)
    assert answer["reason"] == "unreachable"
    assert f"The API at http://{address} is not reachable: connection refused" in answer["msg"]
    assert "nodes" not in answer


def test_unknown_host(run, monkeypatch):
    def resolve(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    answer = run(host="https://no-such-host.invalid:6443", api_key=TOKEN)
    assert answer["reason"] == "unreachable"
    assert "not reachable: Name or service not known;" in answer["msg"]


def test_refused_api_is_waited_for_but_no_longer_than_told(run):
    start = time.monotonic()
    answer = run(host=f"http://{refused_address()}", api_key=TOKEN, timeout=PATIENCE + 1)
    assert answer["reason"] == "unreachable"
    assert 0.9 <= answer["waited"] <= time.monotonic() - start + 0.1 < PATIENCE


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("timeout", [0, 2])
def test_api_that_never_answers_does_not_hang_the_module(server, run, timeout):
    server.hangs = True
    start = time.monotonic()
    answer = run(**access(server), timeout=timeout)
    assert answer["reason"] == "unreachable"
    assert "no answer in time" in answer["msg"]
    assert time.monotonic() - start < timeout + 10


@pytest.mark.usefixtures("impatient")
def test_port_that_accepts_and_never_speaks_tls_does_not_hang_the_module(run):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"https://127.0.0.1:{silent.getsockname()[1]}"
        start = time.monotonic()
        answer = run(host=address, api_key=TOKEN)
        assert answer["reason"] == "unreachable"
        assert time.monotonic() - start < 10


def test_credentials_that_are_refused_end_the_wait_at_once(server, run):
    server.token = "another"
    answer = run(**access(server), timeout=4 * PATIENCE)
    assert answer["reason"] == "unauthorized"
    assert "does not accept the credentials (401 Unauthorized)" in answer["msg"]
    assert answer["waited"] < PATIENCE
    assert len(server.requests) == 1


@pytest.mark.parametrize("kind", ["nodes", "pods"])
def test_missing_rights_end_the_wait_at_once(server, run, kind):
    server.nodes = [make_node("node-01")]
    server.forbidden = {kind}
    answer = run(**access(server), timeout=4 * PATIENCE)
    assert answer["reason"] == "forbidden"
    assert f"does not let this user list {kind} (403 Forbidden: {kind} is forbi" in answer["msg"]
    assert answer["waited"] < PATIENCE


@pytest.mark.parametrize(
    "body", [b"<html>log in</html>", b"{}", b"[]", b"null", b'{"items": 3}', b"\xff"]
)
def test_something_else_answers(server, run, body):
    server.body = body
    answer = run(**access(server))
    assert answer["reason"] == "unavailable"
    assert "does not answer as a Kubernetes API does" in answer["msg"]


# TLS


def test_trusted_certificate(tls_server, certificates, run):
    tls_server.nodes = [make_node("node-01")]
    answer = run(**access(tls_server), ca_cert=str(certificates[0]))
    assert answer["nodes"][0]["state"] == "ok"


def test_unknown_ca_ends_the_wait_at_once(tls_server, run):
    answer = run(**access(tls_server), timeout=4 * PATIENCE)
    assert answer["reason"] == "certificate"
    assert f"certificate of the API at {tls_server.url} is not trusted" in answer["msg"]
    assert answer["waited"] < PATIENCE
    assert not tls_server.requests


def test_certificate_for_another_address(tmp_path, run):
    ca, context = make_certificates(tmp_path, "192.0.2.1")
    with KubeServer(context) as server:
        answer = run(**access(server), ca_cert=str(ca))
    assert answer["reason"] == "certificate"
    assert "IP address mismatch" in answer["msg"]


def test_validate_certs_false_takes_any_certificate(tls_server, run):
    tls_server.nodes = [make_node("node-01")]
    answer = run(**access(tls_server), validate_certs=False)
    assert answer["nodes"][0]["state"] == "ok"


def test_tls_to_a_plain_port(server, run):
    answer = run(host=server.url.replace("http:", "https:"), api_key=TOKEN)
    assert answer["reason"] == "unreachable"
    assert "TLS failed" in answer["msg"]


def test_plain_to_a_tls_port(tls_server, run):
    answer = run(host=tls_server.url.replace("https:", "http:"), api_key=TOKEN)
    assert answer["reason"] in ("unreachable", "unavailable")


# Options


def test_kubeconfig(server, tmp_path, run):
    server.nodes = [make_node("node-01")]
    answer = run(kubeconfig=write_kubeconfig(tmp_path / "config", server))
    assert answer["nodes"][0]["state"] == "ok"


def test_context(server, tmp_path, run):
    kubeconfig = write_kubeconfig(tmp_path / "config", server)
    assert run(kubeconfig=kubeconfig, context="wrong")["reason"] == "unauthorized"


def test_api_key_wins_over_the_kubeconfig(server, tmp_path, run):
    server.nodes = [make_node("node-01")]
    kubeconfig = write_kubeconfig(tmp_path / "config", server, token="stale")
    assert run(kubeconfig=kubeconfig)["reason"] == "unauthorized"
    assert run(kubeconfig=kubeconfig, api_key=TOKEN)["nodes"][0]["state"] == "ok"


def test_api_key_wins_over_a_client_certificate(server, tmp_path):
    kubeconfig = write_kubeconfig(tmp_path / "config", server)
    content = yaml.safe_load(Path(kubeconfig).read_text())
    content["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:6443"
    for entry in content["users"]:
        entry["user"] = {"client-certificate-data": "eA==", "client-key-data": "eA=="}
    Path(kubeconfig).write_text(yaml.safe_dump(content))
    options = dict.fromkeys(AUTH_ARGUMENTS) | {"kubeconfig": str(kubeconfig)}
    theirs = connect(options)._client.configuration
    ours = connect(options | {"api_key": TOKEN})._client.configuration
    assert theirs.cert_file and theirs.key_file
    assert (ours.cert_file, ours.key_file) == (None, None)


def test_kubeconfig_decides_on_certificates_until_told_otherwise(tls_server, tmp_path, run):
    tls_server.nodes = [make_node("node-01")]
    kubeconfig = write_kubeconfig(
        tmp_path / "config", tls_server, **{"insecure-skip-tls-verify": True}
    )
    assert run(kubeconfig=kubeconfig)["nodes"][0]["state"] == "ok"
    assert run(kubeconfig=kubeconfig, validate_certs=True)["reason"] == "certificate"


def test_environment(tls_server, certificates, run, monkeypatch):
    tls_server.nodes = [make_node("node-01")]
    monkeypatch.setenv("K8S_AUTH_HOST", tls_server.url + "/")
    monkeypatch.setenv("K8S_AUTH_API_KEY", TOKEN)
    assert run()["reason"] == "certificate"
    monkeypatch.setenv("K8S_AUTH_SSL_CA_CERT", str(certificates[0]))
    assert run()["nodes"][0]["state"] == "ok"
    monkeypatch.delenv("K8S_AUTH_SSL_CA_CERT")
    monkeypatch.setenv("K8S_AUTH_VERIFY_SSL", "no")
    assert run()["nodes"][0]["state"] == "ok"


def test_environment_kubeconfig_and_context(server, tmp_path, run, monkeypatch):
    server.nodes = [make_node("node-01")]
    monkeypatch.setenv("K8S_AUTH_KUBECONFIG", write_kubeconfig(tmp_path / "config", server))
    assert run()["nodes"][0]["state"] == "ok"
    monkeypatch.setenv("K8S_AUTH_CONTEXT", "wrong")
    assert run()["reason"] == "unauthorized"


def test_aliases_are_those_of_kubernetes_core(tls_server, certificates, run):
    tls_server.nodes = [make_node("node-01")]
    assert run(**access(tls_server), ssl_ca_cert=str(certificates[0]))["nodes"]
    assert run(**access(tls_server), verify_ssl=False)["nodes"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "No configuration found"),
        ("", ""),
        ("just words", ""),
        ("current-context: x\n", ""),
        (f"users: [{{token: {TOKEN}\n  broken", "is no kubeconfig file"),
    ],
)
def test_unusable_kubeconfig(tmp_path, run, content, says):
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    answer = run(kubeconfig=str(path))
    assert answer["reason"] == "configuration"
    assert answer["msg"].startswith(f"No way to the Kubernetes API: {path}")
    assert says in answer["msg"]


def test_unknown_context(server, tmp_path, run):
    kubeconfig = write_kubeconfig(tmp_path / "config", server)
    answer = run(kubeconfig=kubeconfig, context="nowhere")
    assert answer["reason"] == "configuration"
    assert "nowhere" in answer["msg"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"ca_cert": "/nonexistent/ca.pem"}, "ca_cert: there is no file /nonexistent/ca.pem"),
        ({"ca_cert": __file__}, "holds no certificate in PEM form"),
        *(
            ({"host": host}, f'at https://ADDRESS:PORT, not "{host}"')
            for host in [
                "192.0.2.11:6443",
                "https://",
                "https://[2001:db8::1",
                "https://192.0.2.11:99999",
                "https://board 01:6443",
            ]
        ),
        ({"api_key": f"{TOKEN} two"}, "api_key must be one word"),
        ({"api_key": f"{TOKEN}\nx"}, "api_key must be one word"),
    ],
)
def test_unusable_access(server, run, options, says):
    answer = run(**access(server) | options)
    assert answer["reason"] == "configuration"
    assert says in answer["msg"]
    assert not server.requests


def test_password_in_the_address_is_not_shown(run):
    answer = run(host=f"http://admin:hunter2@{refused_address()}", api_key=TOKEN)
    assert "not reachable" in answer["msg"]
    assert "hunter2" not in answer["msg"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"expected": None}, "one of the following is required: expected, minimum"),
        ({"minimum": 1}, "mutually exclusive: expected|minimum"),
        ({"expected": -1}, 'expected: must be a whole number from 0 to 999999999, not "-1".'),
        ({"expected": "two"}, 'expected: must be a whole number from 0 to 999999999, not "two".'),
        ({"expected": True}, 'expected: must be a whole number from 0 to 999999999, not "True".'),
        ({"expected": None, "minimum": 10**30}, "minimum: must be a whole number from 0 to"),
        ({"expected": {"node-02": 2}}, "expected: has no number for the node node-01."),
        (
            {"expected": {"node-01": 2.5}},
            "expected.node-01: must be a whole number from 0 to 999999999, not",
        ),
        ({"timeout": -1}, "timeout: must be 0 or more, not -1."),
        ({"nodes": []}, "nodes: must name at least one node"),
        ({"nodes": [""]}, "nodes: must name at least one node"),
        ({"resource": "npu"}, 'resource: "npu" is no valid resource name'),
    ],
)
def test_bad_options(server, run, options, says):
    answer = run(**access(server) | options)
    assert answer["failed"] is True
    assert says in answer["msg"]
    assert not server.requests


def test_check_mode_does_the_same(server, run):
    server.nodes = [make_node("node-01", "0", "0")]
    answer = run(**access(server), _ansible_check_mode=True)
    assert answer["nodes"][0]["state"] == "none_allocatable"


# As a process of its own, as ansible-playbook starts it


def run_process(server: KubeServer) -> tuple[dict[str, Any], str]:
    """Return the answer, and everything that was printed."""
    arguments = {**access(server), "nodes": ["node-01"], "expected": 2, "timeout": 0}
    return run_module(node_capacity, {**arguments, "_ansible_verbosity": 4})


def test_leftover_pods_are_a_warning_and_no_fault(server):
    server.nodes = [make_node("node-01")]
    rejected = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
    server.pods = [make_pod("left", "node-01", **rejected), make_pod("new", "node-01")]
    answer = run_process(server)[0]
    assert "failed" not in answer
    assert answer["nodes"][0]["rejected_pods"] == ["default/left"]
    assert answer["nodes"][0]["free"] == 1
    warnings = json.dumps(answer["warnings"])
    assert "node-01: pods left behind as Failed (UnexpectedAdmissionError)" in warnings
    assert "kubectl delete pod --namespace default left" in warnings


def test_api_key_is_in_no_output(server):
    server.nodes = [make_node("node-01", "0", "0")]
    answer, output = run_process(server)
    assert "allocatable is 0" in answer["msg"]
    assert answer["invocation"]["module_args"]["api_key"] != TOKEN
    assert TOKEN not in output
