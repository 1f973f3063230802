"""A log line at DEBUG for each attempt of a request, on the logger ``opsdk.requests``."""

from __future__ import annotations

import logging
from functools import partial

from opsdk.telemetry.describe import describe
from opsdk.telemetry.records import Requested
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger("opsdk.requests")


logs_requests = partial(log.isEnabledFor, logging.DEBUG)
"""Whether `log_request` writes lines: it need not be called if not."""


def log_request(record: Requested) -> None:
    """Log verb, resource, key, status and seconds. Query, headers and body are never logged."""
    if record.request is None:
        return
    outcome = str(record.status)
    if record.error is not None:
        outcome = f"no response ({describe(record.error)[0].removeprefix(f'{record.request}: ')})"
    retry = f", retry {record.attempt}" if record.attempt else ""
    fields = {
        "verb": record.request.verb,
        "resource": record.request.group_resource or record.request.path,
        "key": record.request.key,
        "status": record.status,
        "seconds": round(record.seconds, 6),
    }
    log.debug("%s: %s in %.3f s%s", record.request, outcome, record.seconds, retry, extra=fields)
