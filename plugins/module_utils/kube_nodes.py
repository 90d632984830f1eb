# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the modules ask of an API server about nodes and their pods; timeouts in whole seconds."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from .kube_api import KubeApi
from .kube_objects import KubeObject

_NODES = "/api/v1/nodes"


def list_nodes(api: KubeApi, timeout: int) -> list[KubeObject]:
    """Return all nodes."""
    return api.items(_NODES, "list nodes", timeout)


def list_pods(api: KubeApi, node: str | None, timeout: int) -> list[KubeObject]:
    """Return the pods of all namespaces that are bound to a node, or with None those of all."""
    selector = {"field_selector": f"spec.nodeName={node}"} if node is not None else {}
    return api.items("/api/v1/pods", "list pods", timeout, **selector)


def get_node(api: KubeApi, name: str, timeout: int) -> KubeObject:
    """Return one node; the reason of the ApiError is "missing" where there is none."""
    return api.request("get", _path(name), "get nodes", timeout)


def patch_node(
    api: KubeApi, name: str, patch: KubeObject, timeout: int, dry_run: bool = False
) -> KubeObject:
    """Merge a patch into a node and return it; a dry run is judged by the server and not kept."""
    return _patch(api, _path(name), "patch nodes", patch, timeout, dry_run)


def patch_node_status(
    api: KubeApi, name: str, patch: KubeObject, timeout: int, dry_run: bool = False
) -> KubeObject:
    """Merge a patch into the status of a node, see patch_node()."""
    return _patch(api, f"{_path(name)}/status", "patch nodes/status", patch, timeout, dry_run)


def get_namespace(api: KubeApi, name: str, timeout: int) -> KubeObject:
    """Return one namespace; the reason of the ApiError is "missing" where there is none."""
    path = f"/api/v1/namespaces/{quote(name, safe='')}"
    return api.request("get", path, "get namespaces", timeout)


def get_daemonset(api: KubeApi, namespace: str, name: str, timeout: int) -> KubeObject:
    """Return one DaemonSet; the reason of the ApiError is "missing" where there is none."""
    path = f"/apis/apps/v1/namespaces/{quote(namespace, safe='')}/daemonsets/{quote(name, safe='')}"
    return api.request("get", path, "get daemonsets", timeout)


def annotate_pod(
    api: KubeApi, namespace: str, name: str, annotations: dict[str, str], timeout: int
) -> KubeObject:
    """Set annotations of a pod and return it."""
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"
    patch = {"metadata": {"annotations": annotations}}
    return _patch(api, path, "patch pods", patch, timeout, dry_run=False)


def _path(name: str) -> str:
    return f"{_NODES}/{quote(name, safe='')}"


def _patch(
    api: KubeApi, path: str, action: str, patch: KubeObject, timeout: int, dry_run: bool
) -> KubeObject:
    options: dict[str, Any] = {"dry_run": "All"} if dry_run else {}
    options["content_type"] = "application/merge-patch+json"
    return api.request("patch", path, action, timeout, body=patch, **options)
