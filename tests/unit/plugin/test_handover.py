"""A process that hands over to the release that is installed now, without a gap for the kubelet."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from rknpu_plugin.handover import VARIABLE, Predecessor
from unit.plugin.kubelet_stub import KubeletStub
from unit.plugin.plugin_process import PACKAGE, PluginProcess
from unit.plugin.service_manager import receive_until, service_manager
from unit.plugin.waiting import wait_for


class Releases:
    """Releases of the plugin as the role lays them down, and the link to the one in use."""

    def __init__(self, work):
        self.work = work
        self.current = work / "current"

    def add(self, name, start=""):
        """Make a release that runs *start* when it starts."""
        package = self.work / name / "rknpu_plugin"
        shutil.copytree(PACKAGE / "rknpu_plugin", package)
        with (package / "__init__.py").open("a") as stream:
            stream.write(f"__version__ = {name!r}\n{start}\n")
        return self

    def use(self, name):
        """Switch the link, in one step."""
        (self.work / "next").symlink_to(name)
        (self.work / "next").rename(self.current)


@pytest.fixture
def releases(work):
    made = Releases(work).add("one").add("two")
    made.use("one")
    return made


@pytest.fixture
def new_process():
    """Waits for the process that took over; ends what a test leaves behind."""
    pids = []

    def wait(plugin):
        plugin.wait_log("took over")
        pids.extend(int(pid) for pid in re.findall(r"handed over process=(\d+)", plugin.log))
        return pids[-1]

    yield wait
    for pid in pids:
        end(pid, signal.SIGKILL)


def end(pid, number=signal.SIGTERM):
    if is_alive(pid):
        os.kill(pid, number)
        wait_for(lambda: not is_alive(pid))


def is_alive(pid):
    """Whether there is such a process; one that nobody has waited for does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def handing_over(work, kubelet, releases, seconds):
    """A plugin that hands over to a process that takes so long to start, and that one's number."""
    releases.add("slow", f"import time; time.sleep({seconds})")
    kubelet.start()
    with PluginProcess(work, package=releases.current) as plugin:
        kubelet.wait_client(1)
        releases.use("slow")
        plugin.signal(signal.SIGUSR2)
        yield plugin, wait_for(lambda: plugin.children)[0]


def hand_over(plugin):
    plugin.signal(signal.SIGUSR2)
    assert plugin.wait() == 0


def allocatable_since(kubelet, start):
    """The lowest number of shares that could be allocated since then, and for how long."""
    before = [count for moment, count in kubelet.history if moment <= start][-1:]
    return min([*before, *(count for moment, count in kubelet.history if moment > start)])


class Allocations(threading.Thread):
    """Allocates one share after the other, as fast as it can."""

    def __init__(self, kubelet):
        super().__init__()
        self._kubelet = kubelet
        self._done = threading.Event()
        self.count = 0
        self.failures = []

    def run(self):
        while not self._done.is_set():
            try:
                assert self._kubelet.allocate(["npu0-share-1"])[0].devices
                self.count += 1
            except (grpc.RpcError, ValueError, IndexError) as error:
                self.failures.append(error)
            time.sleep(0.001)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self.join()


def test_kubelet_never_sees_a_gap(work, board, kubelet, releases, new_process):
    kubelet.start()
    with PluginProcess(work, package=releases.current) as plugin:
        first = kubelet.wait_client(1)
        start = time.monotonic()
        releases.use("two")
        with Allocations(kubelet) as allocations:
            hand_over(plugin)
            pid = new_process(plugin)
            second = kubelet.wait_client(2)
            time.sleep(0.2)
        assert allocatable_since(kubelet, start) == 2
        assert allocations.failures == []
        assert allocations.count > 100
        # Registered beside the old one, whose list ended only afterwards.
        assert second.listings[0].time < first.ended
        assert first.endpoint != second.endpoint
        assert "starting version=one" in plugin.log
        assert "starting version=two" in plugin.log
        # What each of the two owns is there or gone.
        assert not (work / "kubelet" / first.endpoint).exists()
        assert (work / "kubelet" / second.endpoint).is_socket()
        assert len(kubelet.clients) == 2
        # The kubelet has the list of the new one last, whatever the old one may have sent.
        assert len(second.listings) == 2
        assert second.listings[1].time > first.ended
        end(pid)
        assert [entry.name for entry in (work / "kubelet").iterdir()] == ["kubelet.sock"]


