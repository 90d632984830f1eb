# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Logging: one line for each event, as text for people or as JSON for collectors."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from typing import NamedTuple, TextIO

_LOGGER = logging.getLogger("rknpu_plugin")
# Priorities of syslog, which journald reads at the start of a line: sd-daemon(3).
_PRIORITIES = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}


# What no line shows need not be found out for each event: "Optimization" of Python's Logging HOWTO.
logging.logThreads = False
logging.logProcesses = False
logging.logMultiprocessing = False
logging._srcfile = None


class LastError(NamedTuple):
    """The latest warning or error: its message and when it happened, in seconds since 1970."""

    message: str
    time: float


class EventLog:
    """Writes events: a fixed message for searching, and fields for what differs."""

    def debug(self, message: str, **fields: object) -> None:
        _LOGGER.debug(message, extra={"fields": fields})

    def info(self, message: str, **fields: object) -> None:
        _LOGGER.info(message, extra={"fields": fields})

    def warning(self, message: str, **fields: object) -> None:
        _LOGGER.warning(message, extra={"fields": fields})

    def error(self, message: str, **fields: object) -> None:
        _LOGGER.error(message, extra={"fields": fields})

    def failure(self, message: str, **fields: object) -> None:
        """An exception nobody expected: the traceback goes with it, on the same line."""
        _LOGGER.exception(message, extra={"fields": fields})


log = EventLog()


class _Formatter(logging.Formatter):
    def __init__(self, common: dict[str, object]) -> None:
        super().__init__()
        self._common = common

    def fields(self, record: logging.LogRecord) -> dict[str, object]:
        own: dict[str, object] = getattr(record, "fields", {})
        fields = {**own, **{name: value for name, value in self._common.items() if name not in own}}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return {name: value for name, value in fields.items() if value is not None}


class JsonFormatter(_Formatter):
    """{"time": ..., "level": ..., "message": ..., fields}"""

    def format(self, record: logging.LogRecord) -> str:
        event = {
            "time": _timestamp(record),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **self.fields(record),
        }
        return _one_line(json.dumps(event, ensure_ascii=False, default=str), event)


class TextFormatter(_Formatter):
    """TIME LEVEL message key=value ..., without time but with priority where journald reads it."""

    def __init__(self, common: dict[str, object], journal: bool) -> None:
        super().__init__(common)
        self._journal = journal

    def format(self, record: logging.LogRecord) -> str:
        if self._journal:
            head = f"<{_PRIORITIES.get(record.levelname, 6)}>"
        else:
            head = f"{_timestamp(record)} {record.levelname:<7} "
        pairs = [f"{name}={_quote(value)}" for name, value in self.fields(record).items()]
        return head + " ".join([_one_line(record.getMessage()), *pairs])


def _timestamp(record: logging.LogRecord) -> str:
    # UTC, so that the logs of all boards can be laid side by side.
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"


def _quote(value: object) -> str:
    text = str(value)
    if text and not set(' "=') & set(text):
        return _one_line(text)
    return _one_line(json.dumps(text, ensure_ascii=False), text)


def _one_line(text: str, value: object = None) -> str:
    """*text*, or JSON of *value* in ASCII where it has what ends lines or steers terminals."""
    return text if text.isprintable() else json.dumps(value or text, default=str)


class _LastErrorHandler(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last: LastError | None = None

    def emit(self, record: logging.LogRecord) -> None:
        fields: dict[str, object] = getattr(record, "fields", {})
        reason = fields.get("reason")
        message = record.getMessage() if reason is None else f"{record.getMessage()}: {reason}"
        self.last = LastError(message, record.created)


_last_error = _LastErrorHandler()


def last_error() -> LastError | None:
    """The latest warning or error of this process, for metrics."""
    return _last_error.last


def set_up_logging(
    log_format: str, log_level: str, resource: str | None = None, stream: TextIO | None = None
) -> None:
    """Send events to *stream* (standard error), each with the *resource*; may be called again."""
    stream = stream or sys.stderr
    common: dict[str, object] = {"resource": resource}
    handler = logging.StreamHandler(stream)
    if log_format == "json":
        handler.setFormatter(JsonFormatter(common))
    else:
        handler.setFormatter(TextFormatter(common, journal=_is_journal(stream)))
    handler.setLevel(log_level.upper())
    _LOGGER.handlers[:] = [handler, _last_error]
    # The last error is remembered whatever is written.
    _LOGGER.setLevel(min(handler.level, _last_error.level))
    _LOGGER.propagate = False
    threading.excepthook = _log_thread_failure


def _is_journal(stream: TextIO) -> bool:
    """Whether *stream* leads to journald: JOURNAL_STREAM in systemd.exec(5)."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def _log_thread_failure(failure: threading.ExceptHookArgs) -> None:
    if failure.exc_value is not None:
        details = (failure.exc_type, failure.exc_value, failure.exc_traceback)
        _LOGGER.error("a thread failed", exc_info=details, extra={"fields": {}})
