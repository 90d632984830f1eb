# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Follows the configuration file in a pod, where nobody sends a signal when it changes.

A kubelet replaces the files of a ConfigMap by turning a link, which no watch on the file itself
would notice: so it is looked at.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Callable, Tuple

from .log import log
from .watch import Wakeup

LOOK_SECONDS = 1.0

# Tells one content of the path from the next; None while there is none.
_Signature = Tuple[int, int, int]


class ConfigWatch(threading.Thread):
    """Looks at a file once a second until the process ends, from follow() on.

    Args:
        path: of the configuration file, as it is now.
    """

    def __init__(self, path: str) -> None:
        super().__init__(name="config", daemon=True)
        self._path = Path(path)
        self._changed: Callable[[], None] = lambda: None
        self._wakeup = Wakeup()
        self._seen = self._look()

    def follow(self, changed: Callable[[], None]) -> None:
        """Call *changed* from this thread when the file is another one than at first."""
        self._changed = changed
        self.start()

    def run(self) -> None:
        while True:
            self._wakeup.wait(LOOK_SECONDS)
            signature = self._look()
            # A file that is gone is on its way to be replaced.
            if signature is not None and signature != self._seen:
                self._seen = signature
                try:
                    self._changed()
                except Exception:
                    # What comes next may be better.
                    log.failure("a changed configuration was not taken over")

    def _look(self) -> _Signature | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns
