# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pods that run a device plugin for the NPU on a node: the collection's own, and others.

Pure functions over the JSON of pods.
"""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

from .kube_objects import KubeObject

#: Where every device plugin has to have its socket.
KUBELET_DIRECTORY = "/var/lib/kubelet/device-plugins"

#: Label and value of all objects of the collection.
MANAGED_BY = ("app.kubernetes.io/managed-by", "rocknpu.edge")

#: Annotation of a pod: the release of the DaemonSet that it is of.
RELEASE = "rocknpu.device/release"

# What tells a plugin for this NPU from those for other devices.
_NAME = "rknpu"
_FINISHED = ("Succeeded", "Failed")


class PluginPod(NamedTuple):
    """A pod that runs a device plugin.

    controller: kind and name of what makes it, empty if nothing does. ours: whether the collection
    has made it. release: of the DaemonSet. problem: why it is not ready, empty if it is.
    """

    namespace: str
    name: str
    controller: str
    ours: bool
    release: str
    ready: bool
    problem: str


def find_plugins(
    pods: Iterable[KubeObject], resources: Sequence[str], daemonset: str
) -> list[tuple[str, PluginPod]]:
    """Return the pods that run a plugin for the NPU, each after its node, the collection's first.

    Args:
        pods: of any nodes.
        resources: that NPUs are offered as.
        daemonset: NAMESPACE/NAME of the collection's own.
    """
    names = (_NAME, *resources)
    found = [
        (str(pod["spec"].get("nodeName") or ""), _read(pod, daemonset))
        for pod in pods
        if (pod.get("status") or {}).get("phase") not in _FINISHED
        and _mounts(pod, KUBELET_DIRECTORY)
        and any(name in word for name in names for word in _words(pod))
    ]
    return sorted(found, key=lambda one: not one[1].ours)


def find_release(daemonset: KubeObject) -> str:
    """Return the release of the pods that a DaemonSet makes now."""
    annotations = daemonset["spec"]["template"]["metadata"].get("annotations") or {}
    return str(annotations.get(RELEASE, ""))


def _read(pod: KubeObject, daemonset: str) -> PluginPod:
    metadata = pod["metadata"]
    owners = [one for one in metadata.get("ownerReferences") or [] if one.get("controller")]
    controller = f"{owners[0]['kind']} {owners[0]['name']}" if owners else ""
    namespace, _slash, name = daemonset.partition("/")
    label, value = MANAGED_BY
    problem = _find_problem(pod)
    return PluginPod(
        namespace=metadata["namespace"],
        name=metadata["name"],
        controller=controller,
        ours=metadata["namespace"] == namespace
        and controller == f"DaemonSet {name}"
        and (metadata.get("labels") or {}).get(label) == value,
        release=(metadata.get("annotations") or {}).get(RELEASE, ""),
        ready=not problem,
        problem=problem,
    )


def _mounts(pod: KubeObject, directory: str) -> bool:
    """Tell whether a pod mounts a directory of the host, or one above it."""
    for volume in pod["spec"].get("volumes") or []:
        path = str((volume.get("hostPath") or {}).get("path") or "").rstrip("/")
        if "hostPath" in volume and f"{directory}/".startswith(f"{path}/"):
            return True
    return False


def _words(pod: KubeObject) -> Iterator[str]:
    """Yield what the containers of a pod are and are told."""
    for container in pod["spec"].get("containers") or []:
        yield from (container["name"], container.get("image") or "")
        yield from container.get("command") or []
        yield from container.get("args") or []
        yield from (str(one.get("value") or "") for one in container.get("env") or [])


def _find_problem(pod: KubeObject) -> str:
    if pod["metadata"].get("deletionTimestamp"):
        return "it is being deleted"
    status = pod.get("status") or {}
    for container in status.get("containerStatuses") or []:
        state = container.get("state") or {}
        waiting = state.get("waiting") or {}
        if waiting:
            last = ((container.get("lastState") or {}).get("terminated") or {}).get("message") or ""
            said = last.strip().splitlines()[-1:] or [waiting.get("message") or ""]
            return ": ".join(filter(None, (waiting.get("reason"), said[0].strip())))
    conditions: Mapping[str, Any] = {
        one["type"]: one for one in status.get("conditions") or [] if one.get("status") != "True"
    }
    for kind in ("PodScheduled", "Ready"):
        if kind in conditions:
            return str(conditions[kind].get("message") or conditions[kind].get("reason") or kind)
    return "" if status.get("phase") == "Running" else "it has not been started yet"


def describe_unready(pods: Sequence[PluginPod], release: str) -> str:
    """Return in words why there is not exactly one ready pod of a release on a node."""
    if not pods:
        return (
            "the DaemonSet has no pod there; see that the node has the label "
            "rocknpu.device/plugin=daemonset and is Ready"
        )
    words = []
    for pod in pods:
        state = pod.problem or "it runs" if pod.release == release else "it is of an older release"
        words.append(f"pod {pod.namespace}/{pod.name}: {state}")
    return "; ".join(words)


def is_up(pods: Sequence[PluginPod], release: str) -> bool:
    """Tell whether exactly one pod is there, and it is ready and of this release."""
    return len(pods) == 1 and pods[0].ready and pods[0].release == release
