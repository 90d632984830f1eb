"""The module's real main, with the real Kubernetes client, against a server on loopback."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.rocknpu.edge.plugins.module_utils import capacity_wait
from ansible_collections.rocknpu.edge.plugins.modules import node_capacity
from unit.node_capacity.kube_server import KubeServer, make_certificates

TOKEN = "sekrit-api-key-7d1f"
PATIENCE = 30

Run = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of the machine."""
    for name in [*os.environ]:
        if name.startswith(("K8S_AUTH_", "KUBE")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture
def server() -> Iterator[KubeServer]:
    """A plain HTTP server that wants TOKEN."""
    with KubeServer() as running:
        running.token = TOKEN
        yield running


@pytest.fixture
def certificates(tmp_path: Path) -> tuple[Path, ssl.SSLContext]:
    """The file of a CA, and the context of a server it vouches for."""
    return make_certificates(tmp_path)


@pytest.fixture
def tls_server(certificates: tuple[Path, ssl.SSLContext]) -> Iterator[KubeServer]:
    """A TLS server that wants TOKEN."""
    with KubeServer(certificates[1]) as running:
        running.token = TOKEN
        yield running


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the module in this process, with short pauses between two looks, and return its answer.

    Requests may take long, for the sake of busy machines; the last PATIENCE seconds of a timeout
    are for the last request. No output ever holds TOKEN.
    """
    monkeypatch.setattr(capacity_wait, "INTERVAL", 0.05)
    monkeypatch.setattr(capacity_wait, "_SHORTEST_REQUEST", PATIENCE)
    monkeypatch.setattr(capacity_wait, "_LONGEST_REQUEST", PATIENCE)

    def run_module(**arguments: Any) -> dict[str, Any]:
        given = {"nodes": ["node-01"], "expected": 2, "timeout": 0, **arguments}
        given = {name: value for name, value in given.items() if value is not None}
        with patch_module_args(given), pytest.raises(SystemExit) as exit_status:
            node_capacity.main()
        output = capsys.readouterr()
        assert TOKEN not in output.out + output.err
        answer: dict[str, Any] = json.loads(output.out)
        assert bool(exit_status.value.code) == answer.get("failed", False)
        assert answer.get("changed", False) is False
        return answer

    return run_module


@pytest.fixture
def impatient(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no request of `run` take longer than a second."""
    monkeypatch.setattr(capacity_wait, "_SHORTEST_REQUEST", 1)
    monkeypatch.setattr(capacity_wait, "_LONGEST_REQUEST", 1)
