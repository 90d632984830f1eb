"""The configuration of a pod: a ConfigMap that changes under a running plugin."""

from __future__ import annotations

import threading
from pathlib import Path

from rknpu_plugin.config_watch import ConfigWatch
from unit.plugin.waiting import wait_for


class ConfigMap:
    """Files as a kubelet lays them out: links into a directory that is replaced as a whole."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._versions = 0
        directory.mkdir()
        self.path = directory / name
        self.path.symlink_to(f"..data/{name}")

    def write(self, text: str) -> None:
        self._versions += 1
        version = self._directory / f"..version-{self._versions}"
        version.mkdir()
        (version / self.path.name).write_text(text)
        turned = self._directory / "..data_tmp"
        turned.symlink_to(version.name)
        turned.replace(self._directory / "..data")


def test_each_new_content_is_noticed(tmp_path):
    config = ConfigMap(tmp_path / "config", "board.yaml")
    config.write("shares: 2\n")
    seen: list[str] = []
    watch = ConfigWatch(str(config.path))
    # Before anybody is told.
    config.write("shares: 3\n")
    watch.follow(lambda: seen.append(config.path.read_text()))
    wait_for(lambda: seen == ["shares: 3\n"])
    # The same size, and for a moment no file at all.
    (tmp_path / "config" / "..data").unlink()
    config.write("shares: 4\n")
    wait_for(lambda: seen == ["shares: 3\n", "shares: 4\n"])


def test_next_content_is_noticed_after_one_that_failed(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("")
    seen: list[str] = []

    def take_over() -> None:
        seen.append(file.read_text())
        raise RuntimeError(seen[-1])

    ConfigWatch(str(file)).follow(take_over)
    for text in ("1", "22"):
        file.write_text(text)
        wait_for(lambda text=text: text in seen)


def test_change_is_taken_over_without_a_restart(kubelet, run_plugin):
    kubelet.start()
    plugin = run_plugin(shares=2)
    kubelet.wait_devices({"npu0-share-0": "Healthy", "npu0-share-1": "Healthy"})
    plugin.keys["shares"] = 1
    plugin.plugin.follow()
    kubelet.wait_devices({"npu0-share-0": "Healthy"})
    assert len(kubelet.clients) == 1


def test_change_that_takes_a_restart_ends_the_process(kubelet, run_plugin):
    kubelet.start()
    plugin = run_plugin()
    kubelet.wait_client()
    plugin.keys["resource"] = "example.org/npu"
    plugin.plugin.follow()
    plugin.join()


def test_broken_change_keeps_what_runs(kubelet, run_plugin):
    kubelet.start()
    plugin = run_plugin(shares=2)
    kubelet.wait_devices({"npu0-share-0": "Healthy", "npu0-share-1": "Healthy"})
    plugin.keys["shares"] = 0
    plugin.plugin.follow()
    assert plugin.metric("rknpu_plugin_config_last_reload_successful") == 0
    kubelet.allocate(["npu0-share-1"])


def test_what_was_read_first_does_not_come_into_force_last(kubelet, run_plugin):
    """A signal and the watch may reload at the same moment."""
    kubelet.start()
    plugin = run_plugin(shares=1)
    kubelet.wait_client()
    read, read_again = threading.Event(), threading.Event()
    load = plugin.plugin._reload

    def load_slowly():
        loaded = load()
        if read.is_set():
            read_again.set()
        else:
            read.set()
            read_again.wait(0.5)
        return loaded

    plugin.plugin._reload = load_slowly
    plugin.keys["shares"] = 2
    slow = threading.Thread(target=plugin.plugin.reload)
    slow.start()
    assert read.wait(5)
    plugin.reload(shares=3)
    slow.join()
    assert plugin.plugin.config.shares == 3
