# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Signals, taken by a thread of their own, so that nothing has to be safe against interruption."""

from __future__ import annotations

import signal
import threading
from typing import Callable, Mapping


def handle_signals(actions: Mapping[signal.Signals, Callable[[], None]]) -> None:
    """From now on do what *actions* say when a signal comes.

    To be called by the main thread before there are others, because they inherit what it blocks.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, actions)

    def take_signals() -> None:
        while True:
            actions[signal.Signals(signal.sigwait(actions))]()

    threading.Thread(target=take_signals, name="signals", daemon=True).start()
