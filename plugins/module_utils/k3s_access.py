# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ask a k3s server what a joining node asks first: who it is, and whether it takes the token.

A node does the same, but tries again for ever and says so in its log only. See
https://docs.k3s.io/cli/token#tls-bootstrapping.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import re
import ssl
import time
from typing import Callable, NamedTuple, Sequence
from urllib.parse import urlsplit

# Only the holder of the right token is answered with something other than 401 or 403.
_PATHS = {"node": "/v1-k3s/client-ca.crt", "server": "/v1-k3s/encrypt/status"}

_FULL = re.compile(r"K10([0-9a-f]{64})::(.+)", re.ASCII)
_BOOTSTRAP = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}", re.ASCII)

# Results of X509_verify_cert in OpenSSL that speak of time, and of names and addresses.
_TIME_CODES = (9, 10)
_NAME_CODES = (62, 64)

#: What the answer of a server can be, the best first.
STATES = (
    "ok",
    "refused",
    "other_authority",
    "clock",
    "name",
    "certificate",
    "other",
    "unreachable",
)


class Token(NamedTuple):
    """A token: hash of the authority ("" in the short form) and the header that presents it."""

    authority: str
    header: str


class Answer(NamedTuple):
    """What one server answered: one of STATES, and the words that it was put in."""

    url: str
    state: str
    detail: str = ""


def read_token(text: str, user: str) -> Token:
    """Take a token apart; *user* is who presents one that names no user."""
    full = _FULL.fullmatch(text)
    authority, secret = full.groups() if full else ("", text)
    if _BOOTSTRAP.fullmatch(secret):
        return Token(authority, f"Bearer {secret}")
    if full and ":" in secret:
        secret = secret.split(":", 1)[1]
    credentials = base64.b64encode(f"{user}:{secret}".encode()).decode()
    return Token(authority, f"Basic {credentials}")


def ask(url: str, token: str, user: str, timeout: float) -> Answer:
    """Ask one server.

    Args:
        url: https://ADDRESS:PORT.
        token: in any of k3s's forms.
        user: node or server, what the host is to become.
        timeout: seconds for each of the two requests.
    """
    wanted = read_token(token, user)
    try:
        status, authority = _get(url, "/cacerts", _unverified(), timeout)
    except (OSError, http.client.HTTPException) as error:
        return Answer(url, "unreachable", _words(error))
    if status != http.client.OK or b"BEGIN CERTIFICATE" not in authority:
        return Answer(url, "other", f"HTTP status {status} and no certificate at /cacerts")
    if wanted.authority and wanted.authority != hashlib.sha256(authority).hexdigest():
        return Answer(url, "other_authority", "its certificate is not the one that the token names")
    try:
        context = _verified(authority.decode())
        status = _get(url, _PATHS[user], context, timeout, {"Authorization": wanted.header})[0]
    except ssl.SSLCertVerificationError as error:
        return Answer(url, judge_certificate(error.verify_code), error.verify_message)
    except (OSError, http.client.HTTPException, UnicodeDecodeError) as error:
        return Answer(url, "unreachable", _words(error))
    if status in (http.client.UNAUTHORIZED, http.client.FORBIDDEN):
        return Answer(url, "refused", f"HTTP status {status}")
    if status == http.client.SERVICE_UNAVAILABLE:
        return Answer(url, "unreachable", "it has not started yet")
    # Whoever does not know the question has not looked at the token either.
    if status == http.client.NOT_FOUND:
        return Answer(url, "other", f"HTTP status {status} at {_PATHS[user]}")
    return Answer(url, "ok")


def judge_certificate(code: int) -> str:
    """Tell which state a failed verification by OpenSSL is."""
    if code in _TIME_CODES:
        return "clock"
    return "name" if code in _NAME_CODES else "certificate"


def find(
    urls: Sequence[str],
    patience: float,
    ask_one: Callable[[str], Answer],
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Answer]:
    """Ask the servers in turn until one takes the token or the patience ends.

    What waiting does not heal ends the wait as well. Returns the last answers, the best first.
    """
    end = now() + patience
    while True:
        answers = []
        for url in urls:
            answers.append(ask_one(url))
            if answers[-1].state == "ok":
                break
        answers.sort(key=lambda answer: STATES.index(answer.state))
        if not answers or answers[0].state not in ("unreachable", "other") or now() >= end:
            return answers
        sleep(2)


def _get(
    url: str,
    path: str,
    context: ssl.SSLContext,
    timeout: float,
    headers: dict[str, str] | None = None,
) -> tuple[int, bytes]:
    parts = urlsplit(url)
    connection = http.client.HTTPSConnection(
        parts.hostname or "", parts.port or 443, timeout=timeout, context=context
    )
    try:
        connection.request("GET", path, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.read(1 << 20)
    finally:
        connection.close()


def _unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _verified(authority: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority)
    # On by default from Python 3.13 on; k3s itself does not ask for it.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _words(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error or type(error).__name__)
