"""The plugin as a process: signals, exit codes, systemd, and the commands that only print."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from rknpu_plugin import __version__, systemd
from rknpu_plugin.commands import main
from rknpu_plugin.self_check import Watchdog
from unit.plugin.plugin_process import PACKAGE, PluginProcess
from unit.plugin.service_manager import receive_until, service_manager


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stops_on_a_signal_and_leaves_nothing(work, board, kubelet, number):
    kubelet.start()
    with PluginProcess(work) as plugin:
        kubelet.wait_client()
        plugin.signal(number)
        assert plugin.wait() == 0
    assert [entry.name for entry in (work / "kubelet").iterdir()] == ["kubelet.sock"]


def run_python(code, *arguments):
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(PACKAGE), *sys.path[1:]])},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_signals_wait_until_the_plugin_can_handle_them(tmp_path):
    """Unhandled, a SIGHUP ends a process: here one that comes while modules are still imported."""
    code = """
import os, signal, sys
from rknpu_plugin import commands, memory
memory.use_one_arena = lambda: os.kill(os.getpid(), signal.SIGHUP)
sys.exit(commands.main(["serve", "--config", sys.argv[1]]))
"""
    file = tmp_path / "config.yaml"
    file.write_text("shares: 0\n")
    assert run_python(code, str(file)).returncode == 2


def test_signals_are_heard_after_one_that_failed():
    code = """
