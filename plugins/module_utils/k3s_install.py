# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What there is of k3s on a host: its configuration, token, files and service."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any, Iterable

from .board_files import BoardFiles

# A configuration with all certificates of a company in it is far below this.
_LARGEST = 1 << 20


def read_text(path: str) -> str:
    """Content of a file; empty where there is none that can be read."""
    return BoardFiles().text(path, _LARGEST) or ""


def read_config(path: str) -> dict[str, Any]:
    """What config.yaml says of the way to the cluster, whoever wrote it; values of nothing else."""
    text = read_text(path)
    server = re.search(r"(?m)^server:.*?(https://[][0-9A-Za-z.:_-]+)", text)
    return {
        "server": server[1] if server else "",
        "cluster_init": re.search(r"(?m)^cluster-init: *true", text) is not None,
        "keys": sorted(set(_KEY.findall(_uncommented(text)))),
    }


# From the beginning of a word, so that a long one is looked at once. A plus sign appends to a list.
_KEY = re.compile(r"(?<![a-z0-9-])([a-z][a-z0-9-]*)[+]?[\"']? *:")


def _uncommented(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))


def compare_token(path: str, token: str) -> str:
    """Tell whether a file holds *token*: "same", "other", or "absent" where it holds none.

    k3s keeps the token in its full form, with the hash of the certificate authority before it:
    https://docs.k3s.io/cli/token#token-format
    """
    text = read_text(path).strip()
    if not text:
        return "absent"
    return "same" if token in (text, strip_authority(text)) else "other"


def strip_authority(token: str) -> str:
    """The short form of a token.

    >>> strip_authority("K10ab12::server:secret"), strip_authority("secret")
    ('secret', 'secret')
    """
    return re.sub("^K10[0-9a-f]*::[^:]*:", "", token)


def digest_file(path: str) -> str | None:
    """SHA-256 of a file; None where there is none that can be read."""
    if not Path(path).is_file():
        return None
    digest = hashlib.sha256()
    try:
        with Path(path).open("rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
    except OSError:
        return None
    return digest.hexdigest()


def find_younger(paths: Iterable[str], started: str) -> list[str]:
    """Those of *paths* that were written after *started*, a mark that systemd sets at each start.

    Links count by their own time. Empty where there is no mark: nothing was started.
    """
    mark = _written(started)
    return [] if mark is None else [path for path in paths if (_written(path) or 0) > mark]


def _written(path: str) -> int | None:
    try:
        return Path(path).lstat().st_mtime_ns
    except (OSError, ValueError):  # a path with a NUL is none
        return None
