"""The socket for metrics that systemd hands over to the plugin, which may open none itself."""

from __future__ import annotations

import errno
import os
import signal
import socket
import threading
import urllib.request
from pathlib import Path

import pytest
from rknpu_plugin import systemd
from rknpu_plugin.handover import VARIABLE, Predecessor
from unit.plugin.plugin_process import PluginProcess
from unit.plugin.service_manager import receive_until, service_manager
from unit.plugin.waiting import wait_for


@pytest.fixture
def listener():
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        made.listen(16)
        yield made


def port_of(listener):
    return listener.getsockname()[1]


def get(listener, path):
    url = f"http://127.0.0.1:{port_of(listener)}{path}"
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


def is_inherited(descriptor, pid):
    """Whether a process has the same socket, or a program that it starts would have it."""
    wanted = os.readlink(f"/proc/self/fd/{descriptor}")
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        if os.readlink(entry) == wanted:
            flags = Path(f"/proc/{pid}/fdinfo/{entry.name}").read_text().split("flags:")[1].split()
            return "closed" if int(flags[0], 8) & os.O_CLOEXEC else "open"
    return "none"


def test_listens_at_the_socket_of_systemd(work, board, listener):
    with PluginProcess(work, listener=listener, listen=f"localhost:{port_of(listener)}") as plugin:
        # Before the plugin answers, connections wait: this one has waited for its start.
        assert "ok" in get(listener, "/healthz")
        assert is_inherited(listener.fileno(), plugin.pid) == "closed"
        assert "cannot be served" not in plugin.log
    # The plugin is gone, and nobody is refused.
    socket.create_connection(("127.0.0.1", port_of(listener))).close()


class Scrapes(threading.Thread):
    """Scrapes all the time, each time through a connection of its own."""

    def __init__(self, listener):
        super().__init__()
        self._listener = listener
        self._done = threading.Event()
        self.count = 0
        self.failures = []

    def run(self):
        while not self._done.wait(0.005):
            try:
                assert "rknpu_shares" in get(self._listener, "/metrics")
                self.count += 1
            except (OSError, AssertionError) as error:
                self.failures.append(error)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self.join()


@pytest.mark.slow
def test_handover_refuses_nobody(work, board, kubelet, listener):
    kubelet.start()
    pid = 0
    with PluginProcess(work, listener=listener, listen=f"127.0.0.1:{port_of(listener)}") as plugin:
        try:
            kubelet.wait_client(1)
            with Scrapes(listener) as scrapes:
                plugin.signal(signal.SIGUSR2)
                assert plugin.wait() == 0
                pid = int(plugin.log.rpartition("handed over process=")[2].split()[0])
                plugin.wait_log("metrics and health are served", times=2)
                done = scrapes.count
                wait_for(lambda: scrapes.count > done + 3)
            assert scrapes.failures == []
            assert is_inherited(listener.fileno(), pid) == "closed"
            assert "LISTEN_" not in Path(f"/proc/{pid}/environ").read_text()
        finally:
            if pid:
                os.kill(pid, signal.SIGTERM)
                wait_for(lambda: "stopped" in plugin.log)


def last_error(listener):
    (line,) = (
        line
        for line in get(listener, "/metrics").splitlines()
        if line.startswith("rknpu_plugin_last_error_timestamp_seconds{")
    )
    return line


@pytest.mark.parametrize("listen", [":1", "127.0.0.1:1", "[::1]:{port}", "127.0.0.2:{port}"])
def test_socket_elsewhere_is_used_and_told(run_plugin, listener, monkeypatch, work, listen):
    port = port_of(listener)
    with service_manager(work) as (path, receive):
        monkeypatch.setenv("NOTIFY_SOCKET", path)
        run_plugin(listener=listener.dup(), listen=listen.format(port=port))
        told = receive_until(receive, lambda message: "not served where listen" in message)[-1]
        monkeypatch.delenv("NOTIFY_SOCKET")
    rule = f"systemd has handed over a socket on 127.0.0.1:{port}, and listen is "
    assert rule in told
    assert rule in last_error(listener)


def test_changed_address_is_told_and_the_socket_stays(run_plugin, listener):
    plugin = run_plugin(listener=listener.dup(), listen=f"127.0.0.1:{port_of(listener)}")
    plugin.reload(listen=":1")
    assert "change ListenStream= of the socket unit and restart both" in last_error(listener)
    assert plugin.metric("rknpu_plugin_config_last_reload_successful") == 0
    plugin.reload(listen=f"127.0.0.1:{port_of(listener)}")
    assert plugin.metric("rknpu_plugin_config_last_reload_successful") == 1


@pytest.mark.parametrize("listen", [":{port}", "0.0.0.0:{port}", "[::]:{port}"])
def test_every_address_is_every_address(run_plugin, listen, kubelet):
    """systemd takes the socket of IPv6 for both where the kernel has it, the plugin as well."""
    kubelet.start()
    with socket.socket() as made:
        made.bind(("0.0.0.0", 0))
        made.listen()
        plugin = run_plugin(listener=made.dup(), listen=listen.format(port=port_of(made)))
        kubelet.wait_client()
        assert "not served where listen" not in get(made, "/metrics")
        assert plugin.failure is None


def test_socket_that_is_not_wanted_is_closed(run_plugin, listener, kubelet):
    kubelet.start()
    theirs = listener.dup()
    run_plugin(listener=theirs, listen="")
    kubelet.wait_client()
    assert theirs.fileno() == -1


def test_no_socket_where_none_may_be_opened(run_plugin, monkeypatch, kubelet, work):
    """As under RestrictAddressFamilies=AF_UNIX, after systemd could not listen."""

    def refuse(*_):
        raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))

    monkeypatch.setattr("rknpu_plugin.web._bind", refuse)
    monkeypatch.setattr("rknpu_plugin.web._RETRY_SECONDS", 0.01)
    kubelet.start()
    with service_manager(work) as (path, receive):
        monkeypatch.setenv("NOTIFY_SOCKET", path)
        run_plugin(listen=":9475")
        seen = receive_until(receive, lambda message: "registered with the kubelet" in message)
        monkeypatch.delenv("NOTIFY_SOCKET")
    # It is known when the service has started, and told beside what the plugin does.
    assert seen.index("READY=1") > min(
        number for number, message in enumerate(seen) if "systemd has handed over none" in message
    )
    assert "; metrics and health cannot be served (listen): :9475: " in seen[-1]
    kubelet.wait_client()
    assert kubelet.allocatable == 2


def test_socket_of_another_process_is_left_alone(monkeypatch):
    environment = {"LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "x", "PATH": "/bin"}
    assert systemd.take_listener(environment) is None
    # And whoever is started by this one does not hear of it.
    assert environment == {"PATH": "/bin"}
    assert systemd.take_listener({}) is None
    assert systemd.take_listener({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "0"}) is None


def test_socket_without_the_lock_is_inherited(listener):
    """The lock is not held where the kubelet has not made its directory yet."""
    channel, other = socket.socketpair()
    with other, channel:
        environment = {VARIABLE: f"{os.dup(channel.fileno())},-1,{os.dup(listener.fileno())}"}
        found = Predecessor.find(environment)
        assert found.lock is None
        assert found.listener.getsockname() == listener.getsockname()
        found.listener.close()
