"""Fields of log lines (controller, namespace, name), carried by context variables.

>>> with log_context(controller="website", namespace="default"):
...     sorted(current())
['controller', 'namespace']

Every record gets the fields, whatever handlers and formats the program uses (see `add_context_to_records`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from typing import Any, Literal, TextIO

from opsdk.errors import UsageError
from opsdk.telemetry.formats import JsonFormatter, TextFormatter, render_fields
from opsdk.telemetry.missing_awaits import log_missing_awaits

__all__ = ["log_context", "setup_logging"]

_FieldSource = Mapping[str, str] | Callable[[], Mapping[str, str]]
# The fields of a block, and those of the blocks around it.
_FIELDS: ContextVar[tuple[_FieldSource, Any] | None] = ContextVar("opsdk_log_fields", default=None)


def current() -> Mapping[str, str]:
    """Return the fields of the running task."""
    sources = []
    level = _FIELDS.get()
    while level is not None:
        source, level = level
        sources.append(source() if callable(source) else source)
    return {name: value for source in reversed(sources) for name, value in source.items()}


class LogContext:
    """A block whose log lines carry fields. See `log_context`.

    Args:
        fields: the fields, or a function that returns them. It is called when a line is logged, so a block without log
            lines costs nothing.
    """

    __slots__ = ("_fields", "_token")

    def __init__(self, fields: _FieldSource) -> None:
        self._fields = fields
        self._token: Token[tuple[_FieldSource, Any] | None] | None = None

    def __enter__(self) -> None:
        self._token = _FIELDS.set((self._fields, _FIELDS.get()))

    def __exit__(self, *_: object) -> None:
        assert self._token is not None
        _FIELDS.reset(self._token)


def log_context(**fields: str) -> LogContext:
    """Add fields to every log line inside the block, including lines of tasks that the block starts."""
    return LogContext(fields)


def add_context_to_records() -> None:
    """Add the fields to every later log record of this process. Idempotent; the manager calls it.

    ``record.opsdk`` is a dict, and ``record.opsdk_context`` is a string, for a format such as
    ``"%(message)s%(opsdk_context)s"``. Messages of opsdk's own loggers end with this string, so that handlers and
    formats of the program show it too. Messages of other loggers stay unchanged.
    """
    inner = logging.getLogRecordFactory()
    if getattr(inner, "adds_opsdk_context", False):
        return

    def make(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record: logging.LogRecord = inner(*args, **kwargs)
        # The program may have wrapped this factory in another one, which was then wrapped again.
        if not hasattr(record, "opsdk"):
            fields = current()
            record.opsdk = dict(fields)
            record.opsdk_context = text = render_fields(fields)
            if text and record.name.partition(".")[0] == "opsdk":
                _append(record, text)
        return record

    make.adds_opsdk_context = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(make)


def _append(record: logging.LogRecord, text: str) -> None:
    """Append text to the message as an argument: error trackers group records by their message template."""
    # Without arguments, a percent sign is not a placeholder.
    message = str(record.msg) if record.args else str(record.msg).replace("%", "%%")
    # `LogRecord` unpacks a single argument that is a dict.
    args = record.args if isinstance(record.args, tuple) else (record.args,) if record.args else ()
    record.msg, record.args = f"{message}%s", (*args, text)


def setup_logging(
    level: int | str = logging.INFO,
    format: Literal["text", "json"] = "text",
    *,
    levels: Mapping[str, int | str] | None = None,
    stream: TextIO | None = None,
) -> None:
    """Configure the root logger. Call it once, in ``main``. A root logger that has handlers keeps them.

    Calls of coroutine functions without ``await`` are logged as errors.

    Args:
        level: of the root logger.
        format: ``text`` writes time, level, logger, message and fields; ``json`` writes one JSON object per line.
        levels: of single loggers, such as ``{"opsdk.requests": "DEBUG"}`` for a line for each request.
        stream: where the lines go; default: stderr.

    Raises:
        UsageError: the format or a level is unknown.
    """
    formatters: dict[str, type[logging.Formatter]] = {"text": TextFormatter, "json": JsonFormatter}
    if format not in formatters:
        raise UsageError(f"the log format {format!r} is unknown: use 'text' or 'json'")
    try:
        handler = logging.StreamHandler(stream)
        handler.setFormatter(formatters[format]())
        logging.basicConfig(level=level, handlers=[handler])
        for name, value in (levels or {}).items():
            logging.getLogger(name).setLevel(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{error}: use a level such as 'DEBUG' or 'INFO'") from error
    add_context_to_records()
    log_missing_awaits()
