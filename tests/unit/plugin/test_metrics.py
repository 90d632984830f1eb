"""Metrics and health over HTTP."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import urllib.error
import urllib.request

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from rknpu_plugin.service import DevicePluginService
from unit.plugin.kubelet_stub import PodResourcesStub
from unit.plugin.waiting import wait_for


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Web:
    def __init__(self, port):
        self.port = port

    def get(self, path, accept="*/*", method="GET"):
        """Status, content type and body; waits until the server is there."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", headers={"Accept": accept}, method=method
        )
        deadline = time.monotonic() + 10
        while True:
            try:
                with urllib.request.urlopen(request, timeout=10) as answer:
                    return answer.status, answer.headers["Content-Type"], answer.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, error.headers["Content-Type"], error.read().decode()
            except urllib.error.URLError:
                assert time.monotonic() < deadline
                time.sleep(0.02)

    def samples(self):
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in parse_text(self.get("/metrics")[2])
            for sample in family.samples
        }

    def value(self, name, **labels):
        return self.samples().get((name, tuple(sorted(labels.items()))))


@pytest.fixture
def web(run_plugin, kubelet):
    def run(**keys):
        port = free_port()
        run_plugin(listen=f"127.0.0.1:{port}", **keys)
        return Web(port)

    return run


def test_shares_by_state(web, kubelet, board, work):
    """One series for each share and its holder: https://github.com/NVIDIA/dcgm-exporter/issues/151"""
    kubelet.start()
    with PodResourcesStub(work / "kubelet") as pods:
        pods.hold("npu0-share-2", pod="inference", namespace="vision", container="rknn")
        found = web(shares=3)
        kubelet.wait_client()
        assert found.value("rknpu_shares", state="advertised") == 3
        assert found.value("rknpu_shares", state="withheld") == 0
        assert found.value("rknpu_shares", state="allocated") == 1
        where = {"namespace": "vision", "pod": "inference", "container": "rknn"}
        assert found.value("rknpu_container_share", share="npu0-share-2", **where) == 1
        assert found.value("rknpu_device_healthy", device="npu0") == 1
        board.remove_nodes()
        kubelet.wait(lambda: kubelet.allocatable == 0)
        assert found.value("rknpu_shares", state="advertised") == 3
        assert found.value("rknpu_shares", state="withheld") == 3
        assert found.value("rknpu_device_healthy", device="npu0") == 0


def test_what_is_unknown_has_no_series(web, kubelet):
    kubelet.start()
    found = web()
    kubelet.wait_client()
    assert found.value("rknpu_shares", state="allocated") is None


def test_allocations_and_failures_by_reason(web, kubelet):
    kubelet.start()
    found = web(max_shares_per_container=1)
    kubelet.wait_client()
    failures = "rknpu_plugin_allocation_failures_total"
    assert found.value(failures, reason="unknown_share") == 0
    kubelet.allocate(["npu0-share-0"])
    for shares in (["odd"], ["npu0-share-0", "npu0-share-1"]):
        with pytest.raises(Exception, match="npu"):
            kubelet.allocate(shares)
    wait_for(lambda: found.value("rknpu_plugin_allocations_total") == 1)
    assert found.value(failures, reason="unknown_share") == 1
    assert found.value(failures, reason="too_many_shares") == 1
    assert found.value(failures, reason="no_device") == 0
    assert found.value("rknpu_plugin_allocation_duration_seconds_count") == 1


def test_registrations_and_kubelet_connection(web, kubelet):
    found = web()
    assert found.value("rknpu_plugin_kubelet_connected") == 0
    kubelet.start()
    kubelet.wait_client(1)
    wait_for(lambda: found.value("rknpu_plugin_kubelet_connected") == 1)
    kubelet.restart()
    kubelet.wait_client(2)
    wait_for(lambda: found.value("rknpu_plugin_registrations_total") == 2)
    assert found.value("rknpu_plugin_list_updates_total") >= 1
    kubelet.stop()
    wait_for(lambda: found.value("rknpu_plugin_kubelet_connected") == 0)


def test_last_error(web, kubelet):
    kubelet.refuse = "no such luck"
    kubelet.start()
    found = web()

    def messages():
        return [
            dict(labels)["message"]
            for name, labels in found.samples()
            if name == "rknpu_plugin_last_error_timestamp_seconds"
        ]

    wait_for(lambda: any("no such luck" in message for message in messages()))
    # One series, whatever happens: messages are no dimension to grow along.
    assert len(messages()) == 1