import os, signal, threading
from rknpu_plugin.signals import handle_signals
stopped = threading.Event()
handle_signals({signal.SIGHUP: lambda: 1 / 0, signal.SIGTERM: stopped.set})
os.kill(os.getpid(), signal.SIGHUP)
os.kill(os.getpid(), signal.SIGTERM)
print(stopped.wait(20))
"""
    assert run_python(code).stdout == "True\n"


@pytest.mark.slow
def test_stops_while_it_waits_for_a_kubelet(work, board):
    with PluginProcess(work) as plugin:
        plugin.wait_log("waiting for the kubelet")
        plugin.signal(signal.SIGTERM)
        assert plugin.wait() == 0
    assert list((work / "kubelet").iterdir()) == []


@pytest.mark.slow
def test_stops_while_the_kubelet_does_not_answer(work, board, kubelet):
    answer = threading.Event()
    kubelet.before_answer = lambda: answer.wait(60)
    kubelet.start()
    with PluginProcess(work) as plugin:
        kubelet.wait(lambda: kubelet.clients)
        plugin.signal(signal.SIGTERM)
        assert plugin.wait() == 0
    answer.set()


@pytest.mark.slow
def test_killed_plugin_is_replaced_by_the_next(work, board, kubelet):
    kubelet.start()
    with PluginProcess(work) as plugin:
        first = kubelet.wait_client(1)
        plugin.signal(signal.SIGKILL)
        plugin.wait()
        assert (work / "kubelet" / first.endpoint).is_socket()
    with PluginProcess(work):
        second = kubelet.wait_client(2)
        assert first.endpoint != second.endpoint
        assert not (work / "kubelet" / first.endpoint).exists()
        assert kubelet.allocatable == 2


def test_reload_on_sighup(work, board, kubelet):
    file = work / "config.yaml"
    file.write_text("shares: 2\n")
    kubelet.start()
    with PluginProcess(work, config=file) as plugin:
        kubelet.wait_client()
        file.write_text("shares: 3\n")
        plugin.signal(signal.SIGHUP)
        kubelet.wait(lambda: kubelet.allocatable == 3)
        file.write_text("shares: many\n")
        plugin.signal(signal.SIGHUP)
        plugin.wait_log("was not reloaded")
        assert "shares: must be a whole number" in plugin.log
        assert kubelet.allocatable == 3
        assert len(kubelet.clients) == 1


@pytest.mark.slow
def test_second_instance_ends_with_3_and_says_who_is_there(work, board, kubelet):
    kubelet.start()
    with PluginProcess(work) as first:
        kubelet.wait_client()
        with PluginProcess(work) as second:
            assert second.wait() == 3
            assert f"process {first.pid}" in second.log
        assert kubelet.allocatable == 2


def test_bad_configuration_ends_with_2(work, board):
    with PluginProcess(work, shares=101) as plugin:
        assert plugin.wait() == 2
        assert "command line: shares: must be a whole number from 1 to 100, not 101." in plugin.log


def test_no_child_processes(work, board, kubelet):
    """gRPC and fork do not go together, so nothing is shelled out to."""
    kubelet.start()
    with PluginProcess(work) as plugin:
        kubelet.wait_client()
        assert plugin.children == []


def test_openssl_is_not_loaded(work, board, kubelet):
    """It would be a tenth of the process, and nothing here speaks TLS."""
    kubelet.start()
    with PluginProcess(work, listen="") as plugin:
        kubelet.wait_client()
        assert "libcrypto" not in Path(f"/proc/{plugin.pid}/maps").read_text()


# systemd


def test_tells_systemd_what_it_does(work, board, kubelet):
    with service_manager(work) as (path, receive):
        with PluginProcess(work, {"NOTIFY_SOCKET": path}) as plugin:
            seen = receive_until(receive, "READY=1")
            # Not before the first look at the NPU, but without waiting for a kubelet.
            assert "the NPU is usable" in plugin.log
            receive_until(receive, f"STATUS=waiting for {work / 'kubelet' / 'kubelet.sock'}")
            kubelet.start()
            seen = receive_until(receive, "STATUS=registered with the kubelet")
            plugin.signal(signal.SIGTERM)
            seen = receive_until(receive, "STOPPING=1")
        assert seen


def test_feeds_the_watchdog(work, board, kubelet):
    with service_manager(work) as (path, receive):
        environment = {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "600000"}
        with PluginProcess(work, environment):
            for _ in range(3):
                receive_until(receive, "WATCHDOG=1")


def test_watchdog_is_not_fed_by_a_plugin_that_does_not_work(work, monkeypatch):
    with service_manager(work) as (path, receive):
        monkeypatch.setenv("NOTIFY_SOCKET", path)
        problems = [None, *["the socket does not answer"] * 3, *[None] * 100]
        status = systemd.Status()
        status.tell("registered")
        watchdog = Watchdog(0.1, lambda: problems.pop(0), status)
        watchdog.start()
        seen = [receive() for _ in range(5)]
        watchdog.stop()
        # Said once, not fed while it lasts, and taken back.
        assert seen == [
            "STATUS=registered",
            "WATCHDOG=1",
            "STATUS=not healthy: the socket does not answer",
            "WATCHDOG=1",
            "STATUS=registered",
        ]


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
    ],
)
def test_watchdog_interval(environment, seconds):
    assert systemd.watchdog_seconds(environment) == seconds


def test_notification_without_systemd_does_nothing(work):
    assert not systemd.notify("READY=1", {})
    assert not systemd.notify("READY=1", {"NOTIFY_SOCKET": str(work / "missing")})


def test_status_is_one_line_whatever_went_wrong(monkeypatch):
    """Each line of a notification is a message of its own to systemd."""
    sent = []
    monkeypatch.setattr(systemd, "notify", sent.append)
    status = systemd.Status()
    status.tell("registering: no\nMAINPID=1")
    status.judge("it hangs\nWATCHDOG=1")
    assert sent == [
        "STATUS=registering: no MAINPID=1",
        "STATUS=not healthy: it hangs WATCHDOG=1",
    ]


def test_later_status_has_the_last_word(monkeypatch):
    sent, telling, noted = [], threading.Event(), threading.Event()

    def notify(text):
        if telling.is_set():
            noted.set()
        else:
            telling.set()
            noted.wait(0.5)
        sent.append(text)

    monkeypatch.setattr(systemd, "notify", notify)
    status = systemd.Status()
    slow = threading.Thread(target=status.tell, args=("registered",))
    slow.start()
    assert telling.wait(5)
    status.note("metrics are not served")
    slow.join()
    assert sent[-1] == "STATUS=registered; metrics are not served"


def test_notification_to_an_abstract_socket():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(f"\0rknpu-test-{os.getpid()}")
        assert systemd.notify("READY=1", {"NOTIFY_SOCKET": f"@rknpu-test-{os.getpid()}"})
        assert server.recv(100) == b"READY=1"


def test_service_manager_that_hangs_does_not_stop_the_plugin():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(f"\0rknpu-full-{os.getpid()}")
        environment = {"NOTIFY_SOCKET": f"@rknpu-full-{os.getpid()}"}
        sent = [systemd.notify("X" * 1000, environment) for _ in range(2000)]
        assert sent[0]
        assert not sent[-1]


# Commands


def test_probe_json_is_what_npu_info_returns(board, capsys):
    assert main(["probe", "--format", "json", f"--host-root={board.root}"]) == 0
    reading = json.loads(capsys.readouterr().out)
    assert set(reading) == {"npu", "problems", "usable"}
    assert reading["npu"]["soc"] == "rk3588"
    assert reading["npu"]["driver"] == "rknpu"
    # Only root can make device nodes, so here they are missing.
    assert "nodes_missing" in [problem["code"] for problem in reading["problems"]]
    assert reading["usable"] is False


def test_probe_text_names_problems_and_remedies(board, capsys):
    board.unbind()
    assert main(["probe", f"--host-root={board.root}"]) == 0
    printed = capsys.readouterr().out
    assert "usable" in printed
    assert "\nproblem: " in printed


def test_version(capsys):
    assert main(["version"]) == 0
    printed = capsys.readouterr().out
    assert f"rknpu-plugin {__version__}\n" in printed
    assert "grpcio " in printed
    assert "protobuf " in printed


def test_help_and_unknown_commands(capsys):
    for arguments, code in ((["--help"], 0), ([], 2), (["dance"], 2), (["serve", "--odd"], 2)):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == code
    assert "serve" in capsys.readouterr().out


@pytest.fixture
def run_without_libraries(tmp_path):
    """Runs a command where importing the libraries fails in this way."""

    def run(command, failure):
        for name in ("grpc", "google", "prometheus_client"):
            (tmp_path / f"{name}.py").write_text(f"raise {failure}\n")
        return subprocess.run(
            [sys.executable, "-m", "rknpu_plugin", command],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(PACKAGE)])},
            capture_output=True,
            text=True,
        )

    return run


@pytest.mark.parametrize("command", ["probe", "config"])
def test_probe_and_config_need_no_libraries(run_without_libraries, command):
    """They help where the libraries are what is missing."""
    assert run_without_libraries(command, "ImportError('not here')").returncode == 0


@pytest.mark.parametrize(
    "failure",
    ["ImportError('not here')", "TypeError('Descriptors cannot be created directly.')"],
)
def test_unusable_libraries_are_told_in_one_line(run_without_libraries, failure):
    """Generated code and libraries out of step.

    https://github.com/grpc/grpc/issues/32045
    https://github.com/grpc/grpc/issues/39912
    """
    done = run_without_libraries("serve", failure)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "install what requirements.txt asks for" in line
