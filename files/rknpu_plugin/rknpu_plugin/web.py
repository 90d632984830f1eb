# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Metrics and health over HTTP."""

from __future__ import annotations

import errno
import select
import socket
import socketserver
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Callable

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from .config import Address
from .log import log
from .watch import Wakeup

# How long one client may take to ask, and again to take the answer; how many may ask at once:
# scrapers and probes are few.
_REQUEST_SECONDS = 5.0
_MAX_REQUESTS = 8
_RETRY_SECONDS = 10.0
_LAST_ANSWERS_SECONDS = 1.0
_BACKLOG = 16
_NO_SOCKET = (
    "this process can open no such socket, and systemd has handed over none: see the state of the "
    "socket unit, systemctl list-sockets --all"
)


class WebServer(threading.Thread):
    """Serves /metrics, /healthz and /readyz from start() until stop().

    An address that is taken is no reason to take the NPU from the cluster, so it is tried again
    until it is free.

    Args:
        address: where to listen.
        listener: systemd's socket, which is used as it is.
        find_problem: behind /healthz; the text of what is wrong, or None.
        find_unreadiness: behind /readyz, in the same way.
        note: told in one clause what is wrong with listening, or None, on change.
    """

    def __init__(
        self,
        address: Address,
        listener: socket.socket | None,
        registry: CollectorRegistry,
        find_problem: Callable[[], str | None],
        find_unreadiness: Callable[[], str | None],
        note: Callable[[str | None], None],
    ) -> None:
        super().__init__(name="web", daemon=True)
        self._address = address
        self._listener = listener
        self._note = note
        self._flaw: str | None = None
        self._stopping = False
        self._wakeup = Wakeup()
        self._handler = _make_handler(registry, find_problem, find_unreadiness)

    def start(self) -> None:
        """Listen, so that nobody is refused who hears of the plugin's start; and then answer."""
        if self._listener is None:
            self._listen()
        else:
            self._compare(self._listener)
        super().start()

    def _listen(self) -> None:
        try:
            self._listener = _open(self._address)
        except OSError as error:
            reason = _NO_SOCKET if error.errno == errno.EAFNOSUPPORT else error.strerror
            self._tell(
                "metrics and health cannot be served (listen)",
                f"{self._address}: {reason or error}",
            )
        else:
            self._tell(None)

    def _compare(self, listener: socket.socket) -> None:
        found = Address.of(listener)
        if not self._address.is_same(found):
            self._tell(
                "metrics and health are not served where listen wants them",
                f"systemd has handed over a socket on {found}, and listen is {self._address}: "
                "change ListenStream= of the socket unit and restart both",
            )

    def _tell(self, message: str | None, reason: str = "") -> None:
        """Log and note what is wrong, once."""
        flaw = message and f"{message}: {reason}"
        if flaw != self._flaw:
            self._flaw = flaw
            self._note(flaw)
            if message is not None:
                log.error(message, reason=reason)

    def run(self) -> None:
        while self._listener is None and not self._stopping:
            self._wakeup.wait(_RETRY_SECONDS)
            self._listen()
        if self._listener is not None:
            with _Server(self._listener, self._handler) as server:
                log.info("metrics and health are served", port=server.server_port)
                self._serve(server)

    def _serve(self, server: _Server) -> None:
        # serve_forever() can only be ended by looking at a flag every now and then.
        while not self._stopping:
            select.select([server.fileno(), self._wakeup.fileno()], [], [])
            if not self._stopping:
                server.handle_request()

    def stop(self) -> None:
        """End the thread; returns when it has ended."""
        self._stopping = True
        self._wakeup.wake()
        self.join()
        self._wakeup.close()


def _open(address: Address) -> socket.socket:
    """A socket that listens there."""
    if address.host:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        return _bind(family, address.host, address.port)
    try:
        return _bind(socket.AF_INET6, "::", address.port)
    except OSError:
        # A kernel without IPv6 has the module all the same.
        return _bind(socket.AF_INET, "0.0.0.0", address.port)


def _bind(family: int, host: str, port: int) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


class _Server(HTTPServer):
    """Answers at a socket that listens already."""

    # Of handle_request(), which is called when somebody is there; the client may be gone again.
    timeout = 0

    def __init__(self, listener: socket.socket, handler: type[BaseHTTPRequestHandler]) -> None:
        # Those between would make a socket, and look up a name for it, which can take long.
        socketserver.BaseServer.__init__(self, listener.getsockname(), handler)
        self.socket = listener
        self.server_port = int(self.server_address[1])
        self._answering: set[threading.Thread] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        if len(self._answering) >= _MAX_REQUESTS:
            self.shutdown_request(request)
            return
        thread = threading.Thread(
            target=self._answer, args=(request, client_address), name="request", daemon=True
        )
        self._answering.add(thread)
        thread.start()

    def _answer(self, request: Any, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except Exception as error:
            log.debug("a request over HTTP failed", reason=repr(error))
        finally:
            self.shutdown_request(request)
            self._answering.discard(threading.current_thread())

    def server_close(self) -> None:
        """Listen no longer, and return when who was there before has the answer."""
        super().server_close()
        deadline = time.monotonic() + _LAST_ANSWERS_SECONDS
        while self._answering and time.monotonic() < deadline:
            time.sleep(0.01)


def _make_handler(
    registry: CollectorRegistry,
    find_problem: Callable[[], str | None],
    find_unreadiness: Callable[[], str | None],
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _REQUEST_SECONDS
        server_version = "rknpu-plugin"
        sys_version = ""

        def setup(self) -> None:
            super().setup()
            # The time limit of the socket begins anew with each byte that comes.
            self._limit = threading.Timer(_REQUEST_SECONDS, self._hang_up)
            self._limit.daemon = True
            self._limit.start()

        def _hang_up(self) -> None:
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

        def finish(self) -> None:
            self._limit.cancel()
            super().finish()

        def do_GET(self) -> None:
            self._limit.cancel()
            path = self.path.partition("?")[0]
            if path == "/metrics":
                self._send_metrics()
            elif path == "/healthz":
                self._send_verdict(find_problem())
            elif path == "/readyz":
                self._send_verdict(find_unreadiness())
            else:
                self._send(404, b"there are /metrics, /healthz and /readyz\n")

        do_HEAD = do_GET  # noqa: N815

        def _send_metrics(self) -> None:
            try:
                encode, content_type = choose_encoder(self.headers.get("Accept", ""))
            except Exception:
                # The library trusts that a version consists of numbers.
                encode, content_type = choose_encoder("")
            self._send(200, encode(registry), content_type)

        def _send_verdict(self, problem: str | None) -> None:
            self._send(503 if problem else 200, f"{problem or 'ok'}\n".encode())

        def _send(self, status: int, body: bytes, content_type: str = "text/plain") -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass  # Scrapes are no events.

    return Handler
