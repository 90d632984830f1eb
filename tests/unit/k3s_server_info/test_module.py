"""The module's real main, against servers on loopback that answer as k3s does."""

from __future__ import annotations

import base64
import hashlib
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.rocknpu.edge.plugins.module_utils import k3s_access
from ansible_collections.rocknpu.edge.plugins.module_utils.k3s_access import Answer, find
from ansible_collections.rocknpu.edge.plugins.modules import k3s_server_info
from unit.node_capacity.kube_server import make_certificates

SECRET = "sekrit-token-7d1f"
PATHS = {"node": "/v1-k3s/client-ca.crt", "server": "/v1-k3s/encrypt/status"}


class Server:
    """A k3s server: whoever presents a password of *users* is let in."""

    def __init__(self, context: ssl.SSLContext, authority: bytes) -> None:
        self.authority = authority
        self.users = {f"node:{SECRET}", f"server:{SECRET}"}
        self.bearer = "abcdef.0123456789abcdef"
        self.seen: list[str] = []
        self.status = 0  # of every answer but that to /cacerts, whatever was sent
        server = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                code, text = server.answer(self.path, self.headers.get("Authorization") or "")
                self.send_response(code)
                self.end_headers()
                self.wfile.write(text)

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def answer(self, path: str, header: str) -> tuple[int, bytes]:
        self.seen.append(path)
        if path == "/cacerts":
            return 200, self.authority
        if self.status:
            return self.status, b""
        kind, _, text = header.partition(" ")
        known = text == self.bearer
        if kind == "Basic":
            known = base64.b64decode(text).decode() in self.users
        return (200, b"{}") if known else (401, b"Unauthorized")

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    authority, context = make_certificates(tmp_path)
    running = Server(context, authority.read_bytes())
    yield running
    running.close()


Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the module; no output ever holds the secret."""

    def run_module(*urls: str, token: str = SECRET, **options: Any) -> dict[str, Any]:
        arguments = {"urls": list(urls), "token": token, "timeout": 0, **options}
        with patch_module_args(arguments), pytest.raises(SystemExit):
            k3s_server_info.main()
        output = capsys.readouterr().out
        assert SECRET not in output
        returned: dict[str, Any] = json.loads(output)
        return returned

    return run_module


def full(authority: bytes, rest: str) -> str:
    return f"K10{hashlib.sha256(authority).hexdigest()}::{rest}"


@pytest.mark.parametrize("user", ["node", "server"])
def test_every_form_of_a_token_is_taken(run: Run, server: Server, user: str) -> None:
    for token in (
        SECRET,
        full(server.authority, f"{user}:{SECRET}"),
        full(server.authority, f"other:{SECRET}"),
        "abcdef.0123456789abcdef",
        full(server.authority, "abcdef.0123456789abcdef"),
    ):
        returned = run(server.url, token=token, user=user)
        assert (returned["state"], returned["url"], returned["changed"]) == (
            "ok",
            server.url,
            False,
        ), returned
    assert PATHS[user] in server.seen


def test_a_wrong_token_is_refused(run: Run, server: Server) -> None:
    for token in ("wrong", full(server.authority, "server:wrong"), "abcdef.0123456789abcdee"):
        assert run(server.url, token=token)["state"] == "refused"
    server.users = {f"node:{SECRET}"}
    assert run(server.url, user="server")["state"] == "refused"


def test_the_token_is_never_sent_to_another_cluster(run: Run, server: Server) -> None:
    returned = run(server.url, token=f"K10{'0' * 64}::server:{SECRET}")
    assert returned["state"] == "other_authority"
    assert server.seen == ["/cacerts"]


def test_a_server_that_is_down_does_not_hide_the_next(run: Run, server: Server) -> None:
    returned = run("https://127.0.0.1:1", server.url)
    assert returned["state"] == "ok"
    assert [answer["state"] for answer in returned["answers"]] == ["ok", "unreachable"]
    returned = run("https://127.0.0.1:1")
    assert returned["state"] == "unreachable"
    assert "refused" in returned["detail"].lower()


def test_an_address_that_the_certificate_does_not_cover(run: Run, server: Server) -> None:
    url = server.url.replace("127.0.0.1", "localhost")
    assert run(url)["state"] == "name"
    assert server.seen == ["/cacerts"]


def test_a_certificate_of_another_authority(run: Run, server: Server, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    server.authority = make_certificates(tmp_path / "other")[0].read_bytes()
    assert run(server.url)["state"] == "certificate"


def test_something_that_is_no_k3s(run: Run, server: Server) -> None:
    server.authority = b"hello"
    returned = run(server.url)
    assert (returned["state"], returned["detail"]) == (
        "other",
        "HTTP status 200 and no certificate at /cacerts",
    )


@pytest.mark.parametrize(
    ("status", "state"), [(404, "other"), (503, "unreachable"), (500, "ok"), (403, "refused")]
)
def test_only_who_has_looked_at_the_token_takes_it(
    run: Run, server: Server, status: int, state: str
) -> None:
    server.status = status
    assert run(server.url, user="server")["state"] == state


def test_addresses_are_checked(run: Run) -> None:
    for urls in ([], ["http://192.0.2.1:6443"]):
        assert run(*urls)["msg"].startswith("urls must be addresses such as https://")


def test_a_certificate_that_is_not_valid_now() -> None:
    # X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED.
    assert [k3s_access.judge_certificate(code) for code in (9, 10, 20)] == [
        "clock",
        "clock",
        "certificate",
    ]


def test_waiting_ends_when_it_cannot_help() -> None:
    clock = [0.0]
    asked: list[str] = []
    answers = iter(["unreachable", "unreachable", "other", "unreachable", "refused", "unreachable"])

    def ask(url: str) -> Answer:
        asked.append(url)
        return Answer(url, next(answers))

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    found = find(["a", "b"], 60, ask, now=lambda: clock[0], sleep=sleep)
    assert [(one.url, one.state) for one in found] == [("a", "refused"), ("b", "unreachable")]
    assert asked == ["a", "b"] * 3
    assert clock[0] == 4

    asked.clear()
    found = find(["a"], 5, lambda url: Answer(url, "unreachable"), lambda: clock[0], sleep)
    assert found == [Answer("a", "unreachable")]
    assert clock[0] == 10
