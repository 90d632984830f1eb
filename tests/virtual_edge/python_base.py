"""A small Python image of any architecture, in place of those of a registry that is not reached.

Debian's packages unpacked and nothing run, so that no emulation is needed. It has no shell.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from virtual_edge.debian import SUITE, bootstrap
from virtual_edge.locks import locked
from virtual_edge.podman import has_image
from virtual_edge.shell import require

ARCHITECTURES = ("amd64", "arm64")
# libstdc++6 is in every official image, and gRPC needs it.
PACKAGES = ("libstdc++6", "python3")
_OPTIONS = (
    "--variant=extract",
    "--mode=root",
    "--dpkgopt=path-exclude=/usr/share/*",
    '--aptopt=Acquire::Languages "none"',
    "--aptopt=Acquire::Retries 3",
    f"--include={','.join(PACKAGES)}",
)


def tag(architecture: str) -> str:
    """Name of the image in podman."""
    digest = hashlib.sha256("\0".join((SUITE, *_OPTIONS)).encode()).hexdigest()[:12]
    return f"localhost/rocknpu-python:{digest}-{architecture}"


def build(cache: Path, architecture: str) -> str:
    """Have the image in podman, and return its name.

    Raises:
        EdgeError: mmdebstrap failed, with what it said last.
    """
    name = tag(architecture)
    archive = cache / f"python-{name.rpartition(':')[2]}.tar"
    with locked(cache / f"python-{architecture}.lock", "another run builds the Python image"):
        if not archive.exists():
            bootstrap(
                f"the Python image for {architecture}",
                archive,
                [*_OPTIONS, f"--architectures={architecture}"],
            )
        if not has_image(name):
            require(["podman", "import", "--quiet", f"--arch={architecture}", str(archive), name])
    return name
