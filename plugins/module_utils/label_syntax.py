# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kubernetes' rules for labels and taints, checked before anything is sent.

https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
"""

from __future__ import annotations

from typing import Any

from .resource_name import DOMAIN, MAX_DOMAIN, MAX_NAME, NAME

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_WORD = (
    f"must have at most {MAX_NAME} letters, digits, '-', '_' and '.', and begin and end with a "
    "letter or digit"
)


def check_key(key: str) -> str | None:
    """Return the rule that the key of a label or taint breaks; None if it breaks none."""
    domain, slash, name = key.rpartition("/")
    if slash and not (DOMAIN.fullmatch(domain) and len(domain) <= MAX_DOMAIN):
        return "must have a DNS domain in lower case before its one slash"
    if not NAME.fullmatch(name) or len(name) > MAX_NAME:
        return f"{_WORD}{' after its slash' if slash else ''}"
    return None


def check_value(value: Any) -> str | None:
    """Return the rule that the value of a label or taint breaks; None if it breaks none."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        return "must be text, put it in quotes"
    if value and (not NAME.fullmatch(value) or len(value) > MAX_NAME):
        return f"{_WORD}, or be empty"
    return None
