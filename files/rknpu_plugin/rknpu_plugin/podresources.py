# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which shares containers hold, as the kubelet's pod-resources socket tells."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import grpc

from .api import podresources_pb2 as api
from .rpc import open_channel
from .shares import share_index

_METHOD = "/v1.PodResourcesLister/List"
_TIMEOUT_SECONDS = 1.0


class Holder(NamedTuple):
    """A container and one share that it holds."""

    namespace: str
    pod: str
    container: str
    share: str


def socket_path(kubelet_dir: str) -> str:
    """The socket beside the device-plugin directory, whose place is fixed too."""
    return str(Path(kubelet_dir).parent / "pod-resources" / "kubelet.sock")


def list_holders(kubelet_dir: str, resource: str) -> list[Holder] | None:
    """Who holds shares of *resource*, sorted; None if the kubelet does not say."""
    path = socket_path(kubelet_dir)
    if not Path(path).exists():
        return None
    try:
        with open_channel(path) as channel:
            call = channel.unary_unary(
                _METHOD,
                request_serializer=api.ListPodResourcesRequest.SerializeToString,
                response_deserializer=api.ListPodResourcesResponse.FromString,
            )
            response = call(api.ListPodResourcesRequest(), timeout=_TIMEOUT_SECONDS)
    except grpc.RpcError:
        return None
    return sorted(
        Holder(pod.namespace, pod.name, container.name, share)
        for pod in response.pod_resources
        for container in pod.containers
        for devices in container.devices
        if devices.resource_name == resource
        for share in devices.device_ids
        if share_index(share) is not None
    )
