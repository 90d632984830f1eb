"""Simulated hardware of a board: read from models/NAME.json, rendered into a directory tree.

The tree holds what stands in /sys, /proc and /dev of a real board; the board's boot service
(board/usr/lib/virtual-board/boot) puts it there. File formats and names follow the vendor's driver
(its files rknpu_drv.c, rknpu_debugger.c, rknpu_devfreq.c) and the kernel's device model.

Keys of a model, all but `title` optional:
  title         what it is, for people
  model         /proc/device-tree/model
  compatible    /proc/device-tree/compatible
  kernel_config lines of the kernel's configuration, besides which no option is set
  device_tree   NODE: {compatible, status}
  platform      devices: {name, driver, compatible, npu, files, classes}, where npu marks the NPU's
                own and classes is {CLASS: {NAME: {FILE: TEXT}}}
  virtual       devices without hardware: {CLASS: {NAME: {FILE: TEXT}}}
  drivers       platform drivers that are registered and bound to nothing
  files         further files: {PATH below /sys: TEXT}
  debugfs       files below /sys/kernel/debug, and debugfs_at_boot: whether systemd mounts it
  python        version that the board's Python claims to be, or "none"
  light         whether the k3s stand-in makes a node of it that runs no containers
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from virtual_edge.errors import RefusedError

_MODELS = Path(__file__).parent / "models"
_KEYS = {
    "title",
    "model",
    "compatible",
    "kernel_config",
    "device_tree",
    "platform",
    "virtual",
    "drivers",
    "files",
    "debugfs",
    "debugfs_at_boot",
    "python",
    "light",
}
# Where the nodes of a class lie below /dev, and the class's DEVTYPE in a uevent.
_CLASSES = {
    "drm": ("dri/", "drm_minor"),
    "accel": ("accel/", "accel_minor"),
    "dma_heap": ("dma_heap/", ""),
    "misc": ("", ""),
}
# A number without a driver behind it cannot be opened. The nodes that a pod opens stand on devices
# which every user may open, which do nothing until they are told to by ioctl, and which a container
# cannot open unless its device rules say so - unlike /dev/null.
_STAND_INS = {"fuse": (10, 229), "tun": (10, 200)}
_FALLBACK = {"fuse": (1, 3), "tun": (1, 5)}
_NULL = (1, 3)
_DRM_MAJOR = 226


@dataclass(frozen=True)
class Node:
    """A device node: its path, its number, and whether it belongs to the NPU."""

    path: str
    major: int
    minor: int
    npu: bool


def names() -> list[str]:
    """The models that there are."""
    return sorted(path.stem for path in _MODELS.glob("*.json"))


def load(name: str) -> dict[str, Any]:
    """Read a model.

    Raises:
        RefusedError: there is no such model, or it has a key that no code reads.
    """
    path = _MODELS / f"{name}.json"
    if name not in names():
        raise RefusedError(f"There is no board model {name!r}: take one of {', '.join(names())}.")
    model: dict[str, Any] = json.loads(path.read_text())
    unknown = sorted(set(model) - _KEYS)
    if unknown:
        raise RefusedError(f"{path.name}: nobody reads the key {unknown[0]!r}: correct it.")
    return model


def stand_ins(proc_misc: str) -> dict[str, tuple[int, int]]:
    """Device numbers that this kernel can open, from the text of /proc/misc."""
    present = {line.split()[1] for line in proc_misc.splitlines() if len(line.split()) == 2}
    return {
        name: number if name in present else _FALLBACK[name] for name, number in _STAND_INS.items()
    }


def nodes(model: dict[str, Any], numbers: dict[str, tuple[int, int]]) -> list[Node]:
    """The device nodes of a model, as /dev shows them.

    Args:
        model: from load().
        numbers: from stand_ins().
    """
    found = []
    for device in model.get("platform", []):
        for class_name, entries in device.get("classes", {}).items():
            for name in entries:
                node = _node(class_name, name, bool(device.get("npu")), numbers)
                found += [node] if node else []
    for class_name, entries in model.get("virtual", {}).items():
        for name in entries:
            node = _node(class_name, name, False, numbers)
            found += [node] if node else []
    return found


def _node(
    class_name: str, name: str, npu: bool, numbers: dict[str, tuple[int, int]]
) -> Node | None:
    if class_name not in _CLASSES:
        return None
    path = f"/dev/{_CLASSES[class_name][0]}{name}"
    if npu:
        major, minor = numbers["tun" if name.startswith("card") else "fuse"]
    elif class_name == "drm":
        major, minor = _DRM_MAJOR, int(re.sub(r"\D", "", name))
    else:
        major, minor = _NULL
    return Node(path, major, minor, npu)


def render(model: dict[str, Any], numbers: dict[str, tuple[int, int]]) -> dict[str, str | bytes]:
    """The tree of a model: path to content; a link is "-> target".

    Top directories: overlay/ (laid over the board's own directories), firmware/ (in place of
    /sys/firmware), bind/ (single files), debugfs/, and the file `nodes`.
    """
    tree: dict[str, str | bytes] = {}
    by_name = {(node.path.rsplit("/", 1)[-1], node.npu): node for node in nodes(model, numbers)}
    for device in model.get("platform", []):
        tree.update(_platform_device(device, by_name))
    for driver in model.get("drivers", []):
        tree[f"overlay/sys/bus/platform/drivers/{driver}/uevent"] = ""
    for class_name, entries in model.get("virtual", {}).items():
        home = f"devices/virtual/{class_name}"
        for name, files in entries.items():
            node = by_name.get((name, False))
            tree.update(_class_device(home, class_name, name, files, None, node))
    for path, text in model.get("files", {}).items():
        tree[f"overlay{path}"] = text
    if "compatible" in model:
        tree.update(_firmware(model))
    if "kernel_config" in model:
        text = "\n".join([*model["kernel_config"], ""])
        tree["bind/config.gz"] = gzip.compress(text.encode(), mtime=0)
    for path, text in model.get("debugfs", {}).items():
        tree[f"debugfs/{path}"] = text
    tree["nodes"] = "".join(
        f"{node.path} {node.major} {node.minor} {'npu' if node.npu else 'other'}\n"
        for node in nodes(model, numbers)
    )
    return tree


def _platform_device(
    device: dict[str, Any], nodes_by_name: dict[tuple[str, bool], Node]
) -> Iterator[tuple[str, str]]:
    name, driver = device["name"], device.get("driver")
    home = f"devices/platform/{name}"
    uevent = [f"DRIVER={driver}"] if driver else []
    compatible = device.get("compatible", [])
    if compatible:
        uevent += [f"OF_COMPATIBLE_{index}={entry}" for index, entry in enumerate(compatible)]
        uevent += [f"OF_COMPATIBLE_N={len(compatible)}"]
    yield f"overlay/sys/{home}/uevent", "".join(f"{line}\n" for line in uevent)
    yield f"overlay/sys/{home}/subsystem", "-> ../../../bus/platform"
    yield f"overlay/sys/bus/platform/devices/{name}", f"-> ../../../{home}"
    if driver:
        yield f"overlay/sys/{home}/driver", f"-> ../../../bus/platform/drivers/{driver}"
        yield f"overlay/sys/bus/platform/drivers/{driver}/{name}", f"-> ../../../../{home}"
    for path, text in device.get("files", {}).items():
        yield f"overlay/sys/{home}/{path}", text
    for class_name, entries in device.get("classes", {}).items():
        for entry, files in entries.items():
            node = nodes_by_name.get((entry, bool(device.get("npu"))))
            yield from _class_device(
                f"{home}/{class_name}", class_name, entry, files, f"../../../{name}", node
            )


def _class_device(
    home: str,
    class_name: str,
    name: str,
    files: dict[str, str],
    device: str | None,
    node: Node | None,
) -> Iterator[tuple[str, str]]:
    """One entry of /sys/class and the directory below /sys/devices that it leads to."""
    up = "../" * (len(home.split("/")) + 1)
    yield f"overlay/sys/class/{class_name}/{name}", f"-> ../../{home}/{name}"
    yield f"overlay/sys/{home}/{name}/subsystem", f"-> {up}class/{class_name}"
    if device:
        yield f"overlay/sys/{home}/{name}/device", f"-> {device}"
    uevent = ""
    if node:
        number = f"{node.major}:{node.minor}"
        yield f"overlay/sys/{home}/{name}/dev", f"{number}\n"
        if (node.major, node.minor) != _NULL:
            yield f"overlay/sys/dev/char/{number}", f"-> ../../{home}/{name}"
        uevent = f"MAJOR={node.major}\nMINOR={node.minor}\nDEVNAME={node.path[len('/dev/') :]}\n"
        devtype = _CLASSES[class_name][1]
        uevent += f"DEVTYPE={devtype}\n" if devtype else ""
    yield f"overlay/sys/{home}/{name}/uevent", uevent
    for path, text in files.items():
        yield f"overlay/sys/{home}/{name}/{path}", text


def _firmware(model: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    """The flattened device tree's strings end in NUL, lists are strings one after the other."""
    base = "firmware/devicetree/base"
    yield f"{base}/model", model["model"].encode() + b"\0"
    yield f"{base}/compatible", _strings(model["compatible"])
    for node, properties in model.get("device_tree", {}).items():
        yield f"{base}/{node}/name", node.split("@")[0].encode() + b"\0"
        yield f"{base}/{node}/compatible", _strings(properties["compatible"])
        yield f"{base}/{node}/status", properties["status"].encode() + b"\0"


def _strings(entries: list[str]) -> bytes:
    return b"".join(entry.encode() + b"\0" for entry in entries)


def write(tree: dict[str, str | bytes], directory: Path) -> None:
    """Write a rendered tree in place of what is at *directory*, complete or not at all."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
        made = Path(scratch) / "tree"
        made.mkdir()
        for path, content in tree.items():
            target = made / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                target.write_bytes(content)
            elif content.startswith("-> "):
                target.symlink_to(content[len("-> ") :])
            else:
                target.write_text(content)
        for entry in [made, *made.rglob("*")]:
            if not entry.is_symlink():
                entry.chmod(0o755 if entry.is_dir() else 0o644)
        # As the kernel has it: the files below are for everyone, the way to them is root's.
        if (made / "hardware/debugfs").is_dir():
            (made / "hardware/debugfs").chmod(0o700)
        if directory.exists():
            shutil.rmtree(directory)
        made.replace(directory)
