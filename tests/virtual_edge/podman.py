"""What podman knows, and commands for one container."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from virtual_edge.shell import require, run

# Marks what belongs to an edge; its value is the edge's name.
EDGE_LABEL = "rocknpu.edge"
# What the container was made from; another value means that it has to be made anew.
RECIPE_LABEL = "rocknpu.recipe"


@dataclass(frozen=True)
class Container:
    """A container: its name, whether it runs, and its labels."""

    name: str
    running: bool
    labels: dict[str, str]


def containers() -> dict[str, Container]:
    """All containers of this machine by name."""
    found = {}
    for entry in json.loads(require(["podman", "ps", "--all", "--format", "json"]) or "[]"):
        name = entry["Names"][0]
        found[name] = Container(name, entry["State"] == "running", entry.get("Labels") or {})
    return found


def networks() -> list[dict[str, Any]]:
    """All networks, as `podman network inspect` prints them."""
    names = require(["podman", "network", "ls", "--quiet"]).split()
    return json.loads(require(["podman", "network", "inspect", *names])) if names else []


def inside(container: str, *command: str, timeout: float = 60) -> str:
    """Run a command in a container that must succeed, and return its output."""
    return require(["podman", "exec", container, *command], timeout=timeout)


def has_image(image: str) -> bool:
    """Whether podman has an image."""
    return run(["podman", "image", "exists", image]).returncode == 0
