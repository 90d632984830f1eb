# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file with the kernel arguments that the boot loader of this image reads.

MECHANISMS has a row for each way to boot. A row counts only where something shows that the loader
reads its file: a boot script that names it, the firmware it belongs to. Files of other images are
left alone even where they exist, for example /boot/cmdline.txt, which newer Raspberry Pi OS keeps
with a note, or which people have made by hand on boards of other makers.
"""

from __future__ import annotations

import posixpath
import re
from functools import partial
from typing import Any, Callable, Iterator, NamedTuple, Sequence

from .board_files import BoardFiles
from .boot_formats import (
    Wanted,
    edit_environment,
    edit_extlinux,
    edit_line,
    edit_shell,
    first_extlinux,
    first_grub,
)
from .device_tree import read_compatible

_EXTLINUX = "/boot/extlinux/extlinux.conf"
_U_BOOT_MENU = "/etc/default/u-boot"
_GRUB_CONFIG = "/boot/grub/grub.cfg"

# Scripts that U-Boot runs; a text with a header.
_BOOT_SCRIPTS = ("boot.scr", "boot.scr.uimg", "boot.ini")


class Generated(NamedTuple):
    """A file that the boot loader reads, made from another one by a command."""

    path: str
    command: str
    first_arguments: Callable[[str], list[str]]


class BootFile(NamedTuple):
    """Where an image keeps its kernel arguments.

    kind: name of the mechanism.
    path: the file to edit.
    edit: its format, as a function of its text and the arguments.
    generated: what is made from it, if the boot loader does not read *path* itself.
    """

    kind: str
    path: str
    edit: Callable[[str, Wanted], str]
    generated: Generated | None = None


def find_boot_file(files: BoardFiles) -> BootFile | None:
    """The first mechanism that this image shows; None if none is known."""
    # Where UEFI has started the kernel, the files of U-Boot and of other firmware are left over.
    mechanisms = [_find_grub] if files.is_directory("/sys/firmware/efi") else MECHANISMS
    found: Iterator[BootFile | None] = (mechanism(files) for mechanism in mechanisms)
    return next(filter(None, found), None)


def read_command_line(files: BoardFiles) -> str:
    """The command line that the kernel runs with."""
    return (files.text("/proc/cmdline") or "").strip()


def is_handed_on(files: BoardFiles, generated: Generated, wanted: Wanted) -> bool:
    """Whether the first entry of a generated file is as wanted."""
    arguments = generated.first_arguments(files.text(generated.path, _LARGE) or "")
    return set(wanted.present) <= set(arguments) and not set(wanted.absent) & set(arguments)


# A grub.cfg with many kernels.
_LARGE = 1024 * 1024


def _exists(files: BoardFiles, path: str) -> bool:
    return files.read(path, _LARGE) is not None


def _find_grub(files: BoardFiles) -> BootFile | None:
    """GRUB, which UEFI starts, or else the BIOS of a machine without a device tree."""
    if not files.is_directory("/sys/firmware/efi") and read_compatible(files):
        return None
    if not _exists(files, "/etc/default/grub") or not _exists(files, _GRUB_CONFIG):
        return None
    variables = ("GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT")
    return BootFile(
        "grub",
        "/etc/default/grub",
        partial(edit_shell, variables=variables),
        Generated(_GRUB_CONFIG, "update-grub", first_grub),
    )


def _find_raspberry_pi(files: BoardFiles) -> BootFile | None:
    """The firmware of the Raspberry Pi, which reads the partition that holds its config.txt.

    https://www.raspberrypi.com/documentation/computers/config_txt.html
    """
    if not any(entry.startswith("raspberrypi,") for entry in read_compatible(files)):
        return None
    for directory in ("/boot/firmware", "/boot"):
        config = files.text(f"{directory}/config.txt")
        if config is not None:
            options = _read_config_txt(config)
            name = options.get("os_prefix", "") + options.get("cmdline", "cmdline.txt")
            path = posixpath.normpath(f"{directory}/{name}")
            return BootFile("cmdline.txt", path, edit_line) if _exists(files, path) else None
    return None


def _read_config_txt(text: str) -> dict[str, str]:
    """Options of config.txt that count for every board and every boot."""
    options: dict[str, str] = {}
    section = "all"
    for line in text.splitlines():
        heading = re.match(r"\s*\[([^\]]*)\]", line)
        option = re.match(r"\s*(\w+)\s*=\s*(\S*)", line)
        if heading:
            section = heading[1]
        elif option and section == "all":
            options[option[1]] = option[2]
    return options


def _find_u_boot_menu(files: BoardFiles) -> BootFile | None:
    """Debian's and Radxa's u-boot-update, which writes extlinux.conf anew with each kernel."""
    # Its own heading in the file tells people to use it.
    if "u-boot-update" not in (files.text(_EXTLINUX, _LARGE) or ""):
        return None
    generated = Generated(_EXTLINUX, "u-boot-update", first_extlinux)
    if re.search(r"^\s*U_BOOT_PARAMETERS=.*\w", files.text(_U_BOOT_MENU) or "", re.MULTILINE):
        edit = partial(edit_shell, variables=("U_BOOT_PARAMETERS",))
        return BootFile("u-boot-menu", _U_BOOT_MENU, edit, generated)
    if _exists(files, "/etc/kernel/cmdline"):
        return BootFile("kernel-cmdline", "/etc/kernel/cmdline", edit_line, generated)
    return None


def _find_extlinux(files: BoardFiles) -> BootFile | None:
    """U-Boot reads extlinux.conf itself, and before any boot script."""
    text = files.text(_EXTLINUX, _LARGE)
    if text is None or "u-boot-update" in text:
        return None
    return BootFile("extlinux", _EXTLINUX, edit_extlinux)


def _find_environment(files: BoardFiles, directory: str, name: str, key: str) -> BootFile | None:
    """A file that the boot script of the same directory imports."""
    if not _exists(files, f"{directory}/{name}"):
        return None
    scripts = (files.text(f"{directory}/{script}", _LARGE) or "" for script in _BOOT_SCRIPTS)
    if not any(name in script for script in scripts):
        return None
    return BootFile(name, f"{directory}/{name}", partial(edit_environment, key=key))


MECHANISMS: Sequence[Callable[[BoardFiles], Any]] = (
    _find_grub,
    _find_raspberry_pi,
    _find_u_boot_menu,
    _find_extlinux,
    partial(_find_environment, directory="/boot", name="armbianEnv.txt", key="extraargs"),
    partial(_find_environment, directory="/boot", name="orangepiEnv.txt", key="extraargs"),
    # Ubuntu images for Rockchip boards, the Turing RK1's among them.
    partial(_find_environment, directory="/boot/firmware", name="ubuntuEnv.txt", key="bootargs"),
)
