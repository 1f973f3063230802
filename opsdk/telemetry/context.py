"""Fields of log lines (controller, namespace, name), carried by context variables.

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
    """Return the fields of the running task."""
    return _FIELDS.get({})


@contextmanager
def log_context(**fields: str) -> Iterator[None]:
    """Add fields to every log line inside the block, including lines of tasks that the block starts."""
    token = _FIELDS.set({**current(), **fields})
    try:
        yield
    finally:
        _FIELDS.reset(token)


class ContextFilter(logging.Filter):
    """Adds the fields to log records: ``opsdk`` as a dict, and ``context`` as text to print."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields. Always returns True."""
        fields = current()
        record.opsdk = dict(fields)
        record.context = "".join(f" {k}={v}" for k, v in fields.items())
        return True


def setup_logging(level: int | str = logging.INFO) -> None:
    """Configure the root logger with time, level, logger, message and log fields. Call it once, in ``main``."""
    handler = logging.StreamHandler()
    handler.addFilter(ContextFilter())
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s%(context)s"))
    logging.basicConfig(level=level, handlers=[handler])
