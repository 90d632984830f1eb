# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses to listen on, written HOST:PORT or :PORT."""

from __future__ import annotations

import re
import socket

_HOST_LABEL = r"[A-Za-z0-9](?:[-A-Za-z0-9]{0,61}[A-Za-z0-9])?"
_HOST_NAME = re.compile(rf"(?=.{{1,253}}$){_HOST_LABEL}(?:\.{_HOST_LABEL})*")


def check_listen_address(text: str) -> str | None:
    """Check an address to listen on.

    Returns:
        None if it can be one, else the rule that it breaks, to follow the name of a variable.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not re.fullmatch("[0-9]{1,5}", port) or not 1 <= int(port) <= 65535:
        return "must be HOST:PORT, :PORT or empty, with a port to 65535"
    if host.startswith("[") and host.endswith("]"):
        # What follows the percent sign is an interface.
        if not _is_address(socket.AF_INET6, host[1:-1].partition("%")[0]):
            return "must have an IPv6 address in its brackets"
    elif ":" in host:
        return "must have an IPv6 address in brackets"
    elif host and not _is_host(host):
        return "must begin with an address or a name of the machine that listens"
    return None


def _is_host(host: str) -> bool:
    if re.fullmatch("[0-9.]+", host):
        return _is_address(socket.AF_INET, host)
    return _HOST_NAME.fullmatch(host) is not None


def _is_address(family: int, text: str) -> bool:
    try:
        socket.inet_pton(family, text)
    except (OSError, ValueError):
        return False
    return True
