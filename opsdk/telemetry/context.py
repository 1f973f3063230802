"""What a log line is about, carried by context variables.

>>> with log_context(controller="website", namespace="default"):
...     sorted(current())
['controller', 'namespace']
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_FIELDS: ContextVar[Mapping[str, str]] = ContextVar("opsdk_log_fields")


def current() -> Mapping[str, str]:
    """The fields of the running task."""
    return _FIELDS.get({})


@contextmanager
def log_context(**fields: str) -> Iterator[None]:
    """Add fields to every log line inside the block, tasks started in it included."""
    token = _FIELDS.set({**current(), **fields})
    try:
        yield
    finally:
        _FIELDS.reset(token)


class ContextFilter(logging.Filter):
    """Puts the fields on log records: each as an attribute, and all of them as ``context``, ready to print."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields; never drops a record."""
        fields = current()
        record.opsdk = dict(fields)
        record.context = "".join(f" {k}={v}" for k, v in fields.items())
        return True


def setup_logging(level: int | str = logging.INFO) -> None:
    """A readable default for operators: time, level, logger, message, and what it is about. Call it once, in main."""
    handler = logging.StreamHandler()
    handler.addFilter(ContextFilter())
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s%(context)s"))
    logging.basicConfig(level=level, handlers=[handler])
