"""Registering with a kubelet: order, names, deadlines, and what the user is told when it fails.

The contract: https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import time
from pathlib import Path

import pytest
from rknpu_plugin import kubelet as kubelet_side
from rknpu_plugin.endpoint import Endpoint, EndpointError, remove_stale_sockets, socket_prefix
from rknpu_plugin.lock import HeldError, InstanceLock, LockError
from unit.plugin.kubelet_stub import KubeletStub
from unit.plugin.waiting import wait_for

RESOURCE = "rocknpu.device/npu"


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def test_registers_version_name_and_endpoint(kubelet, run_plugin):
    kubelet.start()
    run_plugin()
    client = kubelet.wait_client()
    assert client.request.version == "v1beta1"
    assert client.request.resource_name == RESOURCE
    assert client.request.endpoint == client.endpoint
    assert "/" not in client.endpoint


def test_registers_under_the_configured_name(kubelet, run_plugin):
    kubelet.start()
    run_plugin(resource="example.org/npu-a")
    assert kubelet.wait_client().request.resource_name == "example.org/npu-a"


def test_answers_options_while_register_waits(kubelet, run_plugin):
    """kubelet calls GetDevicePluginOptions inside Register; what it hears there is what counts."""
    kubelet.start()
    run_plugin()
    client = kubelet.wait_client()
    assert client.options == client.request.options
    assert client.options.get_preferred_allocation_available
    assert not client.options.pre_start_required


def test_serves_before_it_registers(kubelet, run_plugin):
    """A kubelet that dials at once and gives up at once still finds the socket served.

    https://github.com/ROCm/k8s-device-plugin/issues/31
    """
    kubelet.dial_seconds = 0.5
    kubelet.start()
    plugin = run_plugin()
    kubelet.wait_client()
    assert plugin.metric("rknpu_plugin_registration_failures_total") == 0


@pytest.mark.slow
def test_waits_longer_than_the_kubelet_dials(kubelet, run_plugin):
    """The kubelet may take its 10 seconds to dial; the deadline of Register is above that."""
    assert kubelet_side.REGISTER_SECONDS > 10
    kubelet.before_answer = lambda: time.sleep(1.5)
    kubelet.start()
    plugin = run_plugin()
    kubelet.wait_client()
    wait_for(lambda: plugin.metric("rknpu_plugin_registrations_total") == 1)


def test_every_start_has_its_own_socket_name(kubelet, run_plugin):
    """A stopping gRPC server removes its path, whoever owns it by then; kubelets key by path.

    https://github.com/kubernetes/kubernetes/issues/121994
    """
    kubelet.start()
    plugin = run_plugin()
    first = kubelet.wait_client(1)
    plugin.stop()
    run_plugin()
    second = kubelet.wait_client(2)
    assert first.endpoint != second.endpoint


def test_removes_its_own_stale_sockets_and_no_others(work):
    """https://github.com/intel/intel-device-plugins-for-kubernetes/issues/1370"""
    directory = work / "kubelet"
    stale = socket_prefix(RESOURCE) + "1-abc.sock"
    others = ["kubelet.sock", "nvidia.sock", socket_prefix("example.org/npu") + "1-abc.sock"]
    for name in [stale, *others]:
        make_socket(directory / name)
    (directory / (socket_prefix(RESOURCE) + "notes.sock")).write_text("no socket")
    (directory / "kubelet_internal_checkpoint").write_text("{}")
    assert remove_stale_sockets(str(directory), RESOURCE) == [stale]
    assert all((directory / name).exists() for name in others)
    assert (directory / "kubelet_internal_checkpoint").exists()


def test_stop_leaves_nothing_in_the_directory(kubelet, run_plugin, work):
    kubelet.start()
    plugin = run_plugin()
    kubelet.wait_client()
    plugin.stop()
    assert [entry.name for entry in (work / "kubelet").iterdir()] == ["kubelet.sock"]


