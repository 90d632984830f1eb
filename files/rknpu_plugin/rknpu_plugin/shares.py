# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Shares of one NPU: their names, which of them are offered, which cores they lean to.

Pure functions. A share is a right to use the NPU together with the other holders; the driver has no
partitions. Names stay the same across restarts, so that the kubelet's bookkeeping stays true.
"""

from __future__ import annotations

import re
from typing import Collection, Iterable

MAX_SHARES = 100
_ID = re.compile(r"npu0-share-(0|[1-9][0-9]{0,2})")
# rknn_core_mask in rknn_api.h: single cores and, from core 0 on, groups. Others are refused there,
# so they become RKNN_NPU_CORE_AUTO.
_CORE_MASKS = (1, 2, 4, 3, 7)
_CORE_AUTO = 0


def share_id(index: int) -> str:
    """The device ID that the kubelet knows share *index* by."""
    return f"npu0-share-{index}"


def share_index(share: str) -> int | None:
    """The index behind a device ID; None if it is no ID of this plugin."""
    match = _ID.fullmatch(share)
    return int(match.group(1)) if match else None


def select_shares(count: int, in_use: Iterable[int]) -> list[int]:
    """Which *count* shares to offer: those in use first, then the lowest free ones.

    A share that a container holds stays offered as long as there is room, because after a reboot
    the kubelet refuses containers whose devices have left the list.
    """
    held = sorted(set(in_use))[:count]
    free = (index for index in range(count + len(held)) if index not in held)
    return sorted([*held, *(next(free) for _ in range(count - len(held)))])


def cores_of(index: int, shares: int, cores: int) -> range:
    """The cores that share *index* of *shares* leans to.

    Fewer shares than cores divide the cores into neighbouring groups; more take turns.
    """
    slot = index % shares
    if shares >= cores:
        return range(slot % cores, slot % cores + 1)
    # Larger groups first: two shares of three cores get 0 and 1, a group that RKNN knows, and 2.
    size, larger = divmod(cores, shares)
    start = slot * size + min(slot, larger)
    return range(start, start + size + (1 if slot < larger else 0))


def core_mask(indexes: Iterable[int], shares: int, cores: int) -> int | None:
    """RKNN core mask for a container with these shares; 0 is RKNN_NPU_CORE_AUTO.

    None on a single core, where rknn_set_core_mask fails.
    """
    if cores < 2:
        return None
    mask = 0
    for index in indexes:
        for core in cores_of(index, shares, cores):
            mask |= 1 << core
    return mask if mask in _CORE_MASKS else _CORE_AUTO


def prefer(
    available: Collection[str],
    required: Collection[str],
    size: int,
    offered: Collection[str],
    cores: int,
) -> list[str]:
    """Which *size* of the *available* shares a container should get.

    Its shares lie on different cores if they can, and on the cores that others use least.

    Args:
        available: IDs the kubelet can choose from.
        required: IDs that must be among them.
        size: how many are wanted.
        offered: all IDs the kubelet knows; those not available are held by other containers.
        cores: of the NPU.
    """
    shares = max(len(offered), 1)

    def cores_for(share: str) -> range:
        return cores_of(share_index(share) or 0, shares, max(cores, 1))

    used = [core for share in offered if share not in available for core in cores_for(share)]
    chosen = [share for share in dict.fromkeys(required) if share in available][:size]
    mine = [core for share in chosen for core in cores_for(share)]
    candidates = sorted(
        {share for share in available if share_index(share) is not None} - set(chosen),
        key=lambda share: share_index(share) or 0,
    )
    while candidates and len(chosen) < size:
        best = min(
            candidates,
            key=lambda share: (
                sum(mine.count(core) for core in cores_for(share)),
                sum(used.count(core) for core in cores_for(share)),
                share_index(share) or 0,
            ),
        )
        candidates.remove(best)
        chosen.append(best)
        mine.extend(cores_for(best))
    return chosen
