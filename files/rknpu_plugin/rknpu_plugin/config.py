# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The configuration of the plugin: which keys there are and which values they take.

Where values come from is the business of config_sources.py.
"""

from __future__ import annotations

import ipaddress
import json
import posixpath
import re
import socket
from collections import Counter
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple

from .listen_address import check_listen_address, split_listen_address
from .resource_name import check_resource_name
from .shares import MAX_SHARES

# sockaddr_un.sun_path holds 108 bytes with its final NUL: https://man7.org/linux/man-pages/man7/unix.7.html
MAX_SOCKET_PATH = 107
# The longest name that endpoint.py gives a socket.
SOCKET_NAME_LENGTH = 40

# What a C program can take, and so the RKNN runtime.
MAX_CONTEXTS = 2**31 - 1

_SHOWN_LENGTH = 80
_PERMISSIONS = re.compile(r"(?!.*(.).*\1)[rwm]+")


class ExtraDevice(NamedTuple):
    """A device node that containers get beside the NPU's own, written PATH or PATH:PERMISSIONS."""

    path: str
    permissions: str | None

    def __str__(self) -> str:
        return self.path if self.permissions is None else f"{self.path}:{self.permissions}"


class HostMount(NamedTuple):
    """A file or directory of the host that containers see, written HOST, HOST:CONTAINER or
    HOST:CONTAINER:MODE, where MODE is ro (the default) or rw."""

    host_path: str
    container_path: str
    read_only: bool

    def __str__(self) -> str:
        if not self.read_only:
            return f"{self.host_path}:{self.container_path}:rw"
        if self.container_path == self.host_path:
            return self.host_path
        return f"{self.host_path}:{self.container_path}"


class Address(NamedTuple):
    """Where to listen; an empty host means every address of the machine."""

    host: str
    port: int

    @classmethod
    def of(cls, listener: socket.socket) -> Address:
        """Where *listener* does."""
        host, port = listener.getsockname()[:2]
        return cls(host, port)

    def is_same(self, other: Address) -> bool:
        """Whether connections to both come to the same place."""
        return self.port == other.port and self._number() == other._number()

    def _number(self) -> int:
        # Every address is 0, of both kinds: a socket for those of IPv6 has those of IPv4 too.
        return int(ipaddress.ip_address(self.host or "::"))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Config:
    """The configuration in force; KEYS describes each field."""

    resource: str
    shares: int | None
    max_contexts: int | None
    max_shares_per_container: int | None
    permissions: str
    extra_devices: tuple[ExtraDevice, ...]
    mounts: tuple[HostMount, ...]
    host_root: str
    kubelet_dir: str
    listen: Address | None
    log_format: str
    log_level: str


class Key(NamedTuple):
    """One key of the configuration.

    default: as it would stand in the file; None means that the board or Kubernetes decides.
    read: turns a value of the file into that of Config; raises ValueError with the broken rule.
    parse: turns the text of a flag or of the environment into a value as the file would hold it.
    reloadable: whether SIGHUP may change it in a running plugin.
    """

    name: str
    default: Any
    read: Callable[[Any], Any]
    parse: Callable[[str], Any]
    metavar: str
    help: str
    reloadable: bool


def _whole_number(low: int, high: int) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        # bool is an int to Python, but "shares: yes" is a mistake.
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if not is_number or not low <= value <= high:
            raise ValueError(f"must be a whole number from {low} to {high}, not {show(value)}")
        return value

    return read


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be a text, not {show(value)}")
    # Containers, the kubelet and Prometheus take no others, and messages stay on their line.
    if not value.isprintable():
        raise ValueError(f"must consist of printable characters, not {show(value)}")
    return value


def _one_of(*choices: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}, not {show(value)}")
        return str(value)

    return read


def _resource(value: Any) -> str:
    reason = check_resource_name(_text(value))
    if reason:
        raise ValueError(reason.rstrip("."))
    return str(value)


def _permissions(value: Any) -> str:
    if not _PERMISSIONS.fullmatch(_text(value)):
        raise ValueError(f"must be letters out of r, w and m, each at most once, not {show(value)}")
    return str(value)


def _absolute(value: Any) -> str:
    text = _text(value)
    if not text.startswith("/") or ".." in text.split("/"):
        raise ValueError(f'must be an absolute path without "..", not {show(value)}')
    return posixpath.normpath("/" + text.lstrip("/"))


def _kubelet_dir(value: Any) -> str:
    path = _absolute(value)
    longest = MAX_SOCKET_PATH - SOCKET_NAME_LENGTH - 1
    if len(path.encode()) > longest:
        raise ValueError(
            f"has {len(path.encode())} bytes, at most {longest} leave room for the name of a socket"
        )
    return path


