# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Signals, taken by a thread of their own, so that nothing has to be safe against interruption."""

from __future__ import annotations

import signal
import threading
from typing import Callable, Iterable, Mapping

from .log import log


def hold_signals(signals: Iterable[signal.Signals]) -> None:
    """From now on let *signals* wait for handle_signals(), instead of ending the process.

    To be called by the main thread before there are others, because they inherit what it blocks.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)


def handle_signals(actions: Mapping[signal.Signals, Callable[[], None]]) -> None:
    """From now on do what *actions* say when a signal comes, as hold_signals() does."""
    hold_signals(actions)

    def take_signals() -> None:
        while True:
            number = signal.Signals(signal.sigwait(actions))
            try:
                actions[number]()
            except Exception:
                # Without this thread nothing could stop the process any more.
                log.failure("a signal was not handled", signal=number.name)

    threading.Thread(target=take_signals, name="signals", daemon=True).start()
