"""What a replay prints. Pure."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from opsdk.base.cause import ReconcileCause
from opsdk.base.version import VERSION
from opsdk.client.activity import RequestSent
from opsdk.controller.journal import ReconcileRecord
from opsdk.engine.replay.run import ReplayOutcome
from opsdk.engine.replay.timeline import Timeline, describe
from opsdk.recording.loop import EPOCH
from opsdk.structured_merge.value import JsonObject

__all__ = [
    "causes_backwards",
    "differences_of",
    "heading",
    "outcome_json",
    "outcome_lines",
    "reconcile_line",
    "wall_at",
]

_MAX_SHOWN: Final = 5
_MAX_DEPTH: Final = 10
"""Causes that are followed back: a loop of two writers has no first one."""


def wall_at(timeline: Timeline, seconds: float) -> datetime:
    """Return the UTC time of a time of the event loop."""
    return EPOCH + timedelta(microseconds=timeline.began.wall, seconds=seconds)


def heading(timeline: Timeline) -> str:
    """Return the operator of a recording, its time and its versions."""
    began = timeline.began
    start = wall_at(timeline, began.time)
    seconds = timeline.time_of(timeline.last_iteration) - began.time
    return (
        f"{began.operator} from {start.isoformat(timespec='milliseconds')}, {seconds:.1f} s, "
        f"opsdk {began.opsdk} on Python {began.python}"
    )


def differences_of(timeline: Timeline, code: str) -> Iterator[str]:
    """Yield how this process differs from the recorded one.

    Args:
        timeline: of the recording.
        code: digest of the code that the replay runs; empty if it is not known.
    """
    began = timeline.began
    if began.opsdk != VERSION:
        yield f"recorded with opsdk {began.opsdk}, replayed with {VERSION}: requests may differ"
    if began.python != platform.python_version():
        yield f"recorded with Python {began.python}, replayed with {platform.python_version()}: requests may differ"
    if began.code and code and began.code != code:
        yield "recorded with other code of the operator: requests may differ"
    if timeline.problem:
        yield timeline.problem


def place_line(timeline: Timeline, outcome: ReplayOutcome, *, reconciles: int, writes: int) -> str:
    """Return where a replay stands."""
    here = wall_at(timeline, outcome.seconds).isoformat(timespec="milliseconds")
    place = "the end of the recording" if outcome.is_over else here
    return f"at {place}: {reconciles:,} reconciles, {writes:,} writes"


def outcome_lines(outcome: ReplayOutcome, reconciles: Sequence[ReconcileRecord]) -> Iterator[str]:
    """Yield how far a replay is identical with its recording, and how the reconciles ended."""
    if outcome.is_identical:
        yield f"all {outcome.requests:,} requests are identical"
    else:
        yield f"{outcome.identical:,} of {outcome.requests:,} requests are identical"
    for divergence in outcome.divergences[:_MAX_SHOWN]:
        yield f"  {divergence.time:.6f} s {divergence}"
    for request in outcome.unsent[:_MAX_SHOWN]:
        yield f"  not sent: {describe(request)}"
    more = len(outcome.divergences) + len(outcome.unsent)
    more -= len(outcome.divergences[:_MAX_SHOWN]) + len(outcome.unsent[:_MAX_SHOWN])
    if more:
        yield f"  and {more} more"
    counts = Counter(record.result for record in reconciles)
    results = ", ".join(f"{number:,} {result}" for result, number in counts.most_common())
    yield f"{len(reconciles):,} reconciles{': ' if results else ''}{results}"
    if outcome.failure:
        yield f"the operator ended: {outcome.failure}"
    yield from _errors(reconciles)


def _errors(reconciles: Sequence[ReconcileRecord]) -> Iterator[str]:
    """Yield the last failed reconcile of each object, the newest last."""
    failed: dict[tuple[str, str, str], tuple[int, ReconcileRecord, int]] = {}
    for number, record in enumerate(reconciles, 1):
        if record.result == "error":
            key = (record.controller, record.namespace, record.name)
            _, _, count = failed.pop(key, (0, record, 0))
            failed[key] = (number, record, count + 1)
    if failed:
        yield "errors:"
    for number, record, count in [*failed.values()][-_MAX_SHOWN:]:
        times = f" ({count} times)" if count > 1 else ""
        yield f"  {reconcile_line(number, record)}{times}"


def reconcile_line(number: int, record: ReconcileRecord) -> str:
    """Return a reconcile in one line."""
    key = f"{record.namespace}/{record.name}" if record.namespace else record.name
    detail = f": {record.detail}" if record.detail else ""
    writes = sum(request.verb not in ("get", "list") for request in record.requests)
    written = f", {writes} writes" if writes else ""
    return f"#{number} {_clock(record.started_at)} {record.controller} {key}: {record.result}{detail}{written}"


def causes_backwards(reconciles: Sequence[ReconcileRecord], record: ReconcileRecord) -> Iterator[str]:
    """Yield why a reconcile ran: its causes, the writes behind them, and so on.

    Args:
        reconciles: that have ended, in order; `record` is one of them.
        record: whose causes are followed back.
    """
    writers: dict[str, tuple[int, ReconcileRecord, RequestSent]] = {}
    for number, other in enumerate(reconciles, 1):
        for request in other.requests:
            if request.resource_version:
                writers[request.resource_version] = (number, other, request)
    yield from _causes(record, writers, depth=1)


def _causes(
    record: ReconcileRecord, writers: dict[str, tuple[int, ReconcileRecord, RequestSent]], depth: int
) -> Iterator[str]:
    for cause in record.causes:
        yield f"{'  ' * depth}{cause}"
        writer = writers.get(cause.resource_version) if cause.resource_version else None
        if writer is None:
            if _is_foreign(cause):
                yield f"{'  ' * (depth + 1)}written by another client"
            continue
        number, other, request = writer
        yield f"{'  ' * (depth + 1)}{request}"
        yield f"{'  ' * (depth + 1)}by {reconcile_line(number, other)}"
        if depth < _MAX_DEPTH and other is not record:
            yield from _causes(other, writers, depth + 2)


def _is_foreign(cause: ReconcileCause) -> bool:
    return bool(cause.event) and not cause.own and not cause.initial and cause.event != "resync"


def _clock(time: datetime) -> str:
    return time.strftime("%H:%M:%S.%f")[:-3]


def outcome_json(outcome: ReplayOutcome, reconciles: Sequence[ReconcileRecord]) -> JsonObject:
    """Return an outcome for programs."""
    return {
        "requests": outcome.requests,
        "identical": outcome.identical,
        "divergences": [str(divergence) for divergence in outcome.divergences],
        "unsent": [describe(request) for request in outcome.unsent],
        "failure": outcome.failure,
        "isOver": outcome.is_over,
        "seconds": outcome.seconds,
        "reconciles": len(reconciles),
        "results": dict(Counter(record.result for record in reconciles)),
    }
