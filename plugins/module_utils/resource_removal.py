# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Take an extended resource that nothing offers any more out of a node's status.

kubelet keeps what a device plugin has registered: for 5 minutes after the plugin's end
(endpointStopGracePeriod) it writes the capacity anew whenever it reports, then it writes 0 once and
forgets it, but the key stays (https://github.com/kubernetes/kubernetes/issues/92396). So the key is
removed when it is 0, and removed again until it stays away for longer than a report takes.
"""

from __future__ import annotations

from typing import Any, Callable

from .kube_objects import KubeObject, read_node

#: kubelet reports every 10 seconds where something has changed (nodeStatusUpdateFrequency).
REPORT = 15.0


class StillOfferedError(Exception):
    """Something still offers the resource; the text says how many."""


def removal_patch(node: KubeObject, resource: str) -> dict[str, Any] | None:
    """Return the merge patch for the status that removes the resource; None if it is not there."""
    status = node.get("status") or {}
    fields = [name for name in ("capacity", "allocatable") if resource in (status.get(name) or {})]
    return {"status": {name: {resource: None} for name in fields}} if fields else None


def may_go(node: KubeObject, resource: str) -> bool:
    """Tell whether no kubelet holds the resource any more, or none that is alive.

    Raises:
        StillOfferedError
    """
    reading = read_node(node, resource)
    if not reading.ready:
        return True
    if reading.allocatable:
        raise StillOfferedError(
            f"{resource} is still offered on {reading.name}, {reading.allocatable} of it are "
            "allocatable: remove what offers it first."
        )
    return not reading.capacity


class Removal:
    """The removal of one resource from one node, step by step.

    Args:
        look: returns the node.
        patch: merges a patch into its status.
        clock: returns seconds.
    """

    def __init__(
        self,
        resource: str,
        look: Callable[[], KubeObject],
        patch: Callable[[dict[str, Any]], object],
        clock: Callable[[], float],
    ) -> None:
        self._resource = resource
        self._look = look
        self._patch = patch
        self._clock = clock
        self._removed_at: float | None = None
        self.found = False

    def step(self) -> bool:
        """Remove the resource if it is there and may go; return whether it is gone for good.

        Raises:
            StillOfferedError
        """
        node = self._look()
        patch = removal_patch(node, self._resource)
        if patch is None:
            return self._removed_at is None or self._clock() - self._removed_at >= REPORT
        self.found = True
        if not may_go(node, self._resource):
            return False
        self._patch(patch)
        self._removed_at = self._clock()
        # Where no kubelet is alive, nobody writes it anew.
        return not read_node(node, self._resource).ready
