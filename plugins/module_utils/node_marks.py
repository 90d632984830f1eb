# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Labels and taints of a node that one owner keeps, and nobody else's.

What an owner has set is remembered in an annotation of the node, so that it can be told from what
others have set, and removed when it is no longer wanted. Pure functions over the node's JSON.
"""

from __future__ import annotations

import json
import re
from typing import Any, Mapping, NamedTuple, Sequence, Tuple

from .kube_objects import KubeObject
from .label_syntax import EFFECTS, check_key, check_value

#: Followed by the owner: the annotation that remembers what the owner has set.
ANNOTATION = "rocknpu.device/labels-of-"

_OWNER = re.compile("[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?")

#: A taint is known by its key and its effect; its value may change.
TaintId = Tuple[str, str]


class Marks(NamedTuple):
    """Labels by key, and the values of taints by key and effect."""

    labels: dict[str, str]
    taints: dict[TaintId, str]

    def plain(self) -> dict[str, Any]:
        """Return them as the module does."""
        return {
            "labels": dict(sorted(self.labels.items())),
            "taints": [
                {"key": key, "value": value, "effect": effect}
                for (key, effect), value in sorted(self.taints.items())
            ],
        }


class Change(NamedTuple):
    """What there is, what there will be, and the merge patch that leads there; None if equal."""

    before: Marks
    after: Marks
    patch: dict[str, Any] | None


class OwnerError(Exception):
    """A label or taint that is wanted belongs to another owner; the text is one sentence."""


def check_marks(
    owner: str, labels: Mapping[str, Any], taints: Sequence[Mapping[str, Any]]
) -> str | None:
    """Return the first rule of Kubernetes that the options break, as a sentence."""
    if not _OWNER.fullmatch(owner):
        return (
            "owner: must be a word of at most 32 lower-case letters, digits and hyphens, not "
            f"{owner}."
        )
    for key, value in labels.items():
        for rule in (check_key(str(key)), check_value(value)):
            if rule:
                return f"labels: {key}: {rule}."
    for taint in taints:
        key, effect = taint["key"], taint["effect"]
        for rule in (check_key(key), check_value(taint["value"])):
            if rule:
                return f"taints: {key}: {rule}."
        if effect not in EFFECTS:
            return f'taints: {key}: effect must be one of {", ".join(EFFECTS)}, not "{effect}".'
        if sum((other["key"], other["effect"]) == (key, effect) for other in taints) > 1:
            return f"taints: {key}: stands more than once with the effect {effect}."
    return None


def wanted_marks(labels: Mapping[str, Any], taints: Sequence[Mapping[str, Any]]) -> Marks:
    """Return the options of the module as marks; templates make numbers of what looks like one."""
    return Marks(
        {str(key): str(value) for key, value in labels.items()},
        {_identity(taint): taint["value"] for taint in taints},
    )


def read_marks(node: KubeObject) -> dict[str, Marks]:
    """Return what each owner keeps on a node now."""
    annotations = node["metadata"].get("annotations") or {}
    return {
        name[len(ANNOTATION) :]: _present(node, *_remembered(annotations[name]))
        for name in sorted(annotations)
        if name.startswith(ANNOTATION)
    }


def plan(node: KubeObject, owner: str, wanted: Marks) -> Change:
    """Compare what the owner wants with what it has on a node.

    Raises:
        OwnerError
    """
    metadata = node["metadata"]
    annotations = metadata.get("annotations") or {}
    _refuse_others(annotations, owner, wanted)
    known_labels, known_taints = _remembered(annotations.get(ANNOTATION + owner))
    before = _present(node, {*known_labels, *wanted.labels}, {*known_taints, *wanted.taints})
    patch: dict[str, Any] = {"metadata": {}}
    if before.labels != wanted.labels:
        gone = dict.fromkeys(sorted(before.labels.keys() - wanted.labels.keys()))
        patch["metadata"]["labels"] = {**gone, **wanted.labels}
    memory = _memory(wanted)
    if annotations.get(ANNOTATION + owner) != memory:
        patch["metadata"]["annotations"] = {ANNOTATION + owner: memory}
    if before.taints != wanted.taints:
        # The list is replaced as a whole, so nobody may have changed it meanwhile.
        patch["metadata"]["resourceVersion"] = metadata["resourceVersion"]
        merged = _merge_taints(_taints(node), before.taints, wanted.taints)
        patch["spec"] = {"taints": merged or None}
    return Change(before, wanted, patch if patch["metadata"] else None)


def _taints(node: KubeObject) -> list[Mapping[str, Any]]:
    return (node.get("spec") or {}).get("taints") or []


def _present(node: KubeObject, labels: set[str], taints: set[TaintId]) -> Marks:
    """Return those of some labels and taints that are on a node."""
    there = node["metadata"].get("labels") or {}
    return Marks(
        {key: there[key] for key in labels if key in there},
        {
            _identity(taint): taint.get("value") or ""
            for taint in _taints(node)
            if _identity(taint) in taints
        },
    )


def _refuse_others(annotations: Mapping[str, str], owner: str, wanted: Marks) -> None:
    for name in sorted(annotations):
        other = name[len(ANNOTATION) :]
        if not name.startswith(ANNOTATION) or other == owner:
            continue
        labels, taints = _remembered(annotations[name])
        for what, keys in (
            ("label", labels & wanted.labels.keys()),
            ("taint", {taint[0] for taint in taints & wanted.taints.keys()}),
        ):
            for key in sorted(keys):
                raise OwnerError(
                    f"the {what} {key} of this node is kept by {other}, and {owner} may not change "
                    "it; remove it from one of the two."
                )


def _remembered(annotation: str | None) -> tuple[set[str], set[TaintId]]:
    """Return the labels and taints that an owner has set; none if nobody can tell."""
    try:
        memory = json.loads(annotation or "{}")
        taints = [taint.rpartition(":") for taint in memory.get("taints", [])]
        return set(memory.get("labels", [])), {(parts[0], parts[2]) for parts in taints}
    except (ValueError, TypeError, AttributeError):
        return set(), set()


def _memory(marks: Marks) -> str | None:
    if not (marks.labels or marks.taints):
        return None
    memory = {
        "labels": sorted(marks.labels),
        "taints": [f"{key}:{effect}" for key, effect in sorted(marks.taints)],
    }
    return json.dumps({name: keys for name, keys in memory.items() if keys}, separators=(",", ":"))


def _identity(taint: Mapping[str, Any]) -> TaintId:
    return taint["key"], taint["effect"]


def _merge_taints(
    present: Sequence[Mapping[str, Any]],
    before: Mapping[TaintId, str],
    wanted: Mapping[TaintId, str],
) -> list[dict[str, Any]]:
    """Return all taints of the node; those that stay as they are keep their place and time."""
    merged = []
    for taint in present:
        identity = _identity(taint)
        if identity not in before or wanted.get(identity) == before[identity]:
            merged.append(dict(taint))
    for identity, value in sorted(wanted.items()):
        if before.get(identity) != value:
            key, effect = identity
            merged.append({"key": key, "effect": effect, **({"value": value} if value else {})})
    return merged
