"""Every role documents exactly the variables that it has, with the defaults that it has."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROLES = Path(__file__).resolve().parents[3] / "roles"
ROLE_DIRECTORIES = sorted(path for path in ROLES.iterdir() if path.is_dir())

# What a reader finds in each role. Handlers, templates and files only where there are any.
MAIN_FILES = (
    "README.md",
    "defaults/main.yml",
    "meta/argument_specs.yml",
    "meta/main.yml",
    "tasks/main.yml",
)


def load(path: Path) -> Any:
    """Read a YAML file of a role."""
    return yaml.safe_load(path.read_text())


def find_differences(role: Path) -> Iterator[str]:
    """Yield in what a role's main files, defaults and argument specification do not fit."""
    missing = [name for name in MAIN_FILES if not (role / name).is_file()]
    yield from (f"{name} is missing" for name in missing)
    if missing:
        return
    defaults = load(role / "defaults/main.yml") or {}
    options = load(role / "meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    documented = {name: spec["default"] for name, spec in options.items() if "default" in spec}
    for name in sorted(defaults.keys() | documented.keys()):
        if name not in documented:
            yield f"{name} has a default and argument_specs has none"
        elif name not in defaults:
            yield f"{name} has a default in argument_specs only"
        elif (type(defaults[name]), defaults[name]) != (type(documented[name]), documented[name]):
            yield f"{name} is {defaults[name]!r} by default, and {documented[name]!r} as documented"
    for name, spec in options.items():
        if not name.startswith(f"{role.name}_"):
            yield f"{name} does not begin with the role's name"
        if not spec.get("description"):
            yield f"{name} has no description"
        if name not in (role / "README.md").read_text():
            yield f"{name} is not in README.md"


def test_there_are_roles():
    assert len(ROLE_DIRECTORIES) >= 4


@pytest.mark.parametrize("role", ROLE_DIRECTORIES, ids=lambda role: role.name)
def test_role_fits_its_documentation(role: Path):
    assert list(find_differences(role)) == []


@pytest.fixture
def role(tmp_path: Path) -> Path:
    """A role that fits."""
    path = tmp_path / "example"
    options = {
        "example_size": {"description": "Size.", "type": "int", "default": 1},
        "example_name": {"description": "Name.", "type": "str"},
    }
    files = {
        "README.md": "`example_size` and `example_name`",
        "defaults/main.yml": yaml.safe_dump({"example_size": 1}),
        "meta/argument_specs.yml": yaml.safe_dump(
            {"argument_specs": {"main": {"options": options}}}
        ),
        "meta/main.yml": "{}",
        "tasks/main.yml": "[]",
    }
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(content)
    return path


def test_a_role_that_fits(role: Path):
    assert list(find_differences(role)) == []


def _rewrite(name: str, old: str, new: str) -> Callable[[Path], object]:
    def change(role: Path) -> None:
        content = (role / name).read_text()
        assert old in content
        (role / name).write_text(content.replace(old, new))

    return change


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        *(
            (lambda role, name=name: (role / name).unlink(), f"{name} is missing")
            for name in MAIN_FILES
        ),
        (lambda role: shutil.rmtree(role / "meta"), "meta/main.yml is missing"),
        (
            _rewrite("defaults/main.yml", "1", "1\nexample_more: 2"),
            "example_more has a default and argument_specs has none",
        ),
        (
            _rewrite("defaults/main.yml", "1", "1\nexample_name: x"),
            "example_name has a default and argument_specs has none",
        ),
        (
            _rewrite("defaults/main.yml", "example_size: 1", "{}"),
            "example_size has a default in argument_specs only",
        ),
        (
            _rewrite("defaults/main.yml", "1", "2"),
            "example_size is 2 by default, and 1 as documented",
        ),
        (
            _rewrite("defaults/main.yml", "1", "'1'"),
            "example_size is '1' by default, and 1 as documented",
        ),
        (
            _rewrite("defaults/main.yml", "1", "true"),
            "example_size is True by default, and 1 as documented",
        ),
        (
            _rewrite("meta/argument_specs.yml", "example_name", "other_name"),
            "other_name does not begin with the role's name",
        ),
        (_rewrite("meta/argument_specs.yml", "Name.", "''"), "example_name has no description"),
        (_rewrite("README.md", "example_name", "it"), "example_name is not in README.md"),
    ],
)
def test_differences_are_found(role: Path, change: Callable[[Path], object], difference: str):
    change(role)
    assert difference in list(find_differences(role))
