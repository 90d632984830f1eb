"""Kubelets that restart, vanish and come back, and what else can end a registration."""

from __future__ import annotations

import io
import os
import shutil
import threading
import time

import pytest
from rknpu_plugin.log import set_up_logging
from rknpu_plugin.service import WORKERS
from unit.plugin.kubelet_stub import KUBELET_WORKERS, KubeletStub
from unit.plugin.waiting import wait_for

TWO = {"npu0-share-0": "Healthy", "npu0-share-1": "Healthy"}


def test_registers_again_after_a_kubelet_restart(kubelet, run_plugin):
    """Pods are admitted only after that: https://github.com/kubernetes/kubernetes/issues/133382

    https://github.com/Mellanox/k8s-rdma-shared-dev-plugin/issues/79
    """
    kubelet.start()
    run_plugin()
    kubelet.wait_client(1)
    kubelet.restart()
    kubelet.wait_client(2)
    assert kubelet.devices == TWO


@pytest.mark.slow
def test_registers_once_for_each_kubelet(kubelet, run_plugin):
    kubelet.start()
    run_plugin()
    for number in range(1, 6):
        kubelet.wait_client(number)
        time.sleep(0.3)
        assert len(kubelet.clients) == number
        kubelet.restart()


@pytest.mark.slow
def test_restart_of_a_killed_kubelet_that_left_its_socket(kubelet, run_plugin):
    kubelet.start()
    run_plugin()
    kubelet.wait_client(1)
    kubelet.stop(leave_socket=True)
    # Nobody listens at the old socket: the plugin has to try, quietly, and must not give up.
    time.sleep(0.5)
    kubelet.start()
    kubelet.wait_client(2)


def test_old_stream_that_ends_late_does_no_harm(kubelet, run_plugin):
    """https://github.com/kubernetes/kubernetes/issues/127803"""
    kubelet.start()
    run_plugin()
    first = kubelet.wait_client(1)
    kubelet.restart(late_streams=True)
    kubelet.wait_client(2)
    # The plugin has ended it before it registered again.
    kubelet.wait(lambda: first.ended, what="end of the old stream")
    assert first.ended <= kubelet.clients[1].registered
    kubelet.end_streams([first])
    time.sleep(0.3)
    assert kubelet.devices == TWO
    assert len(kubelet.clients) == 2


def test_kubelet_sock_replaced_without_removing_the_plugins_socket(kubelet, run_plugin, work):
    """Only the identity of kubelet.sock tells; the own socket is still there."""
    kubelet.start()
    run_plugin()
    client = kubelet.wait_client(1)
    own = work / "kubelet" / client.endpoint
    kept = work / "kept"
    os.link(own, kept)
    kubelet.stop(late_streams=True)
    kubelet.start()
    if not own.exists():
        kept.rename(own)
    kubelet.wait_client(2)


def test_own_socket_removed(kubelet, run_plugin, work):
    kubelet.start()
    run_plugin()
    client = kubelet.wait_client(1)
    (work / "kubelet" / client.endpoint).unlink()
    assert kubelet.wait_client(2).endpoint != client.endpoint
    assert kubelet.devices == TWO


def test_stream_ended_by_the_kubelet(kubelet, run_plugin):
    """A kubelet never opens a list again: https://github.com/kubernetes/kubernetes/issues/92958"""
    kubelet.start()
    run_plugin()
    for number in range(1, 4):
        kubelet.end_streams([kubelet.wait_client(number)])
    kubelet.wait_client(4)
    assert kubelet.devices == TWO


@pytest.mark.slow
def test_kubelet_that_never_opens_the_list(kubelet, run_plugin, monkeypatch):
    monkeypatch.setattr("rknpu_plugin.supervisor.OPEN_SECONDS", 0.5)
    monkeypatch.setattr(KubeletStub, "_list", lambda *_: None)
    kubelet.start()
    run_plugin()
    kubelet.wait(lambda: len(kubelet.clients) >= 2, what="second registration")


def test_kubelet_that_is_replaced_while_the_plugin_registers(kubelet, run_plugin, work):
    """An answer of the old one, however late, says nothing about the new one."""
    answer = threading.Event()
    kubelet.before_answer = lambda: answer.wait(30)
    kubelet.start()
    plugin = run_plugin()
    kubelet.wait(lambda: kubelet.clients)
    with KubeletStub(work / "kubelet") as new:
        new.start()
        new.wait_client(1)
        answer.set()
        assert new.devices == TWO
        wait_for(lambda: plugin.metric("rknpu_plugin_registrations_total") == 1)
        assert plugin.metric("rknpu_plugin_registration_failures_total") >= 1


