# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check a value against the type that a role's argument specification gives it.

Stricter than ansible-core, which accepts what it can convert and then leaves it unconverted: 0666
for a text is the number 438 by then, and a word for a list becomes a list of letters in a loop.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

# More digits than any number here has are a slip, and Python refuses to read thousands of them.
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BOOLEAN_WORDS = frozenset(
    {"yes", "no", "true", "false", "on", "off", "y", "n", "t", "f", "1", "0"}
)

#: A role's options as argument_specs.yml has them, by name.
Options = Mapping[str, Mapping[str, Any]]


class Mismatch(NamedTuple):
    """A place in a variable, such as "x" or "x[0].path", the rule it breaks, and what it holds."""

    place: str
    rule: str
    value: Any


def is_whole_number(value: Any) -> bool:
    """Tell whether a value is a whole number, or text that holds one, as INI inventories do."""
    if isinstance(value, str):
        return _WHOLE.fullmatch(value) is not None
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return _NUMBER.fullmatch(value) is not None
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_boolean(value: Any) -> bool:
    return isinstance(value, bool) or str(value).lower() in _BOOLEAN_WORDS


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_TYPES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "str": (_is_text, "must be text; numbers and words such as yes need quotes"),
    "path": (_is_text, "must be a path"),
    "int": (is_whole_number, "must be a whole number"),
    "float": (_is_number, "must be a number"),
    "bool": (_is_boolean, "must be true or false"),
    "list": (lambda value: isinstance(value, list), "must be a list"),
    "dict": (lambda value: isinstance(value, dict), "must be a dictionary"),
}


def find_mismatches(place: str, value: Any, option: Mapping[str, Any]) -> Iterator[Mismatch]:
    """Yield everything in a value that is not as the option of an argument specification says."""
    if value is None:
        # Without a default, this is how a host takes back what a group sets.
        if "default" in option or option.get("required"):
            yield Mismatch(place, "has no value", value)
        return
    holds, rule = _TYPES.get(option.get("type", "str"), (lambda value: True, ""))
    if not holds(value):
        yield Mismatch(place, rule, value)
        return
    if isinstance(value, list):
        # Choices and keys of a list are those of its elements.
        of_elements = {**option, "type": option.get("elements", "raw")}
        for index, element in enumerate(value):
            yield from find_mismatches(f"{place}[{index}]", element, of_elements)
        return
    choices = [str(choice) for choice in option.get("choices") or []]
    if choices and str(value) not in choices:
        yield Mismatch(place, f"must be one of {', '.join(choices)}", value)
    elif value == "" and isinstance(option.get("default"), str) and option["default"]:
        yield Mismatch(place, "is empty", value)
    if isinstance(value, dict) and option.get("options"):
        yield from _find_in_dictionary(place, value, option["options"])


def _find_in_dictionary(
    place: str, value: Mapping[str, Any], options: Options
) -> Iterator[Mismatch]:
    for key, element in value.items():
        if key in options:
            yield from find_mismatches(f"{place}.{key}", element, options[key])
        else:
            yield Mismatch(f"{place}.{key}", f"is no key; there are {', '.join(options)}", None)
    for key, option in options.items():
        if option.get("required") and key not in value:
            yield Mismatch(f"{place}.{key}", "is missing", None)
