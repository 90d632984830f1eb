# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""gRPC over Unix sockets, with the options that kubelets need."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import grpc

# Without it newer versions of grpcio send the percent-encoded path as :authority, which other
# implementations refuse: https://github.com/grpc/grpc/issues/38142
_CHANNEL_OPTIONS = (
    ("grpc.default_authority", "localhost"),
    # A proxy in the environment is for the network, never for a socket.
    ("grpc.enable_http_proxy", 0),
    # Else channels to a path share connections, also to a server that is gone since.
    ("grpc.use_local_subchannel_pool", 1),
)


def address(path: str) -> str:
    """The Unix socket *path* as gRPC wants it: a URI, in which a percent sign is no character."""
    return f"unix:{quote(path)}"


def open_channel(path: str) -> grpc.Channel:
    """A channel to the Unix socket *path*; it connects with its first call."""
    return grpc.insecure_channel(address(path), options=_CHANNEL_OPTIONS)


def warm_up() -> None:
    """Make the library do now what it would do with the first server and the first channel."""
    grpc.server(ThreadPoolExecutor(1)).stop(0)
    open_channel("/").close()


def describe(error: Exception) -> str:
    """What went wrong in a call, in one clause."""
    code: Any = getattr(error, "code", lambda: None)()
    details: Any = getattr(error, "details", lambda: None)()
    name = code.name if code is not None else type(error).__name__
    return f"{name}: {details}" if details else str(name)


def unary_handler(function: Any, request: Any, response: Any) -> grpc.RpcMethodHandler[Any, Any]:
    """A handler of one request and one response, for message classes *request* and *response*."""
    return grpc.unary_unary_rpc_method_handler(
        function,
        request_deserializer=request.FromString,
        response_serializer=response.SerializeToString,
    )


def service(
    name: str, methods: dict[str, grpc.RpcMethodHandler[Any, Any]]
) -> grpc.GenericRpcHandler:
    """A service by its full name, for example "v1beta1.Registration"."""
    return grpc.method_handlers_generic_handler(name, methods)