def test_infos(web, kubelet):
    kubelet.start()
    found = web(shares=3, mounts="/usr/lib")
    kubelet.wait_client()
    infos = {name: dict(labels) for name, labels in found.samples() if name.endswith("_info")}
    assert set(infos["rknpu_plugin_build_info"]) == {"version", "python", "grpc", "protobuf"}
    assert infos["rknpu_plugin_config_info"]["shares"] == "3"
    assert infos["rknpu_plugin_config_info"]["mounts"] == "/usr/lib"
    assert infos["rknpu_driver_info"]["driver"] == "rknpu"
    assert infos["rknpu_driver_info"]["soc"] == "rk3588"
    assert infos["rknpu_driver_info"]["cores"] == "3"


def test_openmetrics(web):
    status, content_type, body = web().get(
        "/metrics", "application/openmetrics-text; version=1.0.0"
    )
    assert status == 200
    assert content_type.startswith("application/openmetrics-text")
    families = {family.name for family in parse_openmetrics(body)}
    assert {"rknpu_shares", "rknpu_plugin_allocations", "rknpu_plugin_build"} <= families


def test_text_format(web):
    status, content_type, body = web().get("/metrics")
    assert status == 200
    assert content_type.startswith("text/plain")
    assert "# HELP rknpu_shares " in body


def test_names_follow_the_conventions(web, kubelet):
    """https://prometheus.io/docs/practices/naming/"""
    kubelet.start()
    found = web()
    kubelet.wait_client()
    for family in parse_text(found.get("/metrics")[2]):
        assert family.name.startswith(("rknpu_", "process_"))
        assert family.documentation
        if family.type == "counter":
            assert all(s.name.endswith(("_total", "_created")) for s in family.samples)


def test_healthy_while_it_waits_for_a_kubelet(web):
    found = web()
    assert found.get("/healthz")[0] == 200
    assert found.get("/readyz")[0] == 503


def test_ready_once_the_kubelet_has_read_the_list(web, kubelet):
    kubelet.start()
    found = web()
    kubelet.wait_client()
    wait_for(lambda: found.get("/readyz")[0] == 200)
    kubelet.stop()
    wait_for(lambda: found.get("/readyz")[0] == 503)
    assert "has not read the list" in found.get("/readyz")[2]


