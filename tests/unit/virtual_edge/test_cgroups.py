"""Removal of control groups, on ordinary directories."""

from __future__ import annotations

from pathlib import Path

import pytest
from virtual_edge import cgroups


def test_a_group_goes_with_all_below_it_in_every_hierarchy(tmp_path: Path) -> None:
    for hierarchy in ("memory", "systemd"):
        (tmp_path / hierarchy / "rocknpu-edge" / "board" / "kubepods").mkdir(parents=True)
        (tmp_path / hierarchy / "rocknpu-other").mkdir()
    (tmp_path / "rocknpu-edge" / "board").mkdir(parents=True)
    assert cgroups.remove("rocknpu-edge", tmp_path) == []
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert left == ["memory", "memory/rocknpu-other", "systemd", "systemd/rocknpu-other"]


def test_what_cannot_be_removed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = tmp_path / "memory" / "rocknpu-edge"
    busy.mkdir(parents=True)
    (busy / "file").write_text("")
    monkeypatch.setattr(cgroups.time, "sleep", lambda _seconds: None)
    assert cgroups.remove("rocknpu-edge", tmp_path) == [busy]


def test_hierarchies_are_those_below_the_usual_place() -> None:
    mounts = """\
tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0
cgroup /elsewhere/cpu cgroup rw,relatime,cpu 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0
"""
    assert cgroups.hierarchies(mounts) == ["/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified"]
