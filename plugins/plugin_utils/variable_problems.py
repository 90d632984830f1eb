# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wrong with the value of a variable, by its own rule and by its type."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from .variable_rules import VALUE_RULES
from .variable_types import find_mismatches

_LONGEST_SHOWN = 60


def find_broken_rules(
    name: str, value: Any, option: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield place and rule; the variable's own rule says more than its type, so it comes first."""
    own = VALUE_RULES.get(name, lambda value: None)
    broken = own(value) if value is not None else None
    if broken:
        yield name, broken + _shown(broken, value, option)
        return
    for place, rule, found in find_mismatches(name, value, option):
        yield place, rule + _shown(rule, found, option)


def _shown(rule: str, value: Any, option: Mapping[str, Any]) -> str:
    """Return ", not VALUE" where that reads well and tells no secret."""
    if option.get("no_log") or not rule.startswith("must be "):
        return ""
    if isinstance(value, (dict, list)):
        return ", not a dictionary" if isinstance(value, dict) else ", not a list"
    text = json.dumps(value, ensure_ascii=False)
    # What stands before it in an address may be a password, also where the address is misspelt.
    if "@" in text:
        return ""
    return f", not {text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + '...'}"