@pytest.mark.slow
def test_kubelet_that_knows_plugins_by_resource_alone(work, board, releases, new_process):
    """It disconnects the new one with the old one; that one is back within a moment.

    https://github.com/kubernetes/kubernetes/issues/121994
    """
    with KubeletStub(work / "kubelet", by_resource=True) as kubelet:
        kubelet.start()
        with PluginProcess(work, package=releases.current) as plugin:
            kubelet.wait_client(1)
            start = time.monotonic()
            releases.use("two")
            hand_over(plugin)
            pid = new_process(plugin)
            kubelet.wait_client(3)
            assert kubelet.allocatable == 2
            changes = [moment for moment, _ in kubelet.history if moment > start]
            assert len(changes) == 2
            # A gap of the length of one registration, where a start of the process takes seconds.
            assert changes[1] - changes[0] < 0.5
            time.sleep(0.5)
            assert len(kubelet.clients) == 3
            assert kubelet.allocate(["npu0-share-0"])
            end(pid)


@pytest.mark.slow
def test_new_process_holds_the_lock_and_hands_over_in_turn(
    work, board, kubelet, releases, new_process
):
    kubelet.start()
    with PluginProcess(work, package=releases.current) as plugin:
        kubelet.wait_client(1)
        hand_over(plugin)
        pid = new_process(plugin)
        with PluginProcess(work) as another:
            assert another.wait() == 3
            assert f"process {pid} " in another.log
        start = time.monotonic()
        os.kill(pid, signal.SIGUSR2)
        plugin.wait_log("took over", times=2)
        wait_for(lambda: not is_alive(pid))
        last = new_process(plugin)
        assert last not in (pid, plugin.pid)
        kubelet.wait_client(3)
        assert allocatable_since(kubelet, start) == 2
        end(last)


@pytest.mark.slow
def test_service_manager_and_listener_follow(work, board, kubelet, releases, new_process):
    runtime = work / "run"
    runtime.mkdir()
    os.utime(runtime, (1, 1))
    with service_manager(work) as (path, receive):
        environment = {
            "NOTIFY_SOCKET": path,
            "RUNTIME_DIRECTORY": str(runtime),
            "WATCHDOG_USEC": "900000",
        }
        kubelet.start()
        with PluginProcess(work, environment, releases.current) as plugin:
            receive_until(receive, "STATUS=registered with the kubelet")
            kubelet.wait_client(1)
            plugin.signal(signal.SIGUSR2)
            seen = receive_until(receive, lambda message: message.startswith("MAINPID="))
            assert "STATUS=handing over to another process" in seen
            # The new one is not heard before that, and the old one does not say that all stops.
            assert not [message for message in seen if "READY" in message or "STOPPING" in message]
            pid = new_process(plugin)
            assert seen[-1] == f"MAINPID={pid}"
            seen = receive_until(receive, "STATUS=registered with the kubelet")
            assert seen[0] == "READY=1\nWATCHDOG=1"
            for _ in range(3):
                receive_until(receive, "WATCHDOG=1")
            assert runtime.stat().st_mtime > 1
            end(pid)
            receive_until(receive, "STOPPING=1")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "reason"),
    [
        ("raise SystemExit(7)", "ended with exit code 7 before it was ready"),
        ("import os; os.kill(os.getpid(), 9)", "was killed by signal 9 before it was ready"),
    ],
    ids=["exit", "crash"],
)
def test_broken_release_changes_nothing(work, board, kubelet, releases, start, reason):
    releases.add("broken", start)
    kubelet.start()
    with PluginProcess(work, package=releases.current) as plugin:
        client = kubelet.wait_client(1)
        releases.use("broken")
        plugin.signal(signal.SIGUSR2)
        plugin.wait_log("the handover failed, this process goes on")
        assert reason in plugin.log
        assert kubelet.allocate(["npu0-share-0"])
        assert len(kubelet.clients) == 1
        assert not client.ended
        # And the next one, which works, takes over.
        releases.use("two")
        hand_over(plugin)
        kubelet.wait_client(2)
        end(int(plugin.log.rpartition("handed over process=")[2].split()[0]))


@pytest.mark.slow
def test_release_that_never_gets_ready_is_ended(work, board, kubelet, releases):
    releases.add("slow", "import time; time.sleep(1000)")
    kubelet.start()
    with PluginProcess(work, {"TEST_START_SECONDS": "1.5"}, releases.current) as plugin:
        kubelet.wait_client(1)
        releases.use("slow")
        plugin.signal(signal.SIGUSR2)
        plugin.wait_log("was not ready after 2 s")
        pid = int(re.findall(r"process (\d+) was not ready", plugin.log)[0])
        assert not is_alive(pid)
        assert len(kubelet.clients) == 1
        assert kubelet.allocatable == 2


@pytest.mark.slow
def test_kubelet_that_refuses_the_new_process_is_quoted(work, board, kubelet, releases):
    kubelet.start()
    with PluginProcess(work, package=releases.current) as plugin:
        kubelet.wait_client(1)
        kubelet.refuse = "one is enough"
        plugin.signal(signal.SIGUSR2)
        plugin.wait_log("the plugin is not registered")
        end(*plugin.children)
        plugin.wait_log("the handover failed")
        assert "its last words: the kubelet answered UNKNOWN: one is enough" in plugin.log
        assert kubelet.allocatable == 2
        # What the new process has left is removed with the next registration.
        kubelet.refuse = None
        kubelet.restart()
        kubelet.wait_client(2)
        assert len(list((work / "kubelet").glob("rknpu-*.sock"))) == 1


