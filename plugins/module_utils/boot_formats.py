# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kernel arguments in each format of boot file: one function to edit a format, one to list it.

Texts are what the file's bytes are in Latin-1, so that whatever is not understood stays as it is.
An edit that finds nothing to do returns the same text. Line ends stay, a missing last one too.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Sequence

from .kernel_arguments import edit_arguments, split_arguments


class Wanted(NamedTuple):
    """The arguments that are to be there, and those that are not to be there."""

    present: Sequence[str]
    absent: Sequence[str]


class UnclearFileError(Exception):
    """A boot file that is not understood; the message follows its name."""


def edit_line(text: str, wanted: Wanted) -> str:
    """Edit a file that is one line of arguments, such as cmdline.txt. Only the first one counts."""
    match = re.search(r"\S.*", text, re.ASCII)
    if not match:
        return edit_arguments("", wanted.present, []) + (text or "\n")
    return text[: match.start()] + _edit(match.group(), wanted) + text[match.end() :]


def edit_environment(text: str, wanted: Wanted, key: str) -> str:
    """Edit KEY=arguments in a file that U-Boot imports into its environment.

    The last of several lines with one key counts there, and all of them are edited. Quotes are part
    of the value.
    """
    pattern = re.compile(rf"^([ \t]*{re.escape(key)}=)(.*)$", re.MULTILINE)
    if pattern.search(text):
        return pattern.sub(lambda match: match[1] + _edit(match[2], wanted), text)
    return _append_line(text, f"{key}={edit_arguments('', wanted.present, [])}")


def edit_extlinux(text: str, wanted: Wanted) -> str:
    """Edit every `append` of an extlinux.conf.

    An entry without one boots with the arguments that U-Boot has, which one would replace.
    """
    if not _APPEND.search(text):
        raise UnclearFileError("has no line `append`")
    return _APPEND.sub(lambda match: match[1] + _edit(match[2], wanted, lead=" "), text)


def edit_shell(text: str, wanted: Wanted, variables: Sequence[str]) -> str:
    """Edit assignments of a file that a shell reads, such as /etc/default/grub.

    An argument is there if any of the variables has it. The first one takes what is missing.
    """
    there = [word for name in variables for word in _shell_arguments(text, name)]
    missing = [word for word in wanted.present if word not in there]
    for name in variables:
        present = missing if name == variables[0] else []
        text = _edit_assignment(text, name, Wanted(present, wanted.absent))
    return text


def first_extlinux(text: str) -> list[str]:
    """Arguments of the first entry of an extlinux.conf."""
    match = _APPEND.search(text)
    return split_arguments(match[2]) if match else []


def first_grub(text: str) -> list[str]:
    """Arguments of the first entry of a grub.cfg."""
    match = _GRUB_LINUX.search(text)
    return split_arguments(match[1]) if match else []


_APPEND = re.compile(r"^([ \t]*append)((?:[ \t].*)?\r?)$", re.MULTILINE | re.IGNORECASE)
_GRUB_LINUX = re.compile(r"^[ \t]*linux(?:16|efi)?[ \t]+\S+(.*)$", re.MULTILINE)


def _edit(line: str, wanted: Wanted, lead: str = "") -> str:
    try:
        return edit_arguments(line, wanted.present, wanted.absent, lead)
    except ValueError as error:
        raise UnclearFileError(f"is not understood: {error} in `{line.strip()}`") from error


def _append_line(text: str, line: str) -> str:
    end = "\r\n" if "\r\n" in text else "\n"
    if not text or text.endswith("\n"):
        return f"{text}{line}{end}"
    return f"{text}{end}{line}"


def _assignment(text: str, name: str) -> re.Match[str] | None:
    """The assignment that counts, which is the last one."""
    head = rf"^[ \t]*(?:export[ \t]+)?{re.escape(name)}"
    # Quotes with what they hold, over several lines if need be; or a word without quotes.
    value = r"""("(?:[^"\\]|\\.)*"|'[^']*'|[^\s"'#;&|<>()\\$`]*)(?=[\s;]|$)"""
    matches = list(re.finditer(rf"{head}={value}", text, re.MULTILINE | re.DOTALL | re.ASCII))
    others = re.findall(rf"{head}\+?=", text, re.MULTILINE)
    if len(matches) != len(others):
        raise UnclearFileError(f"assigns {name} in a way that is not understood")
    return matches[-1] if matches else None


def _unquote(match: re.Match[str]) -> tuple[str, str]:
    """The kind of quotes of an assignment, and what is between them."""
    value = match[1]
    if value[:1] in ("'", '"'):
        return value[0], value[1:-1]
    return "", value


def _shell_arguments(text: str, name: str) -> list[str]:
    match = _assignment(text, name)
    return split_arguments(_unquote(match)[1]) if match else []


def _edit_assignment(text: str, name: str, wanted: Wanted) -> str:
    match = _assignment(text, name)
    if not match:
        if not wanted.present:
            return text
        return _append_line(text, f'{name}="{edit_arguments("", wanted.present, [])}"')
    quote, value = _unquote(match)
    edited = _edit(value, wanted)
    if edited == value:
        return text
    quote = quote or '"'
    return f"{text[: match.start(1)]}{quote}{edited}{quote}{text[match.end(1) :]}"
