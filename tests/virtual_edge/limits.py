"""Limits of the machine that its boards share."""

from __future__ import annotations

from pathlib import Path

from virtual_edge.progress import say

_INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")
# A board with systemd, kubelet, containerd and pods holds some 40; Linux allows 128 to each user.
_WANTED = 1024


def raise_inotify_instances(limit: Path = _INSTANCES) -> bool:
    """Allow as many inotify instances as several boards need; returns whether it was raised.

    All boards run as the same user of one kernel, so they share this limit. Without it a kubelet
    ends with "inotify_init: too many open files". It is never lowered and a restart of the machine
    brings the old value back.
    """
    if int(limit.read_text()) >= _WANTED:
        return False
    limit.write_text(f"{_WANTED}\n")
    say(f"raised {limit} to {_WANTED}: all boards share it")
    return True