def test_failed_handover_is_counted_and_shown(work, board, kubelet, run_plugin, monkeypatch):
    monkeypatch.setattr("rknpu_plugin.handover.read_command", lambda: [str(work / "gone")])
    kubelet.start()
    plugin = run_plugin()
    kubelet.wait_client(1)
    with service_manager(work) as (path, receive):
        monkeypatch.setenv("NOTIFY_SOCKET", path)
        plugin.plugin.hand_over()
        wait_for(lambda: plugin.metric("rknpu_plugin_handover_failures_total") == 1)
        (shown,) = receive_until(receive, lambda message: "the handover failed" in message)[-1:]
        assert "the new process cannot be started" in shown
        monkeypatch.delenv("NOTIFY_SOCKET")
    assert kubelet.allocatable == 2


@pytest.mark.slow
def test_stop_during_a_handover_stops_both(work, board, kubelet, releases):
    with handing_over(work, kubelet, releases, seconds=1000) as (plugin, pid):
        plugin.signal(signal.SIGUSR2)
        plugin.wait_log("a handover is going on already")
        plugin.signal(signal.SIGTERM)
        assert plugin.wait() == 0
        assert not is_alive(pid)
    assert [entry.name for entry in (work / "kubelet").iterdir()] == ["kubelet.sock"]


@pytest.mark.slow
def test_sockets_of_a_new_process_that_was_killed_go(work, board, kubelet, releases):
    with handing_over(work, kubelet, releases, seconds=1000) as (plugin, pid):
        before = {entry.name for entry in (work / "kubelet").iterdir()}
        name = kubelet.clients[0].endpoint
        # As if it had come as far as to register.
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(work / "kubelet" / f"{name.rpartition('-')[0]}-0.sock"))
        os.kill(pid, signal.SIGKILL)
        plugin.wait_log("the handover failed, this process goes on")
        wait_for(lambda: {entry.name for entry in (work / "kubelet").iterdir()} == before)
        assert kubelet.allocatable == 2


@pytest.mark.slow
def test_new_process_goes_on_when_the_old_one_is_killed(work, board, kubelet, releases):
    with handing_over(work, kubelet, releases, seconds=1) as (plugin, pid):
        plugin.signal(signal.SIGKILL)
        plugin.wait()
        try:
            wait_for(lambda: "took over" in plugin.log)
            kubelet.wait_client(2)
            wait_for(lambda: kubelet.allocatable == 2)
        finally:
            end(pid)
    assert [entry.name for entry in (work / "kubelet").iterdir()] == ["kubelet.sock"]


@pytest.mark.slow
def test_handover_without_a_kubelet(work, board, kubelet, releases, new_process):
    with PluginProcess(work, package=releases.current) as plugin:
        plugin.wait_log("waiting for the kubelet")
        hand_over(plugin)
        pid = new_process(plugin)
        kubelet.start()
        kubelet.wait_client(1)
        end(pid)


@pytest.mark.slow
def test_kubelet_restart_during_a_handover(work, board, kubelet, releases, new_process):
    releases.add("slow", "import time; time.sleep(1)")
    kubelet.start()
    with PluginProcess(work, package=releases.current) as plugin:
        kubelet.wait_client(1)
        releases.use("slow")
        plugin.signal(signal.SIGUSR2)
        time.sleep(0.3)
        kubelet.restart()
        assert plugin.wait() == 0
        pid = new_process(plugin)
        wait_for(lambda: kubelet.allocatable == 2)
        end(pid)


@pytest.mark.slow
def test_modules_are_imported_from_the_release_that_was_started(work, board, kubelet, releases):
    """Those that are needed later too, when the link leads elsewhere."""
    kubelet.start()
    with PluginProcess(work, package=releases.current) as plugin:
        kubelet.wait_client(1)
        releases.use("two")
        (work / "two" / "rknpu_plugin" / "npu_problems.py").write_text("raise SystemExit\n")
        board.unbind()
        plugin.wait_log("remedy=")


def test_container_is_not_handed_over(work, board, kubelet, run_plugin, monkeypatch, capfd):
    """Its first process is the container, so there the pod is replaced."""
    monkeypatch.setattr("os.getpid", lambda: 1)
    plugin = run_plugin()
    plugin.plugin.hand_over()
    assert plugin.plugin._handover is None


def test_ordinary_start_has_no_predecessor():
    environment = {"NOTIFY_SOCKET": "/run/notify"}
    assert Predecessor.find(environment) is None
    assert environment == {"NOTIFY_SOCKET": "/run/notify"}
    assert VARIABLE not in os.environ
