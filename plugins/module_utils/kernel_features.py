# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parts of the running kernel that k3s needs: there now, to be had as modules, or missing."""

from __future__ import annotations

import re
from typing import NamedTuple, Sequence

from .board_files import BoardFiles

# A distribution's modules.dep has less than 1 MB.
_LARGE = 8 * 1024 * 1024

_MODULE_FILE = re.compile(r"^(?:[^\s:]*/)?([\w-]+)\.ko(?:\.(?:gz|xz|zst))?[ \t\r]*(?::|$)", re.M)


class Feature(NamedTuple):
    """A part of the kernel.

    modules: names of the module that has it; any of them will do.
    sign: a file that shows the part, by a line that ends in *word* if there is a word.
    """

    modules: Sequence[str]
    sign: str = ""
    word: str = ""


# What the role k3s needs, see https://docs.k3s.io/installation/requirements and k3s check-config.
FEATURES = {
    "br_netfilter": Feature(("br_netfilter",), "/proc/sys/net/bridge/bridge-nf-call-iptables"),
    "overlay": Feature(("overlay",), "/proc/filesystems", "overlay"),
    "vxlan": Feature(("vxlan",)),
    # By either interface of the kernel; the third is the second's name before Linux 5.2.
    "iptables_nat": Feature(
        ("iptable_nat", "nft_chain_nat", "nft_chain_nat_ipv4"), "/proc/net/ip_tables_names", "nat"
    ),
}


def read_features(files: BoardFiles, release: str | None) -> dict[str, str]:
    """State of each feature.

    Returns:
        "running" (in the kernel now, built in or loaded), "loadable" (a module of this kernel),
        "absent", "gone" (modules of other kernels are there, but none of the running one), or
        "unknown" (there are no modules at all, as in a container).
    """
    directory = f"/lib/modules/{release}"
    builtin = _modules_in(files, f"{directory}/modules.builtin")
    loadable = _modules_in(files, f"{directory}/modules.dep")
    missing = "absent" if builtin or loadable else "unknown"
    if missing == "unknown" and files.names("/lib/modules"):
        missing = "gone"
    states = {}
    for name, feature in FEATURES.items():
        if _shows(files, feature) or builtin & set(feature.modules):
            states[name] = "running"
        else:
            states[name] = "loadable" if loadable & set(feature.modules) else missing
    return states


def _shows(files: BoardFiles, feature: Feature) -> bool:
    if any(files.is_directory(f"/sys/module/{module}") for module in feature.modules):
        return True
    text = files.text(feature.sign) if feature.sign else None
    if text is None or not feature.word:
        return text is not None
    return any(line.split()[-1:] == [feature.word] for line in text.splitlines())


def _modules_in(files: BoardFiles, path: str) -> set[str]:
    """Names of modules in modules.builtin or modules.dep, written as in /sys/module."""
    names = _MODULE_FILE.findall(files.text(path, _LARGE) or "")
    return {name.replace("-", "_") for name in names}
