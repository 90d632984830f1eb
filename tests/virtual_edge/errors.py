"""Errors that end a command with one sentence for its user, never a traceback."""

from __future__ import annotations


class EdgeError(Exception):
    """What went wrong and what to do about it, in one sentence. Exit code 1."""

    exit_code = 1


class RefusedError(EdgeError):
    """A setting or this machine does not allow it; nothing was changed. Exit code 2."""

    exit_code = 2