def test_socket_is_for_root_alone(kubelet, run_plugin, work):
    old = os.umask(0o077)
    try:
        kubelet.start()
        run_plugin()
        client = kubelet.wait_client()
        assert (work / "kubelet" / client.endpoint).stat().st_mode & 0o077 == 0
    finally:
        os.umask(old)


@pytest.mark.parametrize("name", ["a%41b c", "what?#é"])
def test_directory_with_characters_that_mean_something_in_uris(work, board, run_plugin, name):
    """gRPC takes addresses as URIs; the kubelet takes the path as it is."""
    with KubeletStub(work / name) as kubelet:
        kubelet.start()
        run_plugin(kubelet_dir=work / name)
        client = kubelet.wait_client()
        assert (work / name / client.endpoint).is_socket()


def test_sends_localhost_as_authority(work):
    """Other names make implementations refuse: https://github.com/grpc/grpc/issues/38142.

    It is read from the connection itself, where HPACK leaves it in clear or in Huffman code.
    """
    names = (b"localhost", b"\xa0\xe4\x1d\x13\x9d\x09")
    path = work / "kubelet" / "kubelet.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        registration = kubelet_side.Registration(str(path.parent), "x.sock", RESOURCE, lambda: None)
        connection, _ = server.accept()
        with connection:
            connection.settimeout(5)
            # An empty SETTINGS frame, then whatever the client says.
            connection.sendall(b"\0\0\0\4\0\0\0\0\0")
            data = b""
            while (
                b"Register" not in data
                and len(data) < 65536
                and b"\xa0\xe4\x1d\x13\x9d\x09" not in data
            ):
                data += connection.recv(65536)
        registration.close()
    assert any(name in data for name in names)
    assert b"%2F" not in data


def test_ignores_proxies_in_the_environment(kubelet, run_plugin, monkeypatch):
    for name in ("http_proxy", "grpc_proxy", "https_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    kubelet.start()
    run_plugin()
    kubelet.wait_client()


def test_says_what_the_kubelet_answered(kubelet, run_plugin):
    """https://github.com/networkservicemesh/networkservicemesh/issues/100"""
    kubelet.refuse = "the ResourceName is invalid"
    kubelet.start()
    plugin = run_plugin()
    wait_for(lambda: plugin.metric("rknpu_plugin_registration_failures_total"))
    kubelet.refuse = None
    kubelet.wait_client()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "does not exist; has the kubelet been started?"),
        (make_socket, "nobody listens there"),
        (lambda path: path.write_text(""), "it is no socket"),
        (lambda path: path.mkdir(), "it is no socket"),
    ],
    ids=["missing", "refused", "file", "directory"],
)
def test_explains_an_unreachable_kubelet_with_its_path(work, make, words):
    path = work / "kubelet" / "kubelet.sock"
    make(path)
    reason = kubelet_side.explain_socket(str(path.parent))
    assert str(path) in reason
    assert words in reason


def test_a_reachable_kubelet_needs_no_explanation(kubelet):
    kubelet.start()
    assert kubelet_side.explain_socket(str(kubelet.directory)) is None


def test_permission_denied_is_told_apart(work):
    """https://github.com/k8snetworkplumbingwg/sriov-network-device-plugin/issues/51"""
    text = kubelet_side.explain_errno("/x/kubelet.sock", PermissionError(13, "Permission denied"))
    assert text.startswith("/x/kubelet.sock: permission denied")
    assert "SELinux" in text


@contextlib.contextmanager
def without_root():
    """This thread asks the file system as an ordinary user, as SELinux and others can have it."""
    library = ctypes.CDLL(None)
    library.setfsuid(65534)
    try:
        yield
    finally:
        library.setfsuid(os.geteuid())


