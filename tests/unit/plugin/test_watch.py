"""Waiting for a word from another thread."""

from __future__ import annotations

import sys
import threading

import pytest
from rknpu_plugin.watch import Wakeup


@pytest.fixture
def impatient():
    """Threads take turns at every step."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_wake_up_while_it_is_closed(impatient):
    """The number of a closed descriptor may be that of another file."""
    failures: list[OSError] = []

    def wake(wakeup: Wakeup) -> None:
        try:
            wakeup.wake()
        except OSError as error:
            failures.append(error)

    for _ in range(2000):
        wakeup = Wakeup()
        thread = threading.Thread(target=wake, args=(wakeup,))
        thread.start()
        wakeup.close()
        thread.join()
    assert failures == []
