"""Limits of the machine are raised where they are too low, and never lowered."""

from __future__ import annotations

from pathlib import Path

import pytest
from virtual_edge.limits import raise_inotify_instances


@pytest.mark.parametrize(
    ("present", "raised", "after"), [(128, True, 1024), (1024, False, 1024), (8192, False, 8192)]
)
def test_inotify_instances(tmp_path: Path, present: int, raised: bool, after: int) -> None:
    limit = tmp_path / "max_user_instances"
    limit.write_text(f"{present}\n")
    assert raise_inotify_instances(limit) is raised
    assert int(limit.read_text()) == after
