# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Signals, taken by a thread of their own, so that nothing has to be safe against interruption."""

from __future__ import annotations

import signal
import threading
from typing import Callable

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def handle_signals(stop: Callable[[], None], reload: Callable[[], None]) -> None:
    """From now on call *stop* on SIGTERM and SIGINT, and *reload* on SIGHUP.

    To be called by the main thread before there are others, because they inherit what it blocks.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)

    def take_signals() -> None:
        while True:
            if signal.sigwait(_SIGNALS) == signal.SIGHUP:
                reload()
            else:
                stop()

    threading.Thread(target=take_signals, name="signals", daemon=True).start()
