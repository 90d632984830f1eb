# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The list of shares as it is sent to the kubelet, with its readers.

Readers hold a generation number of their own. A flag "changed" that readers share would be cleared
by a stream of a kubelet that is gone, and the living one would never hear of the change.
"""

from __future__ import annotations

import threading
from typing import Callable, NamedTuple, Sequence


class Snapshot(NamedTuple):
    """One state of the list.

    generation: rises with each change, from 1 on.
    shares: device IDs in the order of their indexes.
    healthy: state of every share, because all of them are the same NPU.
    """

    generation: int
    shares: tuple[str, ...]
    healthy: bool


class ShareList:
    """The current list, safe for any number of threads."""

    def __init__(self) -> None:
        self._snapshot = Snapshot(0, (), False)
        self._changed = threading.Condition()

    @property
    def current(self) -> Snapshot:
        return self._snapshot

    def publish(self, shares: Sequence[str] | None = None, healthy: bool | None = None) -> bool:
        """Change the shares, their health, or both; returns whether anything differs."""
        with self._changed:
            generation, old_shares, old_healthy = self._snapshot
            new_shares = old_shares if shares is None else tuple(shares)
            new_healthy = old_healthy if healthy is None else healthy
            # Every message makes the kubelet write its checkpoint, so nothing is sent twice.
            if generation and (new_shares, new_healthy) == (old_shares, old_healthy):
                return False
            self._snapshot = Snapshot(generation + 1, new_shares, new_healthy)
            self._changed.notify_all()
            return True

    def repeat(self) -> None:
        """Send the list to every reader once more, unchanged."""
        with self._changed:
            self._snapshot = self._snapshot._replace(generation=self._snapshot.generation + 1)
            self._changed.notify_all()

    def wait_newer(self, generation: int, wanted: Callable[[], bool]) -> Snapshot | None:
        """Wait for a state after *generation*; None as soon as *wanted* turns false (see wake)."""
        with self._changed:
            self._changed.wait_for(lambda: not wanted() or self._snapshot.generation > generation)
            return self._snapshot if wanted() else None

    def wake(self) -> None:
        """Let every waiting reader look again whether it is still wanted."""
        with self._changed:
            self._changed.notify_all()
