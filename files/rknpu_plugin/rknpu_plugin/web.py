# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Metrics and health over HTTP."""

from __future__ import annotations

import select
import socket
import threading
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


class WebServer(threading.Thread):
    """Serves /metrics, /healthz and /readyz until stop().

    An address that is taken is no reason to take the NPU from the cluster, so it is tried again
    until it is free.

    Args:
        address: where to listen.
        find_problem: behind /healthz; the text of what is wrong, or None.
        find_unreadiness: behind /readyz, in the same way.
    """

    def __init__(
        self,
        address: Address,
        registry: CollectorRegistry,
        find_problem: Callable[[], str | None],
        find_unreadiness: Callable[[], str | None],
    ) -> None:
        super().__init__(name="web", daemon=True)
        self._address = address
        self._stopping = False
        self._wakeup = Wakeup()
        self._handler = _make_handler(registry, find_problem, find_unreadiness)

    def run(self) -> None:
        told = ""
        while not self._stopping:
            try:
                server = _Server(self._address, self._handler)
            except OSError as error:
                reason = f"{self._address}: {error.strerror or error}"
                if reason != told:
                    told = reason
                    log.error("metrics and health cannot be served (listen)", reason=reason)
                self._wakeup.wait(_RETRY_SECONDS)
                continue
            log.info("metrics and health are served", port=server.server_port)
            with server:
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


class _Server(HTTPServer):
    request_queue_size = 16
    # Of handle_request(), which is called when somebody is there; the client may be gone again.
    timeout = 0

    def __init__(self, address: Address, handler: type[BaseHTTPRequestHandler]) -> None:
        host = address.host
        if not host and socket.has_ipv6:
            host = "::"
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._slots = threading.BoundedSemaphore(_MAX_REQUESTS)
        try:
            super().__init__((host, address.port), handler)
        except OSError:
            # A kernel without IPv6 has the module all the same.
            if address.host or self.address_family != socket.AF_INET6:
                raise
            self.address_family = socket.AF_INET
            super().__init__(("", address.port), handler)

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # HTTPServer would look up the host's name, which can take long where there is no DNS.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_port = int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        threading.Thread(
            target=self._answer, args=(request, client_address), name="request", daemon=True
        ).start()

    def _answer(self, request: Any, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except Exception as error:
            log.debug("a request over HTTP failed", reason=repr(error))
        finally:
            self.shutdown_request(request)
            self._slots.release()


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
