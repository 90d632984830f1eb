# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The gRPC service that the kubelet calls: v1beta1.DevicePlugin.

https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/
"""

from __future__ import annotations

import threading
import time
from typing import Callable, Iterator

import grpc

from .allocation import AllocationError, Allocator
from .api import deviceplugin_pb2 as api
from .log import log
from .metrics import Metrics
from .rpc import service, unary_handler
from .share_list import ShareList, Snapshot
from .shares import prefer

SERVICE = "v1beta1.DevicePlugin"
# Each open list holds a thread of the server; the rest is for calls, which come one by one. A
# kubelet opens one; another may still be open because its reader left and was not yet missed.
MAX_STREAMS = 2
WORKERS = MAX_STREAMS + 2

OPTIONS = api.DevicePluginOptions(pre_start_required=False, get_preferred_allocation_available=True)


class _Stream:
    """One open list."""

    def __init__(self) -> None:
        # Whether it has carried a list to the kubelet.
        self.read = False
        # Whether so many were opened after it that it has to end.
        self.superseded = False


class DevicePluginService:
    """Answers one registration with the kubelet, until close().

    Args:
        shares: what is offered.
        allocator: answers allocations.
        cores: returns how many cores the NPU has.
        streams_changed: called when the kubelet opened, read or left the list.
        device_lost: called when an allocation found the NPU gone.
    """

    def __init__(
        self,
        shares: ShareList,
        allocator: Allocator,
        cores: Callable[[], int],
        metrics: Metrics,
        streams_changed: Callable[[], None],
        device_lost: Callable[[], None],
    ) -> None:
        self._shares = shares
        self._allocator = allocator
        self._cores = cores
        self._metrics = metrics
        self._streams_changed = streams_changed
        self._device_lost = device_lost
        self._lock = threading.Lock()
        # The open lists, the newest last.
        self._streams: list[_Stream] = []
        self._closed = False
        self._opened = False

    @property
    def streams(self) -> int:
        """How many lists are open; a kubelet opens one."""
        return len(self._streams)

    @property
    def list_was_read(self) -> bool:
        """Whether an open stream has carried the list to the kubelet."""
        with self._lock:
            return any(stream.read for stream in self._streams)

    @property
    def list_was_left(self) -> bool:
        """Whether the kubelet has opened the list and no longer has it open."""
        return self._opened and not self._streams

    def close(self) -> None:
        """End every open list."""
        self._closed = True
        self._shares.wake()

    def handler(self) -> grpc.GenericRpcHandler:
        """The service for a gRPC server."""
        return service(
            SERVICE,
            {
                "GetDevicePluginOptions": unary_handler(
                    self._get_options, api.Empty, api.DevicePluginOptions
                ),
                "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                    self._list_and_watch,
                    request_deserializer=api.Empty.FromString,
                    response_serializer=api.ListAndWatchResponse.SerializeToString,
                ),
                "GetPreferredAllocation": unary_handler(
                    self._get_preferred_allocation,
                    api.PreferredAllocationRequest,
                    api.PreferredAllocationResponse,
                ),
                "Allocate": unary_handler(
                    self._allocate, api.AllocateRequest, api.AllocateResponse
                ),
                "PreStartContainer": unary_handler(
                    self._pre_start, api.PreStartContainerRequest, api.PreStartContainerResponse
                ),
            },
        )

    def _get_options(
        self, _request: api.Empty, _context: grpc.ServicerContext
    ) -> api.DevicePluginOptions:
        return OPTIONS

    def _pre_start(
        self, _request: api.PreStartContainerRequest, _context: grpc.ServicerContext
    ) -> api.PreStartContainerResponse:
        # Not announced in the options, so no kubelet calls it; a share needs no preparation.
        return api.PreStartContainerResponse()

    def _list_and_watch(
        self, _request: api.Empty, context: grpc.ServicerContext
    ) -> Iterator[api.ListAndWatchResponse]:
        stream = self._open_stream()
        try:
            # Without it a reader that left would hold its thread until the next change of the list.
            if not context.add_callback(self._shares.wake):
                return
            generation = 0
            while True:
                snapshot = self._shares.wait_newer(
                    generation,
                    lambda: not (self._closed or stream.superseded) and context.is_active(),
                )
                if snapshot is None:
                    return
                yield _to_message(snapshot)
                # gRPC asks for the next message when this one has been written.
                generation = snapshot.generation
                self._metrics.list_updates.inc()
                if not stream.read:
                    stream.read = True
                    self._streams_changed()
        finally:
            with self._lock:
                self._streams.remove(stream)
            self._streams_changed()

    def _open_stream(self) -> _Stream:
        """A new stream, for which the oldest give way: the newest is the kubelet's that lives."""
        stream = _Stream()
        with self._lock:
            self._opened = True
            self._streams.append(stream)
            superseded = self._streams[:-MAX_STREAMS]
            for old in superseded:
                old.superseded = True
        if superseded:
            self._shares.wake()
        return stream

    def _get_preferred_allocation(
        self, request: api.PreferredAllocationRequest, _context: grpc.ServicerContext
    ) -> api.PreferredAllocationResponse:
        offered = self._shares.current.shares
        return api.PreferredAllocationResponse(
            container_responses=[
                api.ContainerPreferredAllocationResponse(
                    deviceIDs=prefer(
                        container.available_deviceIDs,
                        container.must_include_deviceIDs,
                        container.allocation_size,
                        offered,
                        self._cores(),
                    )
                )
                for container in request.container_requests
            ]
        )

    def _allocate(
        self, request: api.AllocateRequest, context: grpc.ServicerContext
    ) -> api.AllocateResponse:
        started = time.perf_counter()
        offered = self._shares.current.shares
        requests = [list(container.devices_ids) for container in request.container_requests]
        try:
            responses = [self._allocator.allocate(shares, offered) for shares in requests]
        except AllocationError as error:
            self._metrics.allocation_failures.labels(error.reason).inc()
            log.warning("an allocation was refused", reason=str(error))
            if not error.users_fault:
                self._device_lost()
            code = (
                grpc.StatusCode.INVALID_ARGUMENT
                if error.users_fault
                else grpc.StatusCode.UNAVAILABLE
            )
            context.abort(code, str(error))
        self._metrics.allocation_seconds.observe(time.perf_counter() - started)
        # Once the answer is on its way: the kubelet does not wait for a log.
        context.add_callback(lambda: self._tell_allocations(requests))
        return api.AllocateResponse(container_responses=responses)

    def _tell_allocations(self, requests: list[list[str]]) -> None:
        self._metrics.allocations.inc(len(requests))
        for shares in requests:
            log.info("shares were allocated", share=",".join(sorted(shares)))
        missing = self._allocator.missing_paths()
        if missing:
            log.warning("a container goes without paths that are missing", paths=",".join(missing))


def _to_message(snapshot: Snapshot) -> api.ListAndWatchResponse:
    # No topology: the boards have one NUMA node, and naming it would make the kubelet align to it.
    health = "Healthy" if snapshot.healthy else "Unhealthy"
    return api.ListAndWatchResponse(
        devices=[api.Device(ID=share, health=health) for share in snapshot.shares]
    )
