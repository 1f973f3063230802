"""Log lines about reconciles, on the logger ``opsdk.reconcile``. A broken log handler never fails a reconcile."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from opsdk.aio.containment import leaf_errors
from opsdk.base.durations import shown_seconds
from opsdk.errors import ConflictError
from opsdk.telemetry.describe import describe
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger("opsdk.reconcile")


logs_reconciles = partial(log.isEnabledFor, logging.DEBUG)
"""Whether `log_started` and `log_result` write lines: they need not be called if not."""


def log_started(causes: Sequence[object] = ()) -> None:
    """Log at DEBUG that a reconcile starts, and its causes."""
    log.debug("reconcile starts: %s", ", ".join(map(str, causes)) or "no cause recorded")


def log_result(result: object, seconds: float) -> None:
    """Log at DEBUG how a reconcile without an error ended, such as ``requeue after 30 s``."""
    log.debug("reconcile ended in %.3g s: %s", seconds, result, extra={"seconds": round(seconds, 6)})


def log_failure(error: BaseException, *, wait: float | None) -> None:
    """Log that a reconcile failed: with a traceback where the cause is a mistake in code, else in one line.

    A conflict is expected with concurrent writers, and the next reconcile reads the newer object: its level is INFO.

    Args:
        error: the exception of the reconciler.
        wait: seconds until the retry; None if there is no retry.
    """
    text, with_traceback = describe(error)
    extra = {"error": text}
    if wait is None:
        log.error("reconcile failed, not retried: %s", text, extra=extra, exc_info=error if with_traceback else None)
    elif _is_conflict(error):
        log.info("the object changed concurrently, retry in %s: %s", shown_seconds(wait), text, extra=extra)
    else:
        exc_info = error if with_traceback else None
        log.error("reconcile failed, retry in %s: %s", shown_seconds(wait), text, extra=extra, exc_info=exc_info)


def _is_conflict(error: BaseException) -> bool:
    """Whether the error is a conflict, or a group (from a TaskGroup) of conflicts only."""
    return all(isinstance(leaf, ConflictError) for leaf in leaf_errors(error))
