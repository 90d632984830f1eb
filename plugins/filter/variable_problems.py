# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: variable_problems
short_description: Find what is wrong with the variables of a role
version_added: 1.0.0
description:
  - Checks values against the argument specification of a role and the rules of this collection, as
    P(rocknpu.edge.inventory_problems#filter) does for all hosts. A role uses it for the values that
    it sees itself, those of plays and its defaults among them.
  - Values of options with C(no_log) are never part of the answer.
options:
  _input:
    description: Values by the names of the variables.
    type: dict
    required: true
  options:
    description: The C(options) of the entry point C(main) in the role's C(argument_specs.yml).
    type: dict
    required: true
author:
  - The rocknpu.edge authors (@rocknpu)
"""

EXAMPLES = r"""
- name: Stop before anything is changed
  ansible.builtin.assert:
    that: _problems | length == 0
    fail_msg: "{{ _problems | join(' ') }}"
  vars:
    _options:
      device_plugin_shares:
        type: int
    _problems: "{{ {'device_plugin_shares': 'two'} | rocknpu.edge.variable_problems(_options) }}"
"""

RETURN = r"""
_value:
  description: One sentence per problem that names variable and rule. Empty if all is well.
  type: list
  elements: str
  sample:
    - device_plugin_shares must be a whole number from 1 to 100, not "two".
"""

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.rocknpu.edge.plugins.plugin_utils.inventory_values import plain
from ansible_collections.rocknpu.edge.plugins.plugin_utils.variable_problems import (
    find_broken_rules,
)
from ansible_collections.rocknpu.edge.plugins.plugin_utils.variable_types import Options


def variable_problems(values: Mapping[str, Any], options: Options) -> list[str]:
    """Return one sentence per problem, see DOCUMENTATION."""
    values, options = plain(values), plain(options)
    return [
        f"{place} {rule}."
        for name, value in values.items()
        for place, rule in find_broken_rules(name, value, options[name])
    ]


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return them by name."""
        return {"variable_problems": variable_problems}
