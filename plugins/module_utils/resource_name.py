# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of Kubernetes extended resources.

The rules are those of IsExtendedResourceName in Kubernetes (pkg/apis/core/v1/helper/helpers.go) and
IsQualifiedName in apimachinery (pkg/util/validation/validation.go). kubelet refuses other names
when a plugin registers; checking them earlier keeps them out of configuration files.
"""

from __future__ import annotations

import re

MAX_DOMAIN = 253
MAX_NAME = 63
# kubelet checks the name with this in front, because quotas on the resource are written so.
_QUOTA_PREFIX = "requests."
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")


def check_resource_name(name: str) -> str | None:
    """Check a resource name such as "rocknpu.device/npu".

    Returns:
        None if Kubernetes accepts it, else one sentence that says which rule it breaks.
    """
    reason = _find_reason(name)
    return reason and f'"{name}" is no valid resource name: {reason}.'


def _find_reason(name: str) -> str | None:
    domain, slash, rest = name.partition("/")
    longest = MAX_DOMAIN - len(_QUOTA_PREFIX)
    if not slash:
        return "it must be DOMAIN/NAME, for example rocknpu.device/npu"
    if "/" in rest:
        return "it must have exactly one slash"
    if "kubernetes.io/" in name:
        return "domains that end in kubernetes.io are reserved, use one of your own"
    if name.startswith(_QUOTA_PREFIX):
        return f'it must not begin with "{_QUOTA_PREFIX}", which is reserved for quotas'
    if len(domain) > longest:
        return f"its domain has {len(domain)} characters, the limit is {longest}"
    if not DOMAIN.fullmatch(domain):
        return (
            "its domain must consist of lower-case letters, digits, '-' and '.', "
            "and each part must begin and end with a letter or digit"
        )
    if len(rest) > MAX_NAME:
        return f"the part after the slash has {len(rest)} characters, the limit is {MAX_NAME}"
    if not NAME.fullmatch(rest):
        return (
            "the part after the slash must consist of letters, digits, '-', '_' and '.', "
            "and must begin and end with a letter or digit"
        )
    return None
