# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The NPU as something to hand to containers: is it usable, and through which nodes.

Looking costs a few listings in sysfs and opens no file of the driver, so it neither wakes nor
disturbs the NPU, and Allocate may do it too.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Callable, Dict, Iterable, NamedTuple

from .board_files import BoardFiles, is_char_device
from .npu import DRIVERS, Npu, find_dma_heaps, find_npu


class Look(NamedTuple):
    """The NPU at one moment.

    problem: why it cannot be used, as one clause; None if it can.
    nodes: the NPU's own device nodes that exist.
    dma_heaps: DMA heaps that exist, from which the RKNN runtime takes its buffers.
    """

    problem: str | None
    nodes: tuple[str, ...]
    dma_heaps: tuple[str, ...]


class _Identity(NamedTuple):
    """Tells a device node from another one that has its name later."""

    inode: int
    number: int
    changed_ns: int


_Identities = Dict[str, "_Identity | None"]


class _Seen(NamedTuple):
    """A look, and what would be another one where it no longer holds.

    nodes: what containers are given. around: the directories of these, and the devices' places in
    the driver's directory.
    """

    look: Look
    nodes: _Identities
    around: _Identities


# Sysfs tells of no change in a directory, so that everything is listed now and then nevertheless.
_GLANCES = 9


class Device:
    """The NPU of the machine below *host_root*.

    Args:
        host_root: where the host's /dev and /sys are seen.
        char_device: the check for a character device, given a path below *host_root*; tests replace
            it, because only root can create device nodes.
    """

    def __init__(
        self, host_root: str = "/", char_device: Callable[[str], bool] = is_char_device
    ) -> None:
        self._root = host_root
        self._files = BoardFiles(host_root, char_device)
        self._npu: Npu | None = None
        self._seen: _Seen | None = None
        self._glances = 0

    def look(self) -> Look:
        """Find the driver and the nodes as they are now; new numbers are followed."""
        npu = find_npu(self._files)
        problem = self._find_problem(npu)
        if problem is None:
            self._npu = npu
        look = Look(problem, tuple(npu.nodes), tuple(find_dma_heaps(self._files)))
        # A driver that was loaded again makes new nodes, maybe under names that others had.
        nodes = (*look.nodes, *look.dma_heaps)
        names = (npu.driver, npu.driver.upper())
        bound = [f"{DRIVERS}/{name}/{device}" for name in names for device in npu.devices]
        around = {*map(posixpath.dirname, nodes), "/dev/dma_heap", *bound}
        self._seen = _Seen(look, self._identify(nodes), self._identify(around))
        self._glances = 0
        return look

    def _identify(self, paths: Iterable[str]) -> _Identities:
        located = [self._root.rstrip("/") + path for path in paths]
        return {path: _identify(path) for path in located}

    def glance(self) -> Look:
        """The last look as long as it was good and nothing near it has changed, else a new one."""
        seen = self._seen
        if seen is not None and seen.look.problem is None and self._glances < _GLANCES:
            self._glances += 1
            if _are_same(seen.nodes) and _are_same(seen.around):
                return seen.look
        return self.look()

    def current(self) -> Look:
        """The last look if it was good and its nodes are still the same ones, else a new one."""
        seen = self._seen
        if seen is not None and seen.look.problem is None and _are_same(seen.nodes):
            return seen.look
        return self.look()

    def _find_problem(self, npu: Npu) -> str | None:
        for place in ("/dev", "/sys"):
            if not self._files.is_directory(place):
                seen = self._root.rstrip("/") + place
                return f"{seen} does not exist; is {place} mounted from the host?"
        if npu.driver == "none":
            return "no driver is bound to an NPU"
        if npu.driver == "rocket":
            return "it is driven by mainline's rocket, which the RKNN runtime cannot use"
        if not npu.nodes:
            if self._has_dev():
                return f"the driver is bound to {npu.devices[0]}, but its device nodes are missing"
            return "neither /dev/dri nor /dev/rknpu exists; is /dev mounted from the host?"
        # The kernel may give other numbers, but a kind of node that was there has to be there.
        if self._npu is not None and self._npu.mode == npu.mode:
            kinds = {_kind(node) for node in npu.nodes}
            lost = [node for node in self._npu.nodes if _kind(node) not in kinds]
            if lost:
                return f"{', '.join(lost)} is gone"
        return None

    def _has_dev(self) -> bool:
        return bool(
            self._files.is_directory("/dev/dri") or self._files.is_char_device("/dev/rknpu")
        )

    def find_node(self, path: str) -> str | None:
        """The character device that *path* of the host is or links to; None if there is none.

        Links are resolved because a kubelet passes paths on as they are, and because a link may not
        keep its name in a container: the RKNN runtime mistakes a DRM node named /dev/rknpu for
        another driver (https://github.com/invisiofficial/rk-llama.cpp/issues/19).
        """
        resolved = self._resolve(path)
        return resolved if resolved and self._files.is_char_device(resolved) else None

    def find_file(self, path: str) -> str | None:
        """The file or directory that *path* of the host is or links to; None if there is none."""
        return self._resolve(path)

    def _resolve(self, path: str) -> str | None:
        try:
            root = Path(self._root).resolve()
            located = (root / path.lstrip("/")).resolve(strict=True)
            # An absolute link below another root would lead to this machine's file of that name.
            return f"/{located.relative_to(root)}"
        except (OSError, RuntimeError, ValueError):
            return None


def _identify(path: str) -> _Identity | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return _Identity(status.st_ino, status.st_rdev, status.st_ctime_ns)


def _are_same(identities: _Identities) -> bool:
    return all(_identify(path) == identity for path, identity in identities.items())


def _kind(node: str) -> str:
    """ "/dev/dri/card" for "/dev/dri/card1"."""
    return re.sub("[0-9]+$", "", node)
