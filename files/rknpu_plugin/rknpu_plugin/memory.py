# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeping the process small, on boards where models and pods need the memory."""

from __future__ import annotations

import ctypes
import importlib
import sys
from contextlib import suppress
from types import ModuleType
from typing import Any

# <malloc.h> of glibc
_M_ARENA_MAX = -8


def use_one_arena() -> None:
    """Let all threads allocate from one place: they allocate little, and each arena costs memory.

    To be called before there are threads. Other C libraries than glibc have nothing to set.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def import_without_openssl() -> None:
    """Import the large libraries without OpenSSL, which would be a tenth of the process.

    They load it for what the plugin never does: TLS in asyncio, HTTPS in prometheus_client. asyncio
    copes, as on a Python that was built without; prometheus_client only names classes of it.
    """
    _import("grpc", ssl=None, _hashlib=None)
    _import("prometheus_client", ssl=_AnyName("ssl"), _hashlib=None)


def _import(name: str, **modules: ModuleType | None) -> None:
    """Import *name* while *modules* stand in for real ones; None makes their import fail."""
    before = set(sys.modules)
    stand_ins = {name: module for name, module in modules.items() if name not in before}
    sys.modules.update(stand_ins)  # type: ignore[arg-type]  # None is how to say "not to be had"
    try:
        importlib.import_module(name)
    except Exception:
        # A version that wants more than names gets the real ones when it is imported as usual.
        for imported in set(sys.modules) - before:
            del sys.modules[imported]
    finally:
        for stand_in in stand_ins:
            sys.modules.pop(stand_in, None)


class _AnyName(ModuleType):
    """A module in which every name is a class."""

    def __getattr__(self, name: str) -> Any:
        return object
