"""Fixtures for the tests of the role k3s."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from unit.k3s.harness import ROOT, Edge


@pytest.fixture(scope="session")
def collections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collections path that holds this checkout."""
    path = tmp_path_factory.mktemp("collections")
    (path / "ansible_collections" / "rocknpu").mkdir(parents=True)
    (path / "ansible_collections" / "rocknpu" / "edge").symlink_to(ROOT)
    return path


@pytest.fixture
def edge(tmp_path: Path, collections: Path) -> Edge:
    """An edge without boards."""
    return Edge(tmp_path / "edge", collections)


@pytest.fixture(scope="module")
def new_edge(tmp_path_factory: pytest.TempPathFactory, collections: Path) -> Callable[[str], Edge]:
    """Edges that several tests of a module look at."""
    return lambda name: Edge(tmp_path_factory.mktemp(name), collections)
