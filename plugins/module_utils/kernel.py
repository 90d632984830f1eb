# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The running kernel: its release, whether it has the RKNPU driver, and in which form."""

from __future__ import annotations

import re
import zlib
from typing import NamedTuple

from .board_files import BoardFiles

OPTION = "CONFIG_ROCKCHIP_RKNPU"

# A full configuration has some 250 kB, a distribution's modules.dep less than 1 MB.
_LARGE = 8 * 1024 * 1024

_RELEASE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~-]*")
_ANY_OPTION = re.compile(r"^(?:CONFIG_\w+=|# CONFIG_\w+ is not set)", re.MULTILINE)
# The whole key: CONFIG_ROCKCHIP_RKNPU_DEBUG_FS=y must not count.
_OPTION = re.compile(rf"^(?:{OPTION}=(?P<value>[ym])|# {OPTION} is not set)[ \t\r]*$", re.MULTILINE)
_MODULE_FILE = re.compile(
    r"^(?:[^\s:]*/)?rknpu\.ko(?:\.(?:gz|xz|zst))?[ \t\r]*(?::|$)", re.MULTILINE
)


class KernelOption(NamedTuple):
    """CONFIG_ROCKCHIP_RKNPU: "y", "m", "n", or None if no configuration was found; and where."""

    value: str | None
    source: str | None


def parse_option(config: str) -> str | None:
    """Value of CONFIG_ROCKCHIP_RKNPU in a kernel configuration: "y", "m" or "n".

    A missing line and "is not set" both mean "n"; a text that is no kernel configuration
    means None. As in the kernel's own reading the last line wins.
    """
    if not _ANY_OPTION.search(config):
        return None
    values = [match.group("value") or "n" for match in _OPTION.finditer(config)]
    return values[-1] if values else "n"


def _gunzip(content: bytes) -> bytes | None:
    """Unpack one gzip stream of at most 8 MiB; None if it is broken, cut or larger."""
    unpacker = zlib.decompressobj(wbits=31)
    try:
        unpacked = unpacker.decompress(content, _LARGE)
    except zlib.error:
        return None
    return unpacked if unpacker.eof else None


def read_release(files: BoardFiles) -> str | None:
    """What `uname -r` prints; None if it is unreadable or could not be a directory's name."""
    release = (files.text("/proc/sys/kernel/osrelease") or "").strip()
    return release if _RELEASE.fullmatch(release) else None


def read_option(files: BoardFiles, release: str | None) -> KernelOption:
    """Look up CONFIG_ROCKCHIP_RKNPU in the first place that holds a whole kernel configuration.

    A file that is missing, cut or something else is skipped, never taken for a "no".
    """
    places = ["/proc/config.gz"]
    if release:
        places += [
            f"/boot/config-{release}",
            f"/lib/modules/{release}/config",
            f"/usr/src/linux-headers-{release}/.config",
        ]
    for place in places:
        content = files.read(place, _LARGE)
        if content is not None and content.startswith(b"\x1f\x8b"):
            content = _gunzip(content)
        value = parse_option(content.decode("utf-8", "replace")) if content else None
        if value:
            return KernelOption(value, place)
    return KernelOption(None, None)


def read_module_state(files: BoardFiles, release: str | None, option: str | None) -> str:
    """Form of the RKNPU driver in the running kernel.

    Returns:
        "loaded" (a module, in the kernel now), "builtin", "available" (a module, not loaded) or
        "absent". A built-in driver never shows in lsmod, so that list proves nothing.
    """
    if files.is_directory("/sys/module/rknpu"):
        # Only modules have a state; built-in code has the directory for parameters and version.
        return "loaded" if files.text("/sys/module/rknpu/initstate") is not None else "builtin"
    drivers = files.names("/sys/bus/platform/drivers")
    if option == "y" or any(name.lower() == "rknpu" for name in drivers):
        return "builtin"
    modules = f"/lib/modules/{release}"
    if release and _lists_module(files, f"{modules}/modules.builtin"):
        return "builtin"
    if release and _lists_module(files, f"{modules}/modules.dep"):
        return "available"
    return "absent"


def _lists_module(files: BoardFiles, path: str) -> bool:
    return bool(_MODULE_FILE.search(files.text(path, _LARGE) or ""))