def test_denied_socket_and_denied_directory_are_explained_with_the_path(kubelet):
    kubelet.start()
    path = f"{kubelet.directory}/kubelet.sock"
    kubelet.directory.parent.chmod(0o711)
    kubelet.directory.chmod(0o711)
    Path(path).chmod(0)
    with without_root():
        assert kubelet_side.find_obstacle(str(kubelet.directory)) is None
        assert f"{path}: permission denied" in kubelet_side.explain_socket(str(kubelet.directory))
    kubelet.directory.chmod(0)
    with without_root():
        assert f"{path}: permission denied" in kubelet_side.find_obstacle(str(kubelet.directory))
    kubelet.directory.chmod(0o700)


@pytest.mark.parametrize("number", [1, 2, 13, 20, 28, 30, 36, 40, 88, 111, 122])
def test_every_explanation_names_the_path(number):
    text = kubelet_side.explain_errno("/some/path", OSError(number, os.strerror(number)))
    assert text.startswith("/some/path: ")
    assert len(text) > len("/some/path: ") + 5


class NoService:
    def handler(self):
        from rknpu_plugin.rpc import service

        return service("none", {})

    def close(self):
        pass


@pytest.mark.parametrize(
    ("directory", "words"),
    [
        ("missing", "does not exist"),
        ("file", "it is no directory"),
        ("d" * 100, "path too long"),
    ],
)
def test_explains_why_no_socket_can_be_made(work, directory, words):
    path = work / directory
    if directory == "file":
        path.write_text("")
    elif directory != "missing":
        path.mkdir()
    endpoint = Endpoint(str(path), RESOURCE, NoService())
    try:
        with pytest.raises(EndpointError) as caught:
            endpoint.start()
    finally:
        endpoint.stop()
    assert str(path) in str(caught.value)
    assert words in str(caught.value)


def test_second_instance_refuses_and_says_who_holds_the_resource(kubelet, run_plugin):
    """https://github.com/kubernetes/kubernetes/issues/121994"""
    kubelet.start()
    run_plugin()
    kubelet.wait_client()
    second = run_plugin()
    second.join()
    assert isinstance(second.failure, HeldError)
    assert f"process {os.getpid()}" in str(second.failure)
    assert RESOURCE in str(second.failure)
    assert len(kubelet.clients) == 1
    assert kubelet.allocatable == 2


def test_second_instance_refuses_before_it_says_that_it_is_ready(run_plugin, monkeypatch):
    """Also while both would only wait for a kubelet."""
    sent = []
    monkeypatch.setattr("rknpu_plugin.plugin.notify", sent.append)
    run_plugin()
    wait_for(lambda: sent == ["READY=1"])
    second = run_plugin()
    second.join()
    assert isinstance(second.failure, HeldError)
    assert sent == ["READY=1"]


def test_two_resources_do_not_hinder_each_other(kubelet, run_plugin):
    kubelet.start()
    run_plugin()
    kubelet.wait_client(1)
    run_plugin(resource="example.org/npu")
    kubelet.wait_client(2)


def test_lock_survives_a_crashed_holder(work):
    """A lock file without a process behind it is no obstacle."""
    lock = InstanceLock(str(work / "kubelet"), RESOURCE)
    (work / "kubelet" / (socket_prefix(RESOURCE) + "lock")).write_text("process 1 on elsewhere\n")
    lock.acquire()
    lock.release()
    assert list((work / "kubelet").iterdir()) == []


def test_lock_is_taken_anew_when_its_directory_was_made_anew(work):
    lock, other = (InstanceLock(str(work / "kubelet"), RESOURCE) for _ in range(2))
    lock.acquire()
    (work / "kubelet" / (socket_prefix(RESOURCE) + "lock")).unlink()
    lock.acquire()
    with pytest.raises(HeldError):
        other.acquire()
    lock.release()


def test_lock_names_the_path_that_it_cannot_make(work):
    with pytest.raises(LockError, match=str(work / "missing")):
        InstanceLock(str(work / "missing"), RESOURCE).acquire()
