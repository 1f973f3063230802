"""Log records as lines of text or JSON. Both have the same time: that of the record, in UTC.

The JSON keys are those of controller-runtime's zap logger, so that queries for its logs work.

Upstream: sigs.k8s.io/controller-runtime/pkg/log/zap/zap.go, pkg/builder/controller.go
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from opsdk.aio.containment import contain
from opsdk.telemetry.describe import describe, encodable

# Attributes of every record. All others are fields that the caller passed as `extra`.
_RECORD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "taskName",
    "opsdk",
    "opsdk_context",
}
# Characters of a traceback: the text of an error stands in it whole. The middle is left out.
_MAX_TRACEBACK = 32_768
# zap's names of the levels.
_LEVELS = {"WARNING": "warn", "CRITICAL": "fatal"}


def render_fields(fields: Mapping[str, object]) -> str:
    """Return fields as text, each after a space. Values with spaces or quotes are quoted.

    >>> render_fields({"controller": "website", "cause": "update of Website default/site"})
    ' controller=website cause="update of Website default/site"'
    """
    return "".join(f" {key}={_quoted(value)}" for key, value in fields.items())


def _quoted(value: object) -> str:
    text = _printable(value)
    plain = text.isprintable() and not set(text) & set(" \"'=")
    return text if text and plain else json.dumps(text, ensure_ascii=False)


def _printable(value: object) -> str:
    """Return a value as text that UTF-8 can encode, also if its own ``__str__`` raises."""
    try:
        text = str(value)
    except BaseException as error:  # noqa: BLE001 - a value of the user may raise anything
        contain(error)
        text = f"<{type(value).__name__}: its text cannot be shown: {type(error).__name__}>"
    return encodable(text)


def timestamp(record: logging.LogRecord) -> str:
    """Return the record's time as RFC 3339 in UTC with milliseconds."""
    text = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00") + "Z"


def context_fields(record: logging.LogRecord) -> dict[str, object]:
    """Return the fields of `opsdk.telemetry.context.log_context` that the record carries."""
    return dict(getattr(record, "opsdk", None) or {})


def extra_fields(record: logging.LogRecord) -> dict[str, object]:
    """Return the fields that the caller passed as `extra`."""
    return {key: value for key, value in vars(record).items() if key not in _RECORD_ATTRIBUTES}


def plain_message(record: logging.LogRecord) -> str:
    """Return the message without the context that `opsdk.telemetry.context` appends to messages of opsdk."""
    return record.getMessage().removesuffix(str(getattr(record, "opsdk_context", "")))


class _Formatter(logging.Formatter):
    """Writes tracebacks of a limited length."""

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name of `logging`
        """Return the traceback; of a long one the first and the last part, so that the calls and the error stay."""
        text = super().formatException(ei)
        if (left := len(text) - _MAX_TRACEBACK) <= 0:
            return text
        half = _MAX_TRACEBACK // 2
        return f"{text[:half]}\n... {left} characters left out ...\n{text[-half:]}"


class TextFormatter(_Formatter):
    """``time level logger: message key=value ...``, then the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and the traceback on lines of its own."""
        # opsdk's own messages contain their fields.
        extra = {} if record.name.partition(".")[0] == "opsdk" else extra_fields(record)
        fields = render_fields({**extra, **context_fields(record)})
        head = f"{timestamp(record)} {record.levelname:<7} {record.name}:"
        lines = [f"{head} {plain_message(record)}{fields}"]
        if record.exc_info and record.exc_info[1] is not None:
            lines.append(self.formatException(record.exc_info))
        if record.stack_info:
            lines.append(self.formatStack(record.stack_info))
        return encodable("\n".join(lines))


class JsonFormatter(_Formatter):
    """One JSON object for each record, in one line.

    Keys: ``ts``, ``level``, ``logger``, ``msg``, the context (``controller``, ``namespace``, ...), the fields of
    `extra`, and for exceptions ``error`` and ``stacktrace``.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line. Values without a JSON form are written as their text."""
        context = context_fields(record)
        line: dict[str, object] = {
            "level": _LEVELS.get(record.levelname, record.levelname.lower()),
            "ts": timestamp(record),
            "logger": record.name,
            "msg": plain_message(record),
            **context,
        }
        if (kind := context.get("controllerKind")) and "name" in context:
            # controller-runtime writes the object under its kind too.
            line[str(kind)] = {"name": context["name"], "namespace": context.get("namespace", "")}
        for key, value in extra_fields(record).items():
            line.setdefault(key, value)
        if record.exc_info and record.exc_info[1] is not None:
            line.setdefault("error", describe(record.exc_info[1])[0])
            line["stacktrace"] = self.formatException(record.exc_info)
        elif record.stack_info:
            line["stacktrace"] = self.formatStack(record.stack_info)
        try:
            return msgspec.json.encode(line, enc_hook=_printable).decode()
        except (TypeError, ValueError, RecursionError):
            # A key is not a string, a string has a lone surrogate, or a value contains itself.
            return msgspec.json.encode({_printable(key): _printable(value) for key, value in line.items()}).decode()
