"""Programs that the virtual edge needs, and the Debian packages that bring them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from virtual_edge.errors import EdgeError
from virtual_edge.k3s_standin.build import find_busybox
from virtual_edge.k3s_standin.images import ImageError
from virtual_edge.progress import say
from virtual_edge.shell import run

# A file that shows that the package is there: package.
_FILES = {
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
    "/usr/lib/podman/netavark": "netavark",
    "/usr/lib/podman/aardvark-dns": "aardvark-dns",
}
# Program: package.
_PROGRAMS = {
    "podman": "podman",
    "runc": "runc",
    "mmdebstrap": "mmdebstrap",
    "iptables": "iptables",
    "ip": "iproute2",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}


def missing_packages() -> list[str]:
    """Debian packages to install, sorted."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    packages = {package for name, package in _PROGRAMS.items() if not shutil.which(name, path=path)}
    try:
        find_busybox()
    except ImageError:
        packages.add("busybox-static")
    packages |= {package for file, package in _FILES.items() if not Path(file).exists()}
    return sorted(packages)


def can_install() -> bool:
    """Whether this is a Debian or Ubuntu machine, where packages can be installed by name."""
    return shutil.which("apt-get") is not None


def install(packages: list[str]) -> None:
    """Install Debian packages.

    Raises:
        EdgeError: apt-get failed.
    """
    say(f"installing {', '.join(packages)} (about a minute) ...")
    environment = ["env", "DEBIAN_FRONTEND=noninteractive"]
    commands = (
        [*environment, "apt-get", "update", "-q"],
        [*environment, "apt-get", "install", "-qy", "--no-install-recommends", *packages],
    )
    for command in commands:
        result = run(command, timeout=900)
        if result.returncode:
            said = " | ".join((result.stderr or result.stdout).strip().splitlines()[-2:])
            raise EdgeError(
                f"apt-get could not install {', '.join(packages)}: {said}: install them by hand "
                "and run again."
            )
