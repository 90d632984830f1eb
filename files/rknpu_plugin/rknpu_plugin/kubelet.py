# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kubelet's side of the contract: its socket, and registering with it."""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path
from typing import Callable, NamedTuple

from .api import deviceplugin_pb2 as api
from .rpc import describe, open_channel
from .service import OPTIONS

API_VERSION = "v1beta1"
_REGISTER = "/v1beta1.Registration/Register"
# The kubelet dials back for up to 10 seconds before it answers.
REGISTER_SECONDS = 15.0


class Identity(NamedTuple):
    """Tells one kubelet.sock from the next at the same path."""

    device: int
    inode: int
    changed_ns: int


def socket_path(directory: str) -> str:
    """The kubelet's registration socket."""
    return str(Path(directory, "kubelet.sock"))


def find_identity(directory: str) -> Identity | None:
    """Which kubelet.sock is there now; None if there is none."""
    try:
        status = Path(socket_path(directory)).stat()
    except OSError:
        return None
    return Identity(status.st_dev, status.st_ino, status.st_ctime_ns)


def find_obstacle(directory: str) -> str | None:
    """Why kubelet.sock cannot even be looked for; None where there simply is none."""
    path = socket_path(directory)
    try:
        Path(path).stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return explain_errno(path, error)
    return None


class Registration:
    """One call of Register, which the kubelet answers after it has called the plugin back.

    Args:
        directory: the kubelet's device-plugin directory.
        endpoint: name of the plugin's socket in there, which is being served.
        resource: what is offered.
        done: called when there is an answer, from a thread of gRPC.
    """

    def __init__(
        self, directory: str, endpoint: str, resource: str, done: Callable[[], None]
    ) -> None:
        self._directory = directory
        self._channel = open_channel(socket_path(directory))
        call = self._channel.unary_unary(
            _REGISTER,
            request_serializer=api.RegisterRequest.SerializeToString,
            response_deserializer=api.Empty.FromString,
        )
        request = api.RegisterRequest(
            version=API_VERSION, endpoint=endpoint, resource_name=resource, options=OPTIONS
        )
        self._call = call.future(request, timeout=REGISTER_SECONDS)
        self._call.add_done_callback(lambda _call: done())

    @property
    def is_done(self) -> bool:
        return bool(self._call.done())

    def find_problem(self) -> str | None:
        """Why the finished registration failed; None if it succeeded."""
        error = self._call.exception()
        if error is None:
            return None
        return explain_socket(self._directory) or f"the kubelet answered {describe(error)}"

    def close(self) -> None:
        """Give up the call if it is still open, and its connection."""
        self._call.cancel()
        self._channel.close()


_DENIED = "permission denied; the plugin must run as root, and SELinux or AppArmor must allow it"
_REASONS = {
    errno.ENOENT: "it does not exist; has the kubelet been started?",
    errno.ECONNREFUSED: "nobody listens there; the kubelet has stopped",
    errno.EACCES: _DENIED,
    errno.EPERM: _DENIED,
    errno.ENOTDIR: "something on the way there is no directory",
    errno.ELOOP: "its symbolic links lead in a circle",
    errno.ENOTSOCK: "it is no socket",
    errno.ENAMETOOLONG: "the path is too long",
    errno.EROFS: "it is read-only for the plugin; restart it if the directory was made anew",
    errno.ENOSPC: "no space is left on the device",
    errno.EDQUOT: "the disk quota is exhausted",
}


def explain_errno(path: str, error: OSError) -> str:
    """One clause that names the path and what to do."""
    return f"{path}: {_REASONS.get(error.errno or 0, error.strerror or str(error))}"


def explain_socket(directory: str) -> str | None:
    """Why the kubelet cannot be reached; None if its socket accepts connections."""
    path = socket_path(directory)
    try:
        # connect(2) says "refused" for files of any kind.
        if not stat.S_ISSOCK(Path(path).stat().st_mode):
            return f"{path}: {_REASONS[errno.ENOTSOCK]}"
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1.0)
            probe.connect(path)
    except OSError as error:
        return explain_errno(path, error)
    return None


def explain_bind(path: str) -> str:
    """Why no socket can be made at *path*: trying tells, gRPC does not."""
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.bind(path)
    except OSError as error:
        return explain_errno(path, error)
    Path(path).unlink(missing_ok=True)
    return f"{path}: gRPC cannot make a socket there"


def explain_directory(directory: str) -> str | None:
    """Why no socket can be made in the kubelet's directory; None if it looks possible."""
    try:
        if not stat.S_ISDIR(Path(directory).stat().st_mode):
            return f"{directory}: it is no directory"
        if not os.access(directory, os.W_OK | os.X_OK):
            is_read_only = os.statvfs(directory).f_flag & os.ST_RDONLY
            return f"{directory}: {_REASONS[errno.EROFS if is_read_only else errno.EACCES]}"
    except OSError as error:
        return explain_errno(directory, error)
    return None
