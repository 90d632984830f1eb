"""What the tests of the plugin share: a board and a kubelet in a directory, a running plugin."""

from __future__ import annotations

import io
import logging
import os
import shutil
import socket
import tempfile
import threading
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
from rknpu_plugin import log
from rknpu_plugin.config_sources import LoadedConfig, load_config
from rknpu_plugin.log import set_up_logging
from rknpu_plugin.plugin import Plugin
from unit.plugin.board_tree import BoardTree, is_node
from unit.plugin.kubelet_stub import KubeletStub


@pytest.fixture
def work() -> Iterator[Path]:
    """A directory whose path leaves room for the names of sockets, unlike tmp_path."""
    path = Path(tempfile.mkdtemp(prefix="rk"))
    (path / "kubelet").mkdir()
    yield path
    shutil.rmtree(path)


@pytest.fixture
def board(work: Path) -> BoardTree:
    return BoardTree(work / "board")


@pytest.fixture
def kubelet(work: Path) -> Iterator[KubeletStub]:
    """A kubelet that has not been started yet."""
    with KubeletStub(work / "kubelet") as stub:
        yield stub


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """Tests set up logging to streams that end with them, and start without an error."""
    log._last_error.last = None
    set_up_logging("text", "debug", stream=io.StringIO())
    yield
    logging.getLogger("rknpu_plugin").handlers.clear()


@pytest.fixture(autouse=True)
def own_umask() -> Iterator[None]:
    """The plugin sets one for its sockets, which is not for the tests after these."""
    umask = os.umask(0o022)
    os.umask(umask)
    yield
    os.umask(umask)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugin looks ten times as often: what must not happen gets its chances soon."""
    for name in ("health.LOOK_SECONDS", "health.RECHECK_SECONDS", "supervisor.LOOK_SECONDS"):
        monkeypatch.setattr(f"rknpu_plugin.{name}", 0.1)


class RunningPlugin:
    """A plugin in a thread of this process; its keys can be changed and reloaded."""

    def __init__(self, work: Path, listener: socket.socket | None, keys: dict[str, Any]) -> None:
        self.keys = {
            "host_root": work / "board",
            "kubelet_dir": work / "kubelet",
            "listen": "",
            **keys,
        }
        self.plugin = Plugin(self._load(), self._load, is_node, listener=listener)
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="plugin")
        self._thread.start()

    def _load(self) -> LoadedConfig:
        return load_config({name: str(value) for name, value in self.keys.items()}, {})

    def _run(self) -> None:
        try:
            self.plugin.run()
        except BaseException as error:
            self.failure = error

    def reload(self, **keys: Any) -> None:
        self.keys.update(keys)
        self.plugin.reload()

    def metric(self, name: str, **labels: str) -> float | None:
        return self.plugin.metrics.registry.get_sample_value(name, labels)

    def stop(self) -> None:
        self.plugin.stop()
        self.join()

    def join(self) -> None:
        self._thread.join(20)
        assert not self._thread.is_alive(), "the plugin does not stop"


@pytest.fixture
def run_plugin(work: Path, board: BoardTree) -> Iterator[Callable[..., RunningPlugin]]:
    """Starts plugins, and stops them after the test."""
    running: list[RunningPlugin] = []

    def run(listener: socket.socket | None = None, **keys: Any) -> RunningPlugin:
        running.append(RunningPlugin(work, listener, keys))
        return running[-1]

    yield run
    for plugin in running:
        plugin.stop()
