"""What the pods of the experiment print, what it has to be, and a table of it. No cluster here."""

from __future__ import annotations

from dataclasses import dataclass, field

RESOURCE = "rocknpu.device/npu"
USER = 1000
# What every container has in /dev.
_COMMON = {
    f"/dev/{name}" for name in ("console", "full", "null", "random", "tty", "urandom", "zero")
}
# The shell script of a pod; parse() reads what it prints.
SCRIPT = r"""
echo uid=$(id -u)
echo capabilities=$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
echo device=$RKNPU_DEVICE
echo contexts=$RKNN_MAX_CONTEXTS
echo shares=$RKNPU_SHARE_IDS
echo core_mask=$RKNPU_CORE_MASK
for place in / /tmp /dev/shm; do
    if (: >$place/.rocknpu) 2>/dev/null; then echo writes=$place; fi
done
for node in $(echo "$RKNPU_DEVICES" | tr , ' '); do
    if (exec 3<>"$node") 2>/dev/null; then echo opens=$node; else echo refused=$node; fi
done
find /dev -path /dev/pts -prune -o -type c -print | while read -r node; do echo sees=$node; done
echo done
trap exit TERM
while :; do sleep 1; done
"""


@dataclass
class Seen:
    """What one pod saw from inside.

    uid: its user.
    capabilities: effective ones, as a hexadecimal mask.
    device: $RKNPU_DEVICE.
    contexts: $RKNN_MAX_CONTEXTS, empty if it is not set.
    opens: nodes of $RKNPU_DEVICES that opened for reading and writing.
    refused: those that did not.
    sees: character devices besides what every container has.
    core_mask: $RKNPU_CORE_MASK, empty if it is not set.
    shares: names in $RKNPU_SHARE_IDS.
    writes: places that it can write to, out of /, /tmp and /dev/shm.
    """

    uid: int = -1
    capabilities: str = ""
    device: str = ""
    contexts: str = ""
    opens: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    sees: list[str] = field(default_factory=list)
    core_mask: str = ""
    shares: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)


@dataclass
class Pod:
    """A pod, where it runs, and what it saw or why it waits."""

    name: str
    node: str = ""
    phase: str = ""
    waits_for: str = ""
    seen: Seen | None = None


@dataclass
class Result:
    """All of the experiment: shares by node, pods, and the pod that ran after one was deleted."""

    shares: dict[str, int]
    pods: list[Pod]
    deleted: str
    ran_after_deletion: Pod


def parse(text: str) -> Seen | None:
    """What a pod printed; None until it is complete."""
    lines = text.splitlines()
    if "done" not in lines:
        return None
    seen = Seen()
    for line in lines[: lines.index("done")]:
        key, _, value = line.partition("=")
        if key == "uid":
            seen.uid = int(value)
        elif key in ("capabilities", "device", "contexts", "core_mask"):
            setattr(seen, key, value)
        elif key == "shares":
            seen.shares = value.split(",")
        elif key in ("opens", "refused", "writes"):
            getattr(seen, key).append(value)
        elif key == "sees" and value not in _COMMON:
            seen.sees.append(value)
    return seen


def find_faults(result: Result) -> list[str]:
    """What is not as it should be, as sentences; none if the NPU is shared out rightly."""
    faults = []
    running = [pod for pod in result.pods if pod.node]
    waiting = [pod for pod in result.pods if not pod.node]
    for node, shares in result.shares.items():
        placed = sum(pod.node == node for pod in running)
        if placed != shares:
            faults.append(f"{node} has {shares} shares and runs {placed} pods.")
    if len(waiting) != 1:
        faults.append(f"One pod has to wait, and {len(waiting)} do.")
    faults += [
        f"{pod.name} waits for another reason: {pod.waits_for}"
        for pod in waiting
        if f"Insufficient {RESOURCE}" not in pod.waits_for
    ]
    if not result.ran_after_deletion.node:
        faults.append(
            f"{result.ran_after_deletion.name} did not run after {result.deleted} was deleted."
        )
    for pod in [*running, result.ran_after_deletion]:
        faults += [f"{pod.name}: {fault}" for fault in _find_pod_faults(pod)]
    return faults


def _find_pod_faults(pod: Pod) -> list[str]:
    seen = pod.seen
    if seen is None:
        return ["it printed nothing."]
    faults = []
    if seen.uid != USER:
        faults.append(f"it runs as {seen.uid}, not as {USER}.")
    if int(seen.capabilities or "1", 16):
        faults.append(f"it has capabilities ({seen.capabilities}).")
    if not seen.device or seen.device not in seen.opens:
        faults.append(
            f"RKNPU_DEVICE ({seen.device or 'not set'}) does not open for reading and writing."
        )
    faults += [f"{node} does not open for reading and writing." for node in seen.refused]
    foreign = [
        node
        for node in seen.sees
        if node not in seen.opens and not node.startswith("/dev/dma_heap/")
    ]
    faults += [f"it sees {node}, which is not of the NPU." for node in foreign]
    return faults


def table(result: Result) -> str:
    """The result for people."""
    rows: list[tuple[str, ...]] = [
        ("POD", "NODE", "PHASE", "UID", "RKNPU_DEVICE", "OPENS READ-WRITE", "OTHER DEVICES")
    ]
    rows += [_row(pod) for pod in result.pods]
    rows.append((f"-- {result.deleted} deleted --", "", "", "", "", "", ""))
    rows.append(_row(result.ran_after_deletion))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows
    ]
    lines += [f"{pod.name} waits: {pod.waits_for}" for pod in result.pods if pod.waits_for]
    return "\n".join(lines)


def _row(pod: Pod) -> tuple[str, ...]:
    seen = pod.seen
    if seen is None:
        return (pod.name, "-", pod.phase, "-", "-", "-", "-")
    others = [node for node in seen.sees if node not in seen.opens]
    return (
        pod.name,
        pod.node,
        pod.phase,
        str(seen.uid),
        seen.device,
        " ".join(seen.opens) or "none",
        " ".join(others) or "none",
    )