def test_health_calls_the_plugins_own_socket(web, kubelet, monkeypatch):
    """Not an answer that is always good: here the service hangs, and that is found."""
    released = threading.Event()
    hanging = threading.Event()
    answer = DevicePluginService._get_options

    def maybe_hang(*arguments):
        if hanging.is_set():
            released.wait(20)
        return answer(*arguments)

    monkeypatch.setattr("rknpu_plugin.self_check.ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(DevicePluginService, "_get_options", maybe_hang)
    kubelet.start()
    found = web()
    kubelet.wait_client()
    assert found.get("/healthz")[0] == 200
    hanging.set()
    try:
        status, _, body = found.get("/healthz")
        assert status == 503
        assert "does not answer: DEADLINE_EXCEEDED" in body
    finally:
        released.set()


@pytest.mark.parametrize("part", ["supervisor", "health"])
def test_stuck_thread_is_found(run_plugin, kubelet, monkeypatch, part):
    plugin = run_plugin().plugin
    assert plugin.check.find_problem() is None
    monkeypatch.setattr("rknpu_plugin.self_check.STUCK_SECONDS", -1)
    if part == "health":
        monkeypatch.setattr(plugin.supervisor, "last_turn", time.monotonic() + 1000)
    assert "is stuck" in plugin.check.find_problem()


@pytest.mark.parametrize(
    "accept", ["application/openmetrics-text;version=new", "text/plain;version=1..0", ";=,"]
)
def test_wish_that_makes_no_sense_is_answered(web, accept):
    """Which format that gets is up to the library, some versions of which fail at it."""
    status, _, body = web().get("/metrics", accept)
    assert status == 200
    assert "rknpu_shares" in body


def test_unknown_path(web):
    assert web().get("/other")[0] == 404


def test_head_has_no_body(web):
    status, _, body = web().get("/healthz", method="HEAD")
    assert (status, body) == (200, "")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_only_reading_is_allowed(web, method):
    assert web().get("/metrics", method=method)[0] == 501


def test_clients_that_send_nothing_do_not_block_others(web):
    found = web()
    found.get("/healthz")
    idle = [socket.create_connection(("127.0.0.1", found.port)) for _ in range(5)]
    try:
        assert found.get("/healthz")[0] == 200
    finally:
        for client in idle:
            client.close()


def answers(port, host="127.0.0.1"):
    """Whether /healthz is answered now."""
    try:
        return urllib.request.urlopen(f"http://{host}:{port}/healthz", timeout=5).status == 200
    except OSError:
        return False


def test_clients_that_dribble_are_cut_off(web, monkeypatch):
    """As many as are served at once send a byte now and then, so none of them is ever idle."""
    monkeypatch.setattr("rknpu_plugin.web._REQUEST_SECONDS", 1.0)
    found = web()
    found.get("/healthz")
    slow = [socket.create_connection(("127.0.0.1", found.port)) for _ in range(8)]
    done = threading.Event()

    def dribble():
        while not done.wait(0.2):
            for client in slow:
                with contextlib.suppress(OSError):
                    client.send(b"G")

    thread = threading.Thread(target=dribble)
    thread.start()
    try:
        wait_for(lambda: answers(found.port), 20)
    finally:
        done.set()
        thread.join()
        for client in slow:
            client.close()


def test_crowd_of_clients_takes_few_threads_and_passes(web, monkeypatch):
    monkeypatch.setattr("rknpu_plugin.web._REQUEST_SECONDS", 1.0)
    found = web()
    found.get("/healthz")
    crowd = [socket.create_connection(("127.0.0.1", found.port)) for _ in range(60)]
    try:
        time.sleep(0.3)
        assert sum(thread.name == "request" for thread in threading.enumerate()) <= 8
        wait_for(lambda: answers(found.port), 20)
    finally:
        for client in crowd:
            client.close()


@pytest.mark.parametrize(
    ("request_line", "headers", "status"),
    [
        (b"GET /" + b"x" * 100000 + b" HTTP/1.1", b"", b"414"),
        (b"GET /metrics HTTP/1.1", b"X: " + b"x" * 100000 + b"\r\n", b"431"),
        (b"GET /metrics HTTP/1.1", b"X: x\r\n" * 1000, b"431"),
        (b"\x16\x03\x01\x02", b"", b"400"),
        (b"GET /metrics HTTP/9.9", b"", b"505"),
    ],
    ids=["long line", "long header", "many headers", "TLS", "version"],
)
def test_odd_requests_are_refused(web, request_line, headers, status):
    found = web()
    found.get("/healthz")
    with socket.create_connection(("127.0.0.1", found.port), timeout=10) as client:
        with contextlib.suppress(ConnectionError):
            client.sendall(request_line + b"\r\n" + headers + b"\r\n")
        with contextlib.suppress(ConnectionError):
            assert status in client.recv(1000)
    assert answers(found.port)


def test_ipv6_address(run_plugin):
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
            port = probe.getsockname()[1]
    except OSError:
        pytest.skip("there is no IPv6")
    run_plugin(listen=f"[::1]:{port}")
    wait_for(lambda: answers(port, "[::1]"))


def test_taken_port_takes_only_the_metrics(kubelet, run_plugin):
    """A neighbour on the port is no reason to take the NPU from the cluster."""
    kubelet.start()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        run_plugin(listen=f"127.0.0.1:{taken.getsockname()[1]}")
        kubelet.wait_client()
        assert kubelet.allocatable == 2


def test_port_that_becomes_free_is_used(kubelet, run_plugin, monkeypatch):
    monkeypatch.setattr("rknpu_plugin.web._RETRY_SECONDS", 0.1)
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        run_plugin(listen=f"127.0.0.1:{port}")
        time.sleep(0.3)
    assert Web(port).get("/healthz")[0] == 200


def test_empty_listen_turns_it_off(run_plugin):
    run_plugin(listen="")
    assert not any(thread.name == "web" for thread in threading.enumerate())


def test_every_address_by_default(run_plugin):
    port = free_port()
    run_plugin(listen=f":{port}")
    assert Web(port).get("/healthz")[0] == 200
