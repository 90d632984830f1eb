# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A socket of the plugin in the kubelet's directory, and the gRPC server behind it.

Each start has a socket name of its own. A gRPC server removes the path of its socket when it stops,
whoever owns the path by then, and kubelets tell instances of a plugin apart by the path.
"""

from __future__ import annotations

import os
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import grpc

from .kubelet import explain_bind, explain_directory
from .rpc import address
from .service import WORKERS, DevicePluginService

_STOP_SECONDS = 5.0


class EndpointError(Exception):
    """The socket cannot be served; the text names the path and the reason."""


def socket_prefix(resource: str) -> str:
    """How the names of all sockets begin that serve *resource*."""
    return f"rknpu-{zlib.crc32(resource.encode()):08x}-"


def remove_stale_sockets(directory: str, resource: str, own: str = "") -> list[str]:
    """Remove what other instances for *resource* left behind; the caller holds its lock."""
    removed = []
    for path in sorted(Path(directory).glob(socket_prefix(resource) + "*.sock")):
        if path.name != own and path.is_socket():
            with suppress(OSError):
                path.unlink()
                removed.append(path.name)
    return removed


class Endpoint:
    """One served socket.

    Args:
        directory: the kubelet's device-plugin directory.
        resource: what is offered.
        service: answers the kubelet.
    """

    def __init__(self, directory: str, resource: str, service: DevicePluginService) -> None:
        self.name = f"{socket_prefix(resource)}{os.getpid()}-{time.monotonic_ns() // 1000:x}.sock"
        self.path = str(Path(directory, self.name))
        self.service = service
        self.is_serving = False
        self._directory = directory
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="grpc")
        self._server = grpc.server(
            self._pool,
            handlers=[service.handler()],
            # Nobody else may take over the name.
            options=[("grpc.so_reuseport", 0)],
        )

    def start(self) -> None:
        """Serve.

        Raises:
            EndpointError: with the path and the reason.
        """
        problem = explain_directory(self._directory)
        if problem is not None:
            raise EndpointError(problem)
        try:
            # Some versions of grpcio return 0 where others raise, with a text that says nothing.
            bound = self._server.add_insecure_port(address(self.path)) != 0
        except RuntimeError:
            bound = False
        if not bound or not self.is_there():
            raise EndpointError(explain_bind(self.path))
        self._server.start()
        self.is_serving = True

    def is_there(self) -> bool:
        """Whether the socket still exists; a kubelet that starts removes it."""
        return Path(self.path).is_socket()

    def stop(self) -> None:
        """End the list, stop the server and wait until its socket and its threads are gone."""
        self.is_serving = False
        self.service.close()
        self._server.stop(0).wait(_STOP_SECONDS)
        self._pool.shutdown(wait=True)
