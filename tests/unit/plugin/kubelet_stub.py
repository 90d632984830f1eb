"""A kubelet as a device plugin sees it.

It behaves as Kubernetes does (pkg/kubelet/cm/devicemanager): it removes every socket when it
starts, calls the plugin back while Register waits, keeps one list per endpoint and never opens it
again, and gives Allocate no time limit.

When a list ends, kubelets differ. Those that know plugins by their sockets take the resource for
gone if it was the last of its lists. Those from 1.25 on that know them by resource alone take it
for gone and disconnect whoever registered last
(https://github.com/kubernetes/kubernetes/pull/135437).
"""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable
from urllib.parse import quote

import grpc
from rknpu_plugin.api import deviceplugin_pb2 as api
from rknpu_plugin.api import podresources_pb2 as podresources

KUBELET_WORKERS = 4
CHANNEL_OPTIONS = [("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1)]


def uri(path: Path | str) -> str:
    """A socket's path for gRPC."""
    return f"unix:{quote(str(path))}"


def call(channel: grpc.Channel, method: str, request: Any, response: Any, **options: Any) -> Any:
    """One unary call of v1beta1.DevicePlugin."""
    stub = channel.unary_unary(
        f"/v1beta1.DevicePlugin/{method}",
        request_serializer=type(request).SerializeToString,
        response_deserializer=response.FromString,
    )
    return stub(request, **options)


@dataclass
class Listing:
    """One message of a list, as it arrived."""

    time: float
    devices: dict[str, str]


@dataclass
class Client:
    """The kubelet's connection to one endpoint."""

    endpoint: str
    request: api.RegisterRequest
    options: api.DevicePluginOptions
    channel: grpc.Channel
    registered: float
    listings: list[Listing] = field(default_factory=list)
    allocate: Any = None
    stream: Any = None
    ended: float | None = None


class KubeletStub:
    """Runs in *directory*, which stands for /var/lib/kubelet/device-plugins.

    by_resource: whether it is one that knows plugins by their resource alone.
    """

    def __init__(self, directory: Path, by_resource: bool = False) -> None:
        self.directory = directory
        self.by_resource = by_resource
        self.socket = directory / "kubelet.sock"
        self.clients: list[Client] = []
        self.authorities: list[str] = []
        self.refuse: str | None = None
        self.dial_seconds = 10.0
        self.before_answer: Callable[[], None] = lambda: None
        self.started = 0.0
        # How many shares could be allocated, and since when.
        self.history: list[tuple[float, int]] = [(0.0, 0)]
        # The endpoints that are connected; allocations go to the last one.
        self._connected: list[Client] = []
        self._server: grpc.Server | None = None
        self._changed = threading.Condition()

    def __enter__(self) -> KubeletStub:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        for entry in self.directory.iterdir():
            if entry.is_socket():
                # The plugin may remove its own at the same moment.
                entry.unlink(missing_ok=True)
        with self._changed:
            self._connected = []
            self._note(0)
        server = grpc.server(ThreadPoolExecutor(KUBELET_WORKERS))
        server.add_generic_rpc_handlers(
            [
                grpc.method_handlers_generic_handler(
                    "v1beta1.Registration",
                    {
                        "Register": grpc.unary_unary_rpc_method_handler(
                            self._register,
                            request_deserializer=api.RegisterRequest.FromString,
                            response_serializer=api.Empty.SerializeToString,
                        )
                    },
                )
            ]
        )
        server.add_insecure_port(uri(self.socket))
        self.started = time.monotonic()
        server.start()
        self._server = server

    def stop(self, *, leave_socket: bool = False, late_streams: bool = False) -> None:
        """Stop as a killed kubelet does.

        leave_socket: the socket's file stays behind, as after SIGKILL.
        late_streams: the old lists end only when end_streams() is called.
        """
        if self._server is None:
            return
        keep = self.directory / "keep"
        if leave_socket:
            os.link(self.socket, keep)
        self._server.stop(0).wait()
        self._server = None
        if leave_socket:
            keep.rename(self.socket)
        if not late_streams:
            self.end_streams()

    def restart(self, **how: bool) -> None:
        self.stop(**how)
        self.start()

    def end_streams(self, clients: list[Client] | None = None) -> None:
        for client in self.clients if clients is None else clients:
            if client.stream is not None:
                client.stream.cancel()
            client.channel.close()

    def _register(self, request: api.RegisterRequest, context: grpc.ServicerContext) -> api.Empty:
        if request.version != "v1beta1":
            context.abort(grpc.StatusCode.UNKNOWN, "unsupported version")
        if self.refuse is not None:
            context.abort(grpc.StatusCode.UNKNOWN, self.refuse)
        path = self.directory / request.endpoint
        channel = grpc.insecure_channel(uri(path), options=CHANNEL_OPTIONS)
        try:
            grpc.channel_ready_future(channel).result(self.dial_seconds)
        except grpc.FutureTimeoutError:
            channel.close()
            context.abort(grpc.StatusCode.UNKNOWN, f"failed to dial device plugin {path}")
        options = call(
            channel, "GetDevicePluginOptions", api.Empty(), api.DevicePluginOptions, timeout=10
        )
        client = Client(request.endpoint, request, options, channel, time.monotonic())
        client.allocate = channel.unary_unary(
            "/v1beta1.DevicePlugin/Allocate",
            request_serializer=api.AllocateRequest.SerializeToString,
            response_deserializer=api.AllocateResponse.FromString,
        )
        with self._changed:
            self.clients.append(client)
            # Who is known by its resource takes the place of whoever was known by it.
            self._connected = [client] if self.by_resource else [*self._connected, client]
            self._changed.notify_all()
        self.before_answer()
        threading.Thread(target=self._list, args=(client,), daemon=True).start()
        return api.Empty()

    def _list(self, client: Client) -> None:
        try:
            client.stream = client.channel.unary_stream(
                "/v1beta1.DevicePlugin/ListAndWatch",
                request_serializer=api.Empty.SerializeToString,
                response_deserializer=api.ListAndWatchResponse.FromString,
            )(api.Empty())
            for message in client.stream:
                devices = {device.ID: device.health for device in message.devices}
                with self._changed:
                    client.listings.append(Listing(time.monotonic(), devices))
                    self._note(sum(health == "Healthy" for health in devices.values()))
                    self._changed.notify_all()
        except (grpc.RpcError, ValueError):
            pass
        with self._changed:
            client.ended = time.monotonic()
            self._disconnect(client)
            self._changed.notify_all()

    def _disconnect(self, ended: Client) -> None:
        if self.by_resource:
            gone = self._connected[:]
        else:
            gone = [client for client in self._connected if client is ended]
        for client in gone:
            client.channel.close()
            self._connected.remove(client)
        if gone and not self._connected:
            self._note(0)

    def _note(self, allocatable: int) -> None:
        if allocatable != self.history[-1][1]:
            self.history.append((time.monotonic(), allocatable))

    # What tests ask

    def wait(self, condition: Callable[[], Any], seconds: float = 30.0, what: str = "") -> Any:
        """Wait for a registration, a message or the end of a list that makes *condition* true."""
        with self._changed:
            result = self._changed.wait_for(condition, seconds)
        assert result, f"not within {seconds} s: {what or condition}"
        return result

    def wait_client(self, number: int = 1, seconds: float = 30.0) -> Client:
        """The *number*th registration whose list has been read."""
        self.wait(
            lambda: len(self.clients) >= number and self.clients[number - 1].listings,
            seconds,
            f"registration {number} with its list",
        )
        return self.clients[number - 1]

    def wait_devices(self, devices: dict[str, str], seconds: float = 30.0) -> Listing:
        """The message in which the latest list became *devices*."""
        self.wait(lambda: self.devices == devices, seconds, f"{devices}, not {self.devices}")
        return self.clients[-1].listings[-1]

    @property
    def devices(self) -> dict[str, str]:
        """The latest message of the latest list; empty once that has ended."""
        if not self.clients or not self.clients[-1].listings or self.clients[-1].ended:
            return {}
        return self.clients[-1].listings[-1].devices

    @property
    def allocatable(self) -> int:
        return self.history[-1][1]

    def allocate(self, *containers: list[str]) -> list[api.ContainerAllocateResponse]:
        request = api.AllocateRequest(
            container_requests=[
                api.ContainerAllocateRequest(devices_ids=shares) for shares in containers
            ]
        )
        return list(self._connected[-1].allocate(request).container_responses)

    def prefer(self, available: list[str], required: list[str], size: int) -> list[str]:
        request = api.PreferredAllocationRequest(
            container_requests=[
                api.ContainerPreferredAllocationRequest(
                    available_deviceIDs=available,
                    must_include_deviceIDs=required,
                    allocation_size=size,
                )
            ]
        )
        channel = self.clients[-1].channel
        response = call(channel, "GetPreferredAllocation", request, api.PreferredAllocationResponse)
        return list(response.container_responses[0].deviceIDs)


class PodResourcesStub:
    """The kubelet's socket that tells which container holds which device."""

    def __init__(self, kubelet_dir: Path) -> None:
        self.path = kubelet_dir.parent / "pod-resources" / "kubelet.sock"
        self.held: list[tuple[str, str, str, str, list[str]]] = []
        self._server: grpc.Server | None = None

    def __enter__(self) -> PodResourcesStub:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._server = grpc.server(ThreadPoolExecutor(2))
        self._server.add_generic_rpc_handlers(
            [
                grpc.method_handlers_generic_handler(
                    "v1.PodResourcesLister",
                    {
                        "List": grpc.unary_unary_rpc_method_handler(
                            self._list,
                            request_deserializer=podresources.ListPodResourcesRequest.FromString,
                            response_serializer=(
                                podresources.ListPodResourcesResponse.SerializeToString
                            ),
                        )
                    },
                )
            ]
        )
        self._server.add_insecure_port(uri(self.path))
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.stop(0).wait()

    def hold(
        self, share: str, pod: str = "pod", resource: str = "rocknpu.device/npu", **where: str
    ) -> None:
        namespace, container = where.get("namespace", "default"), where.get("container", "main")
        self.held.append((namespace, pod, container, resource, [share]))

    def _list(
        self, _request: podresources.ListPodResourcesRequest, _context: grpc.ServicerContext
    ) -> podresources.ListPodResourcesResponse:
        return podresources.ListPodResourcesResponse(
            pod_resources=[
                podresources.PodResources(
                    name=pod,
                    namespace=namespace,
                    containers=[
                        podresources.ContainerResources(
                            name=container,
                            devices=[
                                podresources.ContainerDevices(
                                    resource_name=resource, device_ids=shares
                                )
                            ],
                        )
                    ],
                )
                for namespace, pod, container, resource, shares in self.held
            ]
        )
