"""A plugin source tree and a package index in a directory, so that pip runs for real, offline."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest


def make_wheel(index: Path, name: str, tag: str, content: str = "VALUE = 1\n") -> Path:
    """Write a minimal wheel (binary distribution format 1.0) into ``index``."""
    path = index / f"{name}-1.0-{tag}.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", content)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL",
            f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A plugin source whose module ``board.py`` is a symbolic link, as in the collection."""
    source = tmp_path / "source"
    package = source / "rknpu_plugin"
    (package / "api").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("import boarddep\n")
    (package / "api" / "__init__.py").write_text("")
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "board.cpython-311.pyc").write_bytes(b"stale")
    (tmp_path / "board.py").write_text("CORES = 3\n")
    (package / "board.py").symlink_to("../../board.py")
    (source / "requirements.txt").write_text("# why\nboarddep>=1.0  # a package\n\n")
    return source


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index that has ``boarddep`` for Python 3.8 on 64-bit Arm boards only."""
    index = tmp_path / "index"
    index.mkdir()
    make_wheel(index, "boarddep", "cp38-cp38-manylinux_2_28_aarch64", "KIND = 'py38 aarch64'\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return index
