# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Look again and again until something holds or the time is over."""

from __future__ import annotations

import time
from typing import Callable, TypeVar

from .kube_api import ApiError

#: Seconds between two looks.
INTERVAL = 2.0

# Seconds for one request: an API server that has not answered by then is asked anew, and one on a
# small board that gets less than the lower bound had no fair chance.
_LONGEST_REQUEST = 10
_SHORTEST_REQUEST = 5

Seen = TypeVar("Seen")


class Deadline:
    """A point in the future of the monotonic clock; changes of the system's time do not move it."""

    def __init__(
        self,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        interval: float | None = None,
    ) -> None:
        self._clock = clock
        self._start = clock()
        self._seconds = seconds
        self._interval = interval

    def elapsed(self) -> float:
        """Return the seconds since the start."""
        return self._clock() - self._start

    def remaining(self) -> float:
        """Return the seconds until the end, 0 when it is over."""
        return max(0.0, self._seconds - self.elapsed())

    def request_timeout(self) -> int:
        """Return the whole seconds that a request made now may take."""
        return min(_LONGEST_REQUEST, max(_SHORTEST_REQUEST, int(self.remaining())))

    def pause(self) -> float | None:
        """Return the seconds to sleep before the next look, None when no time is left for one."""
        spare = self.remaining() - _SHORTEST_REQUEST
        return min(self._interval or INTERVAL, spare) if spare > 0 else None


def wait_until(
    look: Callable[[], Seen],
    holds: Callable[[Seen], bool],
    deadline: Deadline,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[Seen | None, ApiError | None]:
    """Look until what is seen holds or the deadline is over; look at least once.

    Returns:
        The last thing seen (None: nothing ever was), and the error where the last look failed.

    Raises:
        ApiError: one that waiting does not cure.
    """
    seen: Seen | None = None
    while True:
        error: ApiError | None = None
        try:
            seen = look()
            if holds(seen):
                return seen, None
        except ApiError as raised:
            if not raised.may_pass:
                raise
            error = raised
        pause = deadline.pause()
        if pause is None:
            return seen, error
        sleep(pause)
