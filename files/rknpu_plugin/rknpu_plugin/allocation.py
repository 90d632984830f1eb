# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a container gets for its shares: device nodes, mounts and environment variables."""

from __future__ import annotations

from typing import Callable, Collection, Sequence

from .api import deviceplugin_pb2 as api
from .config import Config
from .device import Device
from .shares import core_mask, share_index

# In a message: gRPC loses messages that are longer than a few thousand characters.
_NAMED = 8
_NAME_LENGTH = 63


class AllocationError(Exception):
    """A request that cannot be granted.

    reason: "unknown_share", "too_many_shares" or "no_device", as a label for metrics.
    users_fault: whether repeating the request is useless.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.users_fault = reason != "no_device"


class Allocator:
    """Answers allocations from what is in memory; the only look at the host is whether paths exist.

    It keeps no record of who holds what: the kubelet does, and two records would differ one day.

    Args:
        config: returns the configuration in force.
        device: the NPU.
        cores: returns how many cores the NPU has.
    """

    def __init__(
        self, config: Callable[[], Config], device: Device, cores: Callable[[], int]
    ) -> None:
        self._config = config
        self._device = device
        self._cores = cores

    def allocate(
        self, shares: Sequence[str], offered: Collection[str]
    ) -> api.ContainerAllocateResponse:
        """The answer for one container.

        Args:
            shares: IDs that the kubelet booked for it.
            offered: IDs that the kubelet was told of.

        Raises:
            AllocationError: unknown or too many shares, or the NPU is gone.
        """
        config = self._config()
        wanted = sorted(set(shares), key=lambda share: (share_index(share) or 0, share))
        self._check(config, wanted, offered)
        look = self._device.current()
        if look.problem is not None:
            raise AllocationError(
                "no_device", f"{config.resource}: the NPU is not usable now: {look.problem}"
            )
        return api.ContainerAllocateResponse(
            envs=self._environment(config, wanted, look.nodes, len(offered)),
            devices=self._devices(config, [*look.nodes, *look.dma_heaps]),
            mounts=self._mounts(config),
        )

    def missing_paths(self) -> list[str]:
        """Configured extra devices and mounts that the host lacks; containers go without them."""
        config = self._config()
        devices = [extra.path for extra in config.extra_devices]
        mounts = [mount.host_path for mount in config.mounts]
        return [
            *(path for path in devices if self._device.find_node(path) is None),
            *(path for path in mounts if self._device.find_file(path) is None),
        ]

    def _check(self, config: Config, shares: Sequence[str], offered: Collection[str]) -> None:
        unknown = [share for share in shares if share not in offered]
        if unknown:
            raise AllocationError(
                "unknown_share",
                f"{config.resource}: no such share on this node: {_name_some(unknown)}; "
                f"it offers {_name_some(list(offered)) or 'none'}",
            )
        limit = config.max_shares_per_container
        if limit is not None and len(shares) > limit:
            raise AllocationError(
                "too_many_shares",
                f"{config.resource}: a container asks for {len(shares)} shares, "
                f"at most {limit} are allowed on this node (max_shares_per_container)",
            )

    def _devices(self, config: Config, nodes: Sequence[str]) -> list[api.DeviceSpec]:
        permissions = dict.fromkeys(nodes, config.permissions)
        for extra in config.extra_devices:
            node = self._device.find_node(extra.path)
            if node is not None:
                permissions[node] = extra.permissions or config.permissions
        return [
            api.DeviceSpec(container_path=node, host_path=node, permissions=allowed)
            for node, allowed in permissions.items()
        ]

    def _mounts(self, config: Config) -> list[api.Mount]:
        mounts = []
        for mount in config.mounts:
            # A path that is not there would keep the container from starting.
            host_path = self._device.find_file(mount.host_path)
            if host_path is not None:
                mounts.append(
                    api.Mount(
                        container_path=mount.container_path,
                        host_path=host_path,
                        read_only=mount.read_only,
                    )
                )
        return mounts

    def _environment(
        self, config: Config, shares: Sequence[str], nodes: Sequence[str], offered: int
    ) -> dict[str, str]:
        variables = {
            "RKNPU_DEVICE": nodes[0],
            "RKNPU_DEVICES": ",".join(nodes),
            "RKNPU_SHARE_IDS": ",".join(shares),
        }
        mask = core_mask([share_index(share) or 0 for share in shares], offered, self._cores())
        if mask is not None:
            variables["RKNPU_CORE_MASK"] = str(mask)
        if config.max_contexts is not None:
            variables["RKNN_MAX_CONTEXTS"] = str(config.max_contexts)
        return variables


def _name_some(shares: Sequence[str]) -> str:
    """The first of *shares* and how many there are beside them."""
    named = ", ".join(share[:_NAME_LENGTH] for share in shares[:_NAMED])
    return f"{named} and {len(shares) - _NAMED} more" if len(shares) > _NAMED else named
