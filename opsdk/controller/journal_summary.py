"""What the journal says of a bad day: the keys that took the workers' time, and the last errors. Pure.

Both are computed from the records when they are shown, so they take no memory of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from opsdk.controller.journal import ReconcileRecord

# Rows of each summary.
_MAX_ROWS = 20
# Characters of an error.
_MAX_DETAIL = 1000
_ERROR = "error"


class _KeySummary(msgspec.Struct):
    """The reconciles of one key in the journal."""

    last: ReconcileRecord
    reconciles: int = 0
    errors: int = 0
    seconds: float = 0.0
    max_seconds: float = 0.0
    max_waited: float = 0.0
    requests: int = 0


def slowest_keys(records: Iterable[ReconcileRecord]) -> list[dict[str, object]]:
    """Return the twenty keys that took most time, the longest first.

    Args:
        records: the reconciles, oldest first.
    """
    summaries: dict[tuple[str, str, str], _KeySummary] = {}
    for record in records:
        if not record.reconcile_id:
            continue  # the change of a daemon
        summary = summaries.setdefault((record.controller, record.namespace, record.name), _KeySummary(record))
        summary.last = record
        summary.reconciles += 1
        summary.errors += record.result == _ERROR
        summary.seconds += record.seconds
        summary.max_seconds = max(summary.max_seconds, record.seconds)
        summary.max_waited = max(summary.max_waited, record.waited)
        summary.requests += len(record.requests) + record.more_requests
    slowest = sorted(summaries.values(), key=lambda summary: -summary.seconds)
    return [
        {
            **_key(summary.last),
            "reconciles": summary.reconciles,
            "errors": summary.errors,
            "seconds": summary.seconds,
            "max_seconds": summary.max_seconds,
            "max_waited": summary.max_waited,
            "requests": summary.requests,
            "last_result": summary.last.result,
        }
        for summary in slowest[:_MAX_ROWS]
    ]


def last_errors(records: Iterable[ReconcileRecord], now: datetime) -> list[dict[str, object]]:
    """Return the last error of each of the twenty keys that failed last, the newest first.

    Args:
        records: the reconciles, oldest first.
        now: the time.
    """
    last: dict[tuple[str, str, str], ReconcileRecord] = {}
    errors: dict[tuple[str, str, str], int] = {}
    recovered: set[tuple[str, str, str]] = set()
    for record in records:
        if not record.reconcile_id:
            continue
        key = record.controller, record.namespace, record.name
        if record.result != _ERROR:
            recovered.add(key)
            continue
        last.pop(key, None)  # so that the dict is in the order of the last errors
        last[key] = record
        errors[key] = errors.get(key, 0) + 1
        recovered.discard(key)
    return [
        {
            **_key(record),
            "seconds_ago": max((now - record.started_at).total_seconds() - record.seconds, 0.0),
            "errors": errors[key],
            "attempt": record.attempt,
            "recovered": key in recovered,
            "detail": record.detail[:_MAX_DETAIL],
            "reconcile_id": record.reconcile_id,
        }
        for key, record in list(reversed(last.items()))[:_MAX_ROWS]
    ]


def _key(record: ReconcileRecord) -> dict[str, object]:
    return {
        "controller": record.controller,
        "kind": record.kind,
        "namespace": record.namespace,
        "name": record.name,
    }
