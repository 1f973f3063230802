"""What a replay prints. Pure."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.base.cause import ReconcileCause
from opsdk.base.version import VERSION
from opsdk.client.activity import RequestSent
from opsdk.controller.journal import ReconcileRecord
from opsdk.engine.replay.run import PlaceKind, ReplayOutcome, ReplayPlace
from opsdk.engine.replay.timeline import Timeline, describe
from opsdk.recording.loop import EPOCH
from opsdk.recording.unrecorded import UNRECORDED_ADVICE
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
_RETRY: Final = "retry"
"""The source of the cause of a retry, see `ReconcileCause`."""
_MAX_DEPTH: Final = 10
"""Causes that are followed back: a loop of two writers has no first one."""


def wall_at(timeline: Timeline, seconds: float) -> datetime:
    """Return the UTC time of a time of the event loop."""
    return EPOCH + timedelta(microseconds=timeline.start_wall, seconds=seconds)


def heading(timeline: Timeline) -> str:
    """Return the operator of a recording, its time and its versions."""
    began = timeline.began
    start = wall_at(timeline, timeline.start_time)
    seconds = timeline.time_of(timeline.last_iteration) - timeline.start_time
    place = "" if timeline.checkpoint is None else "a checkpoint at "
    return (
        f"{began.operator} from {place}{start.isoformat(timespec='milliseconds')}, {seconds:.1f} s, "
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
    if began.unrecorded:
        yield f"not in the recording, so requests may differ: {', '.join(began.unrecorded)}; {UNRECORDED_ADVICE}"
    if timeline.problem:
        yield timeline.problem


def place_line(timeline: Timeline, outcome: ReplayOutcome, target: ReplayPlace, *, reconciles: int, writes: int) -> str:
    """Return where a replay stands, and that the recording ends before its target."""
    here = wall_at(timeline, outcome.seconds).isoformat(timespec="milliseconds")
    place = "the end of the recording" if outcome.is_over else here
    missing = ""
    if outcome.is_over:
        missing = _missing_place(timeline, outcome, target, reconciles=reconciles, writes=writes)
    return f"at {place}: {reconciles:,} reconciles, {writes:,} writes{missing}"


def _missing_place(
    timeline: Timeline, outcome: ReplayOutcome, target: ReplayPlace, *, reconciles: int, writes: int
) -> str:
    """Return that a recording, which is over, does not have a place; empty if it has."""
    if target.kind is PlaceKind.RECONCILE and reconciles < target.number:
        return f"; there is no reconcile #{target.number:.0f}"
    if target.kind is PlaceKind.WRITE and writes < target.number:
        return f"; there is no write #{target.number:.0f}"
    if target.kind is PlaceKind.TIME and outcome.seconds < target.number:
        end = wall_at(timeline, outcome.seconds).isoformat(timespec="milliseconds")
        return f"; it ended at {end}, before that time"
    return ""


def outcome_lines(outcome: ReplayOutcome, reconciles: Sequence[ReconcileRecord]) -> Iterator[str]:
    """Yield how far a replay is identical with its recording, and how the reconciles ended."""
    if outcome.is_identical:
        yield f"all {outcome.requests:,} requests are identical"
    else:
        yield f"{outcome.identical:,} of {outcome.requests:,} requests are identical"
    for divergence in outcome.divergences[:_MAX_SHOWN]:
        yield f"  {divergence.time:.6f} s {divergence}"
        yield from (f"    {detail}" for detail in divergence.details)
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
    failed: dict[tuple[str, str, str], list[int]] = {}
    for number, record in enumerate(reconciles, 1):
        if record.result == "error":
            key = (record.controller, record.namespace, record.name)
            failed[key] = [*failed.pop(key, ()), number]
    if failed:
        yield "errors:"
    for numbers in [*failed.values()][-_MAX_SHOWN:]:
        times = f" ({len(numbers)} times, the first is #{numbers[0]})" if len(numbers) > 1 else ""
        yield f"  {reconcile_line(numbers[-1], reconciles[numbers[-1] - 1])}{times}"


def reconcile_line(number: int, record: ReconcileRecord) -> str:
    """Return a reconcile in one line."""
    key = ObjectKey(record.namespace, record.name)
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
    yield from _History(reconciles).causes(record, depth=1)


class _History:
    """The reconciles of a recording, by what they wrote."""

    def __init__(self, reconciles: Sequence[ReconcileRecord]) -> None:
        self._reconciles = reconciles
        self._writers: dict[str, tuple[int, RequestSent]] = {}
        for number, record in enumerate(reconciles, 1):
            for request in record.requests:
                if request.resource_version:
                    self._writers[request.resource_version] = (number, request)

    def causes(self, record: ReconcileRecord, depth: int) -> Iterator[str]:
        """Yield the causes of a reconcile, indented by their depth."""
        if depth > 2 * _MAX_DEPTH:
            return
        indent = "  " * depth
        for cause in record.causes:
            yield f"{indent}{cause}"
            if cause.source == _RETRY:
                yield from self._first_attempt(record, depth)
            elif (writer := self._writers.get(cause.resource_version)) is not None:
                number, request = writer
                yield f"{indent}  {request}"
                yield f"{indent}  by {reconcile_line(number, self._reconciles[number - 1])}"
                yield from self.causes(self._reconciles[number - 1], depth + 2)
            elif _is_foreign(cause):
                yield f"{indent}  written by {_writer(record, cause) or 'another client'}"

    def _first_attempt(self, record: ReconcileRecord, depth: int) -> Iterator[str]:
        """Yield the first of the failed attempts before a retry, and its causes."""
        number = self._reconciles.index(record) + 1
        first = 0
        for earlier in range(number - 1, 0, -1):
            other = self._reconciles[earlier - 1]
            if (other.controller, other.namespace, other.name) == (record.controller, record.namespace, record.name):
                first = earlier
                if other.attempt == 0:
                    break
        if first:
            attempt = self._reconciles[first - 1]
            yield f"{'  ' * depth}  first failed in {reconcile_line(first, attempt)}"
            yield from self.causes(attempt, depth + 2)


def _is_foreign(cause: ReconcileCause) -> bool:
    return bool(cause.event) and not cause.own and not cause.initial and cause.event != "resync"


def _writer(record: ReconcileRecord, cause: ReconcileCause) -> str:
    """Return the field manager of the last change of the object that a cause names; empty if it is not known."""
    for read in record.reads:
        if read.data is not None and (read.key, read.resource_version) == (cause.key, cause.resource_version):
            fields = msgspec.json.decode(read.data).get("metadata", {}).get("managedFields", ())
            newest: JsonObject = max(fields, key=lambda entry: str(entry.get("time", "")), default={})
            return str(newest.get("manager", ""))
    return ""


def _clock(time: datetime) -> str:
    return time.strftime("%H:%M:%S.%f")[:-3]


def outcome_json(outcome: ReplayOutcome, reconciles: Sequence[ReconcileRecord]) -> JsonObject:
    """Return an outcome for programs."""
    return {
        "requests": outcome.requests,
        "identical": outcome.identical,
        "divergences": ["; ".join((str(each), *each.details)) for each in outcome.divergences],
        "unsent": [describe(request) for request in outcome.unsent],
        "failure": outcome.failure,
        "isOver": outcome.is_over,
        "seconds": outcome.seconds,
        "reconciles": len(reconciles),
        "results": dict(Counter(record.result for record in reconciles)),
    }
