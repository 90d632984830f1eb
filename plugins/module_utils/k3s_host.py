# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the files of a host say of the things that k3s needs. Reading changes nothing."""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping

from .board_files import BoardFiles
from .boot_files import find_boot_file, read_command_line
from .cgroups import read_cgroups
from .host_network import find_listeners, has_default_route
from .host_storage import is_on_mmc, read_swaps
from .kernel import read_release
from .kernel_arguments import split_arguments
from .kernel_features import read_features

# Files of the role k3s say so at their beginning.
MARK = "Written by the role rocknpu.edge.k3s"


def read_files(
    files: BoardFiles, data_dir: str, ports: Iterable[int], owned: Mapping[str, str]
) -> dict[str, Any]:
    """Read everything that files tell, see the module k3s_host_info."""
    release = read_release(files)
    boot = find_boot_file(files)
    return {
        "kernel": {"release": release, "features": read_features(files, release)},
        "cgroups": read_cgroups(files)._asdict(),
        "boot": {
            "kind": boot and boot.kind,
            "path": boot and boot.path,
            "arguments": split_arguments(read_command_line(files)),
        },
        "default_route": has_default_route(files),
        "listeners": [listener._asdict() for listener in find_listeners(files, ports)],
        "on_mmc": is_on_mmc(files, data_dir),
        "swaps": read_swaps(files),
        "image_archives": files.names(f"{data_dir}/agent/images"),
        "files": {name: describe_file(files, path) for name, path in owned.items()},
    }


def describe_file(files: BoardFiles, path: str) -> str:
    """ "ours" if the role wrote the file, "other" if something else did, or "absent"."""
    text = files.text(path)
    if text is None:
        return "absent"
    return "ours" if MARK in text.partition("\n")[0] else "other"


def parse_k3s_version(text: str) -> str | None:
    """The release in the answer of `k3s --version`.

    >>> parse_k3s_version("k3s version v1.37.1+k3s1 (0123abcd)\\ngo version go1.26.0")
    'v1.37.1+k3s1'
    """
    match = re.search(r"k3s version ([0-9A-Za-z.+-]+)", text)
    return match[1] if match else None


def parse_iptables_version(text: str) -> dict[str, str] | None:
    """Version and kind of rules in the answer of `iptables --version`.

    >>> parse_iptables_version("iptables v1.8.4 (nf_tables)")
    {'version': '1.8.4', 'mode': 'nf_tables'}
    """
    match = re.search(r"iptables v([0-9.]+)(?: \((\w+)\))?", text)
    return {"version": match[1], "mode": match[2] or "legacy"} if match else None