def _extra_device(value: Any) -> ExtraDevice:
    path, colon, permissions = _text(value).partition(":")
    path = _absolute(path)
    if not path.startswith("/dev/"):
        raise ValueError(f"must be device nodes below /dev, not {show(value)}")
    return ExtraDevice(path, _permissions(permissions) if colon else None)


def _mount(value: Any) -> HostMount:
    host, *rest = _text(value).split(":")
    if len(rest) > 2 or (len(rest) == 2 and rest[1] not in ("ro", "rw")):
        raise ValueError(f"must be HOST, HOST:CONTAINER or HOST:CONTAINER:ro|rw, not {show(value)}")
    host_path = _absolute(host)
    container_path = _absolute(rest[0]) if rest else host_path
    if container_path == "/":
        raise ValueError("must not cover the container's root directory")
    return HostMount(host_path, container_path, read_only=rest[1:] != ["rw"])


def _each(read: Callable[[Any], Any], target: str) -> Callable[[Any], tuple[Any, ...]]:
    """A list whose entries are read by *read* and differ in their field *target*."""

    def read_list(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ValueError(f"must be a list, not {show(value)}")
        entries = tuple(read(entry) for entry in value)
        targets = [getattr(entry, target) for entry in entries]
        for name, times in Counter(targets).items():
            if times > 1:
                raise ValueError(f"names {name} more than once")
        return entries

    return read_list


def _listen(value: Any) -> Address | None:
    text = _text(value)
    if not text:
        return None
    reason = check_listen_address(text)
    if reason:
        raise ValueError(f"{reason}, not {show(value)}")
    return Address(*split_listen_address(text))


def show(value: Any) -> str:
    """Any value of a file in a message: short, and on one line."""
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    if isinstance(value, int) and value.bit_length() > _SHOWN_LENGTH:
        return "a number that long"
    text = json.dumps(value) if isinstance(value, str) else " ".join(str(value).split())
    if isinstance(value, str) and value.isprintable():
        text = f'"{value}"'
    return text if len(text) <= _SHOWN_LENGTH else text[: _SHOWN_LENGTH - 4] + ' ..."'


def _parse_number(text: str) -> Any:
    if not text.strip():
        return None
    return int(text) if re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*", text) else text


def _parse_list(text: str) -> Any:
    return [part.strip() for part in text.split(",") if part.strip()]


KEYS: tuple[Key, ...] = (
    Key("resource", "rocknpu.device/npu", _resource, str, "DOMAIN/NAME",
        "extended resource that pods ask for", False),
    Key("shares", None, _whole_number(1, MAX_SHARES), _parse_number, "N",
        "pods that may share the NPU (default: 2 on several cores, 1 on one)", True),
    Key("max_contexts", None, _whole_number(1, MAX_CONTEXTS), _parse_number, "N",
        "RKNN_MAX_CONTEXTS in containers (default: not set)", True),
    Key("max_shares_per_container", None, _whole_number(1, MAX_SHARES), _parse_number, "N",
        "refuse containers that ask for more (default: no limit)", True),
    Key("permissions", "rw", _permissions, str, "rwm",
        "what containers may do with the device nodes", True),
    Key("extra_devices", [], _each(_extra_device, "path"), _parse_list, "PATH[:rwm],...",
        "more device nodes for containers, for example /dev/rga", True),
    Key("mounts", [], _each(_mount, "container_path"), _parse_list, "HOST[:CONTAINER[:ro|rw]],...",
        "files of the host for containers, for example /usr/lib/librknnrt.so", True),
    Key("host_root", "/", _absolute, str, "DIR",
        "where the host's /dev, /proc and /sys are seen", False),
    Key("kubelet_dir", "/var/lib/kubelet/device-plugins", _kubelet_dir, str, "DIR",
        "where kubelet.sock is", False),
    Key("listen", ":9475", _listen, str, "[ADDRESS]:PORT",
        "metrics and health over HTTP, empty turns them off", False),
    Key("log_format", "text", _one_of("text", "json"), str, "text|json",
        "one line per event", True),
    Key("log_level", "info", _one_of("debug", "info", "warning", "error"), str,
        "debug|info|warning|error", "least severity that is logged", True),
)  # fmt: skip


def read_value(key: Key, value: Any) -> Any:
    """The value of Config for a value of the file; None stands for the default.

    Raises:
        ValueError: the rule that the value breaks, to follow the name of the key.
    """
    if value is None:
        value = key.default
    return None if value is None else key.read(value)


def plain(config: Config) -> dict[str, Any]:
    """The configuration as a file would hold it."""
    values = {key.name: getattr(config, key.name) for key in KEYS}
    for name in ("extra_devices", "mounts"):
        values[name] = [str(entry) for entry in values[name]]
    values["listen"] = "" if config.listen is None else str(config.listen)
    return values
