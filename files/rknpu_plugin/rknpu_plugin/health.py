# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Watches the NPU and tells when it is lost and when it is back."""

from __future__ import annotations

import threading
import time
from typing import Callable

from .device import Look
from .log import log
from .watch import Wakeup

# Loss is told after LOOK_SECONDS + 2 * RECHECK_SECONDS at the latest, return after LOOK_SECONDS.
LOOK_SECONDS = 1.0
RECHECK_SECONDS = 0.25
# A node that a driver recreates is missing for an instant; that is no loss.
MISSES = 3


class Verdict:
    """Whether the NPU counts as healthy, after one look or after many.

    The first look decides at once; later it takes MISSES bad ones in a row to become unhealthy and
    a good one to become healthy.
    """

    def __init__(self) -> None:
        self.healthy: bool | None = None
        self._misses = 0

    def judge(self, good: bool) -> bool:
        """Count one look; returns whether the verdict changed."""
        self._misses = 0 if good else self._misses + 1
        if good or self.healthy is None or self._misses >= MISSES:
            changed = self.healthy is not good
            self.healthy = good
            return changed
        return False

    @property
    def doubtful(self) -> bool:
        """Whether the last look was bad but is not believed yet."""
        return bool(self.healthy and self._misses)


class HealthWatch(threading.Thread):
    """Looks at the NPU once a second, more often while in doubt.

    Args:
        look: reads the state of the NPU.
        changed: called from this thread with the new health.
    """

    def __init__(self, look: Callable[[], Look], changed: Callable[[bool], None]) -> None:
        super().__init__(name="health", daemon=True)
        self._look = look
        self._changed = changed
        self._verdict = Verdict()
        self._wakeup = Wakeup()
        self._stopping = False
        self._problem: str | None = None
        self.last_look = time.monotonic()

    def look_once(self) -> None:
        """Take one look and tell about a change."""
        look = self._look()
        self.last_look = time.monotonic()
        changed = self._verdict.judge(look.problem is None)
        if changed and look.problem is None:
            log.info("the NPU is usable", nodes=",".join(look.nodes))
        elif not self._verdict.healthy and look.problem != self._problem:
            log.warning("the NPU is not usable", reason=look.problem)
        if not self._verdict.doubtful:
            self._problem = look.problem
        if changed:
            self._changed(look.problem is None)

    def run(self) -> None:
        while not self._stopping:
            try:
                self.look_once()
            except Exception:
                # A look never raises by design; if it does, the next one may succeed.
                log.failure("looking at the NPU failed")
            self._wakeup.wait(RECHECK_SECONDS if self._verdict.doubtful else LOOK_SECONDS)

    def look_soon(self) -> None:
        """Look now instead of at the next turn."""
        self._wakeup.wake()

    def stop(self) -> None:
        """End the thread; returns when it has ended."""
        self._stopping = True
        self._wakeup.wake()
        if self.is_alive():
            self.join()
        self._wakeup.close()
