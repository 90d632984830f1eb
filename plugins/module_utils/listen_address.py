# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses to listen on, written ADDRESS:PORT, localhost:PORT or :PORT.

Names would have to be looked up, which systemd does not do for sockets, and a name of the machine
may stand for any of its addresses.
"""

from __future__ import annotations

import re
import socket


def check_listen_address(text: str) -> str | None:
    """Check an address to listen on.

    Returns:
        None if it can be one, else the rule that it breaks, to follow the name of a variable.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not re.fullmatch("[0-9]{1,5}", port) or not 1 <= int(port) <= 65535:
        return "must be ADDRESS:PORT, :PORT or empty, with a port to 65535"
    if host.startswith("[") and host.endswith("]"):
        if not _is_address(socket.AF_INET6, host[1:-1]):
            return "must have an IPv6 address in its brackets, without a zone"
    elif ":" in host:
        return "must have an IPv6 address in brackets"
    elif host not in ("", "localhost") and not _is_address(socket.AF_INET, host):
        return "must begin with an address of the machine that listens, or localhost"
    return None


def split_listen_address(text: str) -> tuple[str, int]:
    """Address and port of what check_listen_address() accepts; no address means all of them."""
    host, _colon, port = text.rpartition(":")
    return "127.0.0.1" if host == "localhost" else host.strip("[]"), int(port)


def _is_address(family: int, text: str) -> bool:
    try:
        socket.inet_pton(family, text)
    except (OSError, ValueError):
        return False
    return True