def test_waits_for_a_kubelet_that_comes_late(kubelet, run_plugin):
    """Without a crash loop: https://github.com/kubevirt/kubevirt/pull/2068

    Pods from before a reboot are refused until the plugin has registered, so it does that at once:
    https://github.com/kubernetes/kubernetes/issues/125579
    """
    run_plugin()
    time.sleep(0.5)
    kubelet.start()
    kubelet.wait_client()


@pytest.mark.slow
def test_waits_for_a_directory_that_comes_late(run_plugin, work):
    """On the first boot of a node the kubelet makes the directory itself."""
    shutil.rmtree(work / "kubelet")
    with KubeletStub(work / "new" / "kubelet") as kubelet:
        run_plugin(kubelet_dir=work / "new" / "kubelet")
        time.sleep(0.5)
        kubelet.start()
        kubelet.wait_client()


def test_directory_removed_and_back(kubelet, run_plugin, work):
    kubelet.start()
    run_plugin()
    kubelet.wait_client(1)
    kubelet.stop()
    shutil.rmtree(work / "kubelet")
    time.sleep(0.5)
    kubelet.start()
    kubelet.wait_client(2)


def test_names_the_socket_it_waits_for_once(run_plugin, work, capfd, hasty):
    set_up_logging("text", "info", "rocknpu.device/npu")
    run_plugin()
    time.sleep(0.6)
    lines = [
        line for line in capfd.readouterr().err.splitlines() if "waiting for the kubelet" in line
    ]
    assert len(lines) == 1
    assert str(work / "kubelet" / "kubelet.sock") in lines[0]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.write_text(""), "something on the way there is no directory"),
        (lambda path: path.symlink_to(path), "its symbolic links lead in a circle"),
    ],
    ids=["file", "loop"],
)
def test_says_why_the_socket_cannot_even_be_looked_for(
    kubelet, run_plugin, work, hasty, make, words
):
    """Waiting for what can never come is told apart from waiting, once, and ends by itself."""
    path = work / "kubelet"
    path.rmdir()
    make(path)
    stream = io.StringIO()
    set_up_logging("text", "info", "rocknpu.device/npu", stream)
    plugin = run_plugin()
    time.sleep(0.6)
    lines = [line for line in stream.getvalue().splitlines() if "kubelet.sock" in line]
    assert len(lines) == 1
    assert f"{path / 'kubelet.sock'}: {words}" in lines[0]
    assert plugin.plugin.check.find_problem() is None
    path.unlink()
    kubelet.start()
    kubelet.wait_client()


def test_refused_registration_is_repeated_ever_more_slowly(kubelet, run_plugin):
    """No crash loop and no flood of log lines while the kubelet says no."""
    kubelet.refuse = "not today"
    kubelet.start()
    plugin = run_plugin()
    wait_for(lambda: plugin.metric("rknpu_plugin_registration_failures_total") >= 4)
    started = time.monotonic()
    time.sleep(0.5)
    more = plugin.metric("rknpu_plugin_registration_failures_total") - 4
    # 10 ms, doubled each time: after the fourth, 160 and 320 ms are waited.
    assert more <= 1 + (time.monotonic() - started) / 0.16
    kubelet.refuse = None
    kubelet.wait_client(1)


@pytest.mark.parametrize("inotify", ["works", "has no instance left", "has no watch left"])
def test_works_with_and_without_inotify(kubelet, run_plugin, monkeypatch, inotify):
    """The instances and the watches of inotify can run out on a node."""

    def refuse(*_):
        raise OSError(28, "No space left on device")

    if inotify != "works":
        # So that nothing but polling can be in time.
        monkeypatch.setattr("rknpu_plugin.supervisor.LOOK_SECONDS", 1000.0)
    if inotify == "has no instance left":
        monkeypatch.setattr("rknpu_plugin.watch._Inotify.open", lambda: None)
    if inotify == "has no watch left":
        monkeypatch.setattr("rknpu_plugin.watch._Inotify.watch", refuse)
    run_plugin()
    time.sleep(0.2)
    kubelet.start()
    client = kubelet.wait_client(1)
    (kubelet.directory / client.endpoint).unlink()
    kubelet.wait_client(2)
    kubelet.restart()
    kubelet.wait_client(3)


@pytest.mark.slow
def test_restarts_leak_no_thread(kubelet, run_plugin):
    """A list that outlives its kubelet would hold a thread of the server for ever."""
    kubelet.start()
    run_plugin()
    for number in range(1, 6):
        kubelet.wait_client(number)
        kubelet.restart()
    kubelet.wait_client(6)
    time.sleep(0.5)
    before = threading.active_count()
    for number in range(6, 26):
        kubelet.restart()
        kubelet.wait_client(number + 1)
    # How many threads of its pool a server has started depends on how close its calls came.
    wait_for(lambda: threading.active_count() <= before + WORKERS + KUBELET_WORKERS)
