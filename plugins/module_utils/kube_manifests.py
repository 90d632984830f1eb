# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Apply and delete objects of the few kinds that this collection has, by server-side apply.

The server compares and merges: what somebody else has set beside what is applied stays, and what
was applied before and is no longer wanted goes.
https://kubernetes.io/docs/reference/using-api/server-side-apply/
"""

from __future__ import annotations

import json
from typing import Any, Mapping, NamedTuple
from urllib.parse import quote

from .kube_api import ApiError, KubeApi
from .kube_objects import KubeObject

#: Who applies, as the server remembers it.
FIELD_MANAGER = "rocknpu.edge"

#: Path of a kind below the API's address, by apiVersion and kind.
_PATHS = {
    ("v1", "Namespace"): "/api/v1/namespaces",
    ("v1", "ConfigMap"): "/api/v1/namespaces/{namespace}/configmaps",
    ("v1", "ServiceAccount"): "/api/v1/namespaces/{namespace}/serviceaccounts",
    ("apps/v1", "DaemonSet"): "/apis/apps/v1/namespaces/{namespace}/daemonsets",
}

# What the server keeps for itself and changes with every write.
_BOOKKEEPING = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")


class Outcome(NamedTuple):
    """An object as it was and as it is now, without the server's bookkeeping; None: not there."""

    title: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None

    @property
    def changed(self) -> bool:
        """Whether there is a difference."""
        return self.before != self.after


def check_object(item: Mapping[str, Any]) -> str | None:
    """Return in one sentence why an object cannot be applied; None if it can."""
    kind = (item.get("apiVersion"), item.get("kind"))
    if kind not in _PATHS:
        known = ", ".join(f"{name} ({version})" for version, name in _PATHS)
        return f"{kind[1]} ({kind[0]}) is no kind that this module knows; there are {known}."
    metadata = item.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name"):
        return f"a {kind[1]} has no metadata.name."
    if "{namespace}" in _PATHS[kind] and not metadata.get("namespace"):
        return f"{kind[1]} {metadata['name']} has no metadata.namespace."
    return None


def apply(api: KubeApi, item: Mapping[str, Any], timeout: int, check_mode: bool) -> Outcome:
    """Have the object in the cluster as it is given.

    Raises:
        ApiError
    """
    before = _find(api, item, timeout)
    try:
        after = _send(api, item, timeout, dry_run=True)
    except ApiError as error:
        # In check mode its namespace may not be there yet.
        if not (check_mode and before is None and error.reason == "missing"):
            raise
        after = item
    outcome = Outcome(_title(item), _comparable(before), _comparable(after))
    if outcome.changed and not check_mode:
        _send(api, item, timeout)
    return outcome


def delete(api: KubeApi, item: Mapping[str, Any], timeout: int, check_mode: bool) -> Outcome:
    """Delete the object if apply() has made it; it may take the server a moment, see exists().

    Raises:
        ApiError
    """
    before = _find(api, item, timeout)
    if before is not None and not _is_ours(before):
        return Outcome(_title(item), None, None)
    if before is not None and not check_mode and "deletionTimestamp" not in before["metadata"]:
        policy = {"propagation_policy": "Foreground"}
        api.request("delete", _path(item), f"delete {_title(item)}", timeout, **policy)
    return Outcome(_title(item), _comparable(before), None)


def exists(api: KubeApi, item: Mapping[str, Any], timeout: int) -> bool:
    """Tell whether the cluster has the object.

    Raises:
        ApiError
    """
    return _find(api, item, timeout) is not None


def _is_ours(item: KubeObject) -> bool:
    managers = item["metadata"].get("managedFields") or []
    return any(one.get("manager") == FIELD_MANAGER for one in managers)


def _title(item: Mapping[str, Any]) -> str:
    metadata = item["metadata"]
    place = f"{metadata['namespace']}/" if "namespace" in metadata else ""
    return f"{item['kind']} {place}{metadata['name']}"


def _path(item: Mapping[str, Any]) -> str:
    metadata = item["metadata"]
    collection = _PATHS[item["apiVersion"], item["kind"]]
    namespace = quote(metadata.get("namespace", ""), safe="")
    return f"{collection.format(namespace=namespace)}/{quote(metadata['name'], safe='')}"


def _find(api: KubeApi, item: Mapping[str, Any], timeout: int) -> KubeObject | None:
    try:
        return api.request("get", _path(item), f"get {_title(item)}", timeout)
    except ApiError as error:
        if error.reason != "missing":
            raise
        return None


def _send(
    api: KubeApi, item: Mapping[str, Any], timeout: int, dry_run: bool = False
) -> Mapping[str, Any]:
    options: dict[str, Any] = {"dry_run": "All"} if dry_run else {}
    return api.request(
        *("patch", _path(item), f"apply {_title(item)}", timeout),
        # JSON is YAML; as text, because older clients would not send a dictionary as this type.
        body=json.dumps(item),
        content_type="application/apply-patch+yaml",
        field_manager=FIELD_MANAGER,
        force_conflicts="true",
        **options,
    )


def _comparable(item: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if item is None:
        return None
    metadata = {key: value for key, value in item["metadata"].items() if key not in _BOOKKEEPING}
    annotations = dict(metadata.get("annotations") or {})
    # A controller's own note.
    annotations.pop("deprecated.daemonset.template.generation", None)
    metadata["annotations"] = annotations
    if not annotations:
        del metadata["annotations"]
    return {**{key: value for key, value in item.items() if key != "status"}, "metadata": metadata}
