# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: inventory_problems
short_description: Find what is wrong with the variables of all hosts
version_added: 1.0.0
description:
  - Checks the variables of hosts against the argument specifications of roles, and against the
    rules of this collection, before any host is contacted.
  - A variable that begins with a role's name must be an option of that role, have the option's
    type, and follow its rule. One that all but has the name of an option is taken for a slip.
    Types are strict, V(two) is no number and V(438) no text, but numbers and booleans may be text,
    as inventories in INI format have them.
  - The hosts that make up a cluster must fit together, for example have names of their own and one
    token.
  - Values of options with C(no_log) are never part of the answer.
  - Variables that refer to facts or to defaults of roles cannot be judged at this point and are
    left out. Variables of plays are not seen, those of the command line are.
options:
  _input:
    description: The variable C(hostvars).
    type: dict
    required: true
  hosts:
    description:
      - Names of the hosts to check. Hosts of the groups C(k3s_server) and C(k3s_agent) that are not
        among them, for example because of C(--limit), are looked at where hosts are compared.
    type: list
    elements: str
    required: true
  specs:
    description: By the name of each role, the C(options) of the entry point C(main) in its
      C(argument_specs.yml).
    type: dict
    required: true
author:
  - The rocknpu.edge authors (@rocknpu)
"""

EXAMPLES = r"""
- name: Stop before anything is changed
  ansible.builtin.assert:
    that: _site_problems | length == 0
    fail_msg: "{{ _site_problems }}"
  run_once: true
  vars:
    _site_specs:
      device_plugin:
        device_plugin_shares:
          type: int
    _site_problems: >-
      {{ hostvars
         | rocknpu.edge.inventory_problems(hosts=ansible_play_hosts_all, specs=_site_specs) }}
"""

RETURN = r"""
_value:
  description: One sentence per problem that names host, variable, rule and what to do. Empty when
    the inventory is sound.
  type: list
  elements: str
  sample:
    - >-
      rk3588-node-02: device_plugin_shares: must be a whole number from 1 to 100, not "two"; set it
      in host_vars/rk3588-node-02.yml.
"""

import difflib
import functools
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError  # type: ignore[import-untyped]
from ansible_collections.rocknpu.edge.plugins.plugin_utils.cluster_rules import (
    AGENTS,
    CONNECTION,
    SERVERS,
    Problem,
    find_cluster_problems,
)
from ansible_collections.rocknpu.edge.plugins.plugin_utils.inventory_values import (
    HostVariables,
    plain,
    read_host,
)
from ansible_collections.rocknpu.edge.plugins.plugin_utils.variable_problems import (
    find_broken_rules,
)
from ansible_collections.rocknpu.edge.plugins.plugin_utils.variable_types import Options

# One letter too many or too few, or two that changed places. k8s_token is another variable.
_SLIP = 0.93


def inventory_problems(
    hostvars: Mapping[str, Any], hosts: Sequence[str], specs: Mapping[str, Options]
) -> list[str]:
    """Return one sentence per problem, see DOCUMENTATION."""
    if not isinstance(hostvars, Mapping) or not isinstance(specs, Mapping):
        raise AnsibleFilterError("inventory_problems needs hostvars, and specs by role.")
    specs = plain(specs)
    options = {name: option for role in specs.values() for name, option in role.items()}
    prefixes = tuple(f"{role}_" for role in specs)

    def wanted(name: str) -> bool:
        return name.startswith(prefixes) or name in CONNECTION

    checked = [
        read_host(hostvars, host, wanted, frozenset(options))
        for host in dict.fromkeys([*plain(hosts), *_cluster_members(hostvars, hosts)])
    ]
    problems = [
        problem
        for host in checked
        if host.host in hosts
        for problem in _find_host_problems(host, options)
    ]
    if "k3s" in specs:
        problems += find_cluster_problems(checked)
    return [*_missing_packages(), *_sentences(problems)]


def _missing_packages() -> list[str]:
    """Return what is to be said of the Python that runs ansible-playbook, and modules there."""
    if importlib.util.find_spec("kubernetes"):
        return []
    return [
        f"{sys.executable} on the control node, which runs ansible-playbook, has no package "
        f"kubernetes; install it ({sys.executable} -m pip install kubernetes)."
    ]


def _cluster_members(hostvars: Mapping[str, Any], hosts: Sequence[str]) -> list[str]:
    """Return the hosts of the cluster's groups in the whole inventory."""
    for host in hosts:
        groups = hostvars[host].get("groups", {})
        return [name for group in (SERVERS, AGENTS) for name in groups.get(group, [])]
    return []


def _find_host_problems(host: HostVariables, options: Options) -> Iterator[Problem]:
    given = {*host.values, *host.broken, *host.later, *host.sealed} - CONNECTION
    for name in sorted(given):
        if name not in options:
            yield _unknown(host.host, name, options)
        elif name in host.sealed:
            rule = "is encrypted, and the password of its vault is missing or another one"
            remedy = (
                "give it, with ansible-playbook's --ask-vault-pass or --vault-password-file, or in "
                "the environment as ANSIBLE_VAULT_PASSWORD_FILE"
            )
            yield Problem(host.host, name, rule, remedy)
        elif name in host.broken:
            why = "" if options[name].get("no_log") else f": {host.broken[name]}"
            rule = f"its template cannot be resolved{why}"
            yield Problem(
                host.host, name, rule, "define what it refers to, or give it a plain value"
            )
        elif name in host.values:
            for place, rule in find_broken_rules(name, host.values[name], options[name]):
                yield Problem(host.host, place, rule)
    for name, option in options.items():
        if option.get("required") and name not in given:
            yield Problem(host.host, name, "is missing")
    for name in sorted(host.others):
        if _looks_like_option(name, tuple(options)):
            yield _unknown(host.host, name, options)


@functools.lru_cache(maxsize=None)
def _looks_like_option(name: str, options: tuple[str, ...]) -> bool:
    """Tell whether a name without a role's name at its beginning is a slip of the pen.

    What begins with an underscore is a role's own, which has run before.
    """
    plain_name = name.lower().replace("-", "_")
    return not name.startswith(("ansible_", "_")) and bool(
        difflib.get_close_matches(plain_name, options, n=1, cutoff=_SLIP)
    )


def _unknown(host: str, name: str, options: Options) -> Problem:
    close = difflib.get_close_matches(name.lower(), options, n=1)
    hint = f"did you mean {close[0]}? Rename" if close else "rename"
    return Problem(
        host, name, "no role of this collection has this variable", f"{hint} or remove it"
    )


def _sentences(problems: Sequence[Problem]) -> list[str]:
    """Word the problems; what is wrong at several hosts alike is said once."""
    hosts: dict[tuple[str, str, str], list[str]] = {}
    for problem in problems:
        hosts.setdefault((problem.variable, problem.rule, problem.remedy), []).append(problem.host)
    return [
        f"{', '.join(names)}: {variable}: {rule}; {remedy or _place(names)}."
        for (variable, rule, remedy), names in hosts.items()
    ]


def _place(hosts: Sequence[str]) -> str:
    return f"set it in host_vars/{hosts[0]}.yml" if len(hosts) == 1 else "set it in group_vars"


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return them by name."""
        return {"inventory_problems": inventory_problems}
