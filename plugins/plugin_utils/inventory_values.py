# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the variables of one host out of ansible-core's hostvars, with every template resolved.

Role defaults and facts that are not gathered yet are no part of hostvars. What refers to them
cannot be judged yet and is left out, not reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from ansible import template  # type: ignore[import-untyped]
from jinja2 import Undefined, UndefinedError

# Since ansible-core 2.19 a template that cannot be resolved raises an error; before, its text is
# returned as it is.
_UNRESOLVED_STAYS = not hasattr(template, "is_trusted_as_template")

# Names that mean something in a task, but not where the variables of a host stand alone.
_TASK_NAMES = frozenset({"hostvars", "vars", "role_path", "role_name", "omit"})
_NAME = re.compile(r"[A-Za-z_]\w*")


class HostVariables(NamedTuple):
    """The variables of one host.

    values: variables by name; broken: the reason by the name of each that cannot be resolved;
    sealed: names of those that cannot be decrypted; later: names of those that cannot be judged
    before facts or role defaults are there; others: names of variables that were not wanted.
    """

    host: str
    groups: frozenset[str]
    values: dict[str, Any]
    broken: dict[str, str]
    later: frozenset[str]
    sealed: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()


def read_host(
    hostvars: Mapping[str, Any],
    host: str,
    wanted: Callable[[str], bool],
    defaulted: frozenset[str],
) -> HostVariables:
    """Read the wanted variables of a host. Never raises because of what a variable holds.

    Args:
        hostvars: The HostVars object of ansible-core, or a mapping of plain mappings.
        host: Name in the inventory.
        wanted: Tells by its name whether a variable is read.
        defaulted: Names that get a value from the defaults of roles.
    """
    templated = hostvars[host]
    raw = hostvars.raw_get(host) if hasattr(hostvars, "raw_get") else templated
    values: dict[str, Any] = {}
    broken: dict[str, str] = {}
    later: set[str] = set()
    sealed: set[str] = set()
    for name in sorted(name for name in raw if wanted(name)):
        # A template may run any lookup, so any error may come out of it.
        try:
            values[name] = plain(templated[name], resolved=_UNRESOLVED_STAYS)
        except Exception as error:
            if _is_about_vault(error):
                sealed.add(name)
            elif _waits(name, raw, defaulted):
                later.add(name)
            else:
                broken[name] = _first_line(error)
    groups = frozenset(plain(templated["group_names"])) if "group_names" in raw else frozenset()
    others = frozenset(name for name in raw if not wanted(name))
    return HostVariables(host, groups, values, broken, frozenset(later), frozenset(sealed), others)


def _is_about_vault(error: BaseException | None) -> bool:
    # Those that ansible-core raises in templates have no base class with the others.
    while error is not None and "Vault" not in type(error).__name__:
        error = error.__cause__ or error.__context__
    return error is not None


def plain(value: Any, resolved: bool = False) -> Any:
    """Return a value as plain Python objects, resolved to the last element.

    Args:
        value: What ansible-core hands to a plugin.
        resolved: Whether text that is still a template is an error.

    Raises:
        UndefinedError: Something in it is undefined. Other errors come from its templates.
    """
    if isinstance(value, Undefined):
        raise UndefinedError(str(value))
    if isinstance(value, Mapping):
        return {str(key): plain(element, resolved) for key, element in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(element, resolved) for element in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = str(value)  # decrypts what a vault has encrypted
    if resolved and _is_template(text) and not hasattr(value, "__UNSAFE__"):
        raise UndefinedError("it refers to something undefined")
    return text


def _is_template(text: str) -> bool:
    return "{{" in text or "{%" in text


def _waits(name: str, raw: Mapping[str, Any], defaulted: frozenset[str]) -> bool:
    """Tell whether a template leads to something only known later, in any number of steps."""
    seen: set[str] = set()
    ahead = {name}
    while ahead:
        current = ahead.pop()
        seen.add(current)
        if current in raw and current != "ansible_facts":
            ahead.update(set(_names_in(raw[current])) - seen)
        elif current in defaulted or current in _TASK_NAMES or current.startswith("ansible_"):
            return True
    return False


def _names_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if _is_template(value):
            yield from _NAME.findall(value)
    elif isinstance(value, Mapping):
        for element in value.values():
            yield from _names_in(element)
    elif isinstance(value, (list, tuple)):
        for element in value:
            yield from _names_in(element)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
