"""The plugin as a process of its own, as systemd runs it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[2]
PACKAGE = TESTS.parent / "files" / "rknpu_plugin"

# The environment tells the number of the process, which is the same after this.
_HAND_OVER = """
import os, sys
if sys.argv[1] != "3":
    os.dup2(int(sys.argv[1]), 3)
    os.close(int(sys.argv[1]))
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.argv[2], sys.argv[2:])
"""


class PluginProcess:
    """`serve` on a board below *work*/board and a kubelet in *work*/kubelet.

    package: where the plugin is installed.
    listener: handed over as systemd does with the socket of a socket unit.
    """

    def __init__(
        self,
        work: Path,
        environment: dict[str, str] | None = None,
        package: Path = PACKAGE,
        listener: socket.socket | None = None,
        **keys: Any,
    ) -> None:
        self.work = work
        self.log_path = work / f"log-{time.monotonic_ns()}"
        keys = {"host_root": work / "board", "kubelet_dir": work / "kubelet", "listen": "", **keys}
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in keys.items()]
        command = [sys.executable, "-m", "unit.plugin.serve_tree", "serve", *flags]
        inherited = () if listener is None else (listener.fileno(),)
        if inherited:
            command = [sys.executable, "-c", _HAND_OVER, str(inherited[0]), *command]
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                pass_fds=inherited,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join([str(package), str(TESTS), *sys.path[1:]]),
                    "GRPC_ENABLE_FORK_SUPPORT": "false",
                    **(environment or {}),
                },
            )
        self.pid = self.process.pid

    def __enter__(self) -> PluginProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def wait_log(self, text: str, times: int = 1, seconds: float = 30.0) -> None:
        """Wait until *text* stands in the log *times* times."""
        deadline = time.monotonic() + seconds
        while self.log.count(text) < times:
            # Whoever takes over may speak after this process has ended.
            ended = self.process.poll() is not None and "handed over" not in self.log
            assert not ended or text in self.log, f"ended: {self.log}"
            assert time.monotonic() < deadline, f'no "{text}" in {self.log}'
            time.sleep(0.005)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = 30.0) -> int:
        return self.process.wait(seconds)

    # What the kernel says about the process

    @property
    def threads(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/task").iterdir()))

    @property
    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    @property
    def children(self) -> list[int]:
        tasks = Path(f"/proc/{self.pid}/task").glob("*/children")
        return [int(pid) for task in tasks for pid in task.read_text().split()]

    @property
    def rss_mib(self) -> float:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise AssertionError("no VmRSS")

    @property
    def cpu_seconds(self) -> float:
        """User and system time, to the nanosecond of the scheduler's own count."""
        total = 0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
        return total / 1e9
