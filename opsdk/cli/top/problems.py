"""What is wrong with an operator, the worst first. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, IntEnum

import msgspec

from opsdk.cli.top.formats import duration, error_text, short_place, size
from opsdk.cli.top.state import CacheRow, ControllerSummary, RecordingRow, TopState
from opsdk.cli.top.views import TopView

# A reconcile that runs for longer is named; the operator's log names it then, too.
STUCK_SECONDS = 60.0
# A ready request that waits for longer needs more workers, or faster reconciles.
_WAITING_SECONDS = 30.0
# Attempts after which a request is not expected to succeed by itself.
MANY_ATTEMPTS = 5
# A key that failed within this time, and has not recovered, is a problem.
_RECENT_SECONDS = 600.0
# Problems of one sort that are named one by one.
_MAX_NAMED = 3


class ProblemLevel(IntEnum):
    """How bad a problem is."""

    ERROR = 0
    WARNING = 1
    INFO = 2
    """Worth knowing; not a reason for the exit status of ``--once``."""


class ProblemSubject(Enum):
    """The sort of a problem; sorts of one level are in this order."""

    STOPPING = "stopping"
    CACHE = "cache"
    RECORDING = "recording"
    STUCK = "stuck"
    RETRIES = "retries"
    HOT_LOOP = "hot-loop"
    ERROR = "error"
    CONTROLLER = "controller"
    QUEUE = "queue"
    SHARD = "shard"
    PAUSE = "pause"
    REPLICA = "replica"


class TopProblem(msgspec.Struct, frozen=True):
    """One problem.

    Attributes:
        level: see `ProblemLevel`.
        subject: its sort.
        text: a sentence in one line.
        view: where the console shows more.
    """

    level: ProblemLevel
    subject: ProblemSubject
    text: str
    view: TopView


def problems_of(state: TopState) -> list[TopProblem]:
    """Return the problems, the worst first."""
    order = list(ProblemSubject)
    every = (
        *_replica(state),
        *_caches(state),
        *_stuck(state),
        *_failures(state),
        *_controllers(state),
        *_shards(state),
        *_recording(state.recording),
    )
    return sorted(every, key=lambda problem: (problem.level, order.index(problem.subject)))


def _replica(state: TopState) -> Iterator[TopProblem]:
    leadership = state.leadership
    if leadership.state in ("stopping", "stopped"):
        yield TopProblem(
            ProblemLevel.WARNING,
            ProblemSubject.STOPPING,
            f"the operator is {leadership.state}",
            TopView.LEASES,
        )
    if state.restarted:
        yield TopProblem(
            ProblemLevel.WARNING,
            ProblemSubject.REPLICA,
            "the operator has restarted",
            TopView.LEASES,
        )
    if leadership.election and not leadership.leading:
        holder = f"{leadership.holder} holds" if leadership.holder else "no replica holds"
        text = f"this replica is a standby; {holder} the lease {leadership.lease}"
        level = ProblemLevel.INFO if leadership.holder else ProblemLevel.WARNING
        yield TopProblem(level, ProblemSubject.REPLICA, text, TopView.LEASES)
    if state.missing:
        text = f"the operator serves no page {', '.join(state.missing)}: its opsdk is {state.process.opsdk or 'older'}"
        yield TopProblem(ProblemLevel.INFO, ProblemSubject.REPLICA, text, TopView.CONTROLLERS)


def _caches(state: TopState) -> Iterator[TopProblem]:
    for cache in state.caches:
        if (text := _cache_text(cache)) and cache.state != "current":
            yield TopProblem(ProblemLevel.ERROR, ProblemSubject.CACHE, text, TopView.CACHES)
        elif text:
            yield TopProblem(ProblemLevel.WARNING, ProblemSubject.CACHE, text, TopView.CACHES)


def _cache_text(cache: CacheRow) -> str:
    """Return what is wrong with a cache; empty if nothing is."""
    name = f"cache {cache.cluster}{': ' if cache.cluster else ''}{cache.name}"
    reason = f": {cache.last_error}" if cache.last_error else ""
    if cache.state == "stale":
        return f"{name} is stale, without a watch for {duration(cache.seconds_without_watch)}{reason}"
    if cache.state != "current":
        return f"{name} is {cache.state}{reason}"
    if cache.failing_functions:
        return f"{name}: {cache.failing_functions[0]}"
    return f"{name}: {cache.undecodable} objects do not decode" if cache.undecodable else ""


def _stuck(state: TopState) -> Iterator[TopProblem]:
    stuck = sorted((row for row in state.running if row.seconds >= STUCK_SECONDS), key=lambda row: -row.seconds)
    for row in stuck[:_MAX_NAMED]:
        where = f" in {short_place(row.place)}" if row.place else ""
        text = f"{row.controller} {row.key} runs for {duration(row.seconds)}{where}"
        yield TopProblem(ProblemLevel.ERROR, ProblemSubject.STUCK, text, TopView.RUNNING)
    if len(stuck) > _MAX_NAMED:
        text = f"{len(stuck) - _MAX_NAMED} more reconciles run for over {duration(STUCK_SECONDS)}"
        yield TopProblem(ProblemLevel.ERROR, ProblemSubject.STUCK, text, TopView.RUNNING)


def _failures(state: TopState) -> Iterator[TopProblem]:
    """Yield the keys that keep failing, with their errors."""
    details = {(row.controller, row.key): error_text(row.detail) for row in state.errors}
    failing = sorted((row for row in state.retries if row.attempts >= MANY_ATTEMPTS), key=lambda row: -row.attempts)
    for retry in failing[:_MAX_NAMED]:
        detail = retry.error or details.get((retry.controller, retry.key), "")
        text = f"{retry.controller} {retry.key} failed {retry.attempts} times: {detail}"
        yield TopProblem(ProblemLevel.ERROR, ProblemSubject.RETRIES, text, TopView.RETRIES)
    if len(failing) > _MAX_NAMED:
        text = f"{len(failing) - _MAX_NAMED} more keys failed at least {MANY_ATTEMPTS} times"
        yield TopProblem(ProblemLevel.ERROR, ProblemSubject.RETRIES, text, TopView.RETRIES)
    failing_keys = {(row.controller, row.key) for row in failing}
    recent = [
        row
        for row in state.errors
        if not row.recovered and row.seconds_ago <= _RECENT_SECONDS and (row.controller, row.key) not in failing_keys
    ]
    for row in recent[:_MAX_NAMED]:
        text = f"{row.controller} {row.key} failed {duration(row.seconds_ago)} ago: {error_text(row.detail)}"
        yield TopProblem(ProblemLevel.WARNING, ProblemSubject.ERROR, text, TopView.ERRORS)
    if len(recent) > _MAX_NAMED:
        text = f"{len(recent) - _MAX_NAMED} more keys failed in the last {duration(_RECENT_SECONDS)}"
        yield TopProblem(ProblemLevel.WARNING, ProblemSubject.ERROR, text, TopView.ERRORS)


def _controllers(state: TopState) -> Iterator[TopProblem]:
    for row in state.controllers:
        for text in row.problems[:_MAX_NAMED]:
            yield TopProblem(
                ProblemLevel.ERROR,
                ProblemSubject.CONTROLLER,
                f"{row.controller}: {text}",
                TopView.CONTROLLERS,
            )
        for text in row.hot_loops[:_MAX_NAMED]:
            yield TopProblem(
                ProblemLevel.ERROR, ProblemSubject.HOT_LOOP, f"{row.controller} {text}", TopView.CONTROLLERS
            )
        for text in row.failing_functions[:_MAX_NAMED]:
            yield TopProblem(
                ProblemLevel.WARNING,
                ProblemSubject.CONTROLLER,
                f"{row.controller}: {text}",
                TopView.CONTROLLERS,
            )
        if row.paused:
            yield TopProblem(
                ProblemLevel.INFO,
                ProblemSubject.PAUSE,
                f"{row.controller} is {row.paused}; {row.ready} ready",
                TopView.CONTROLLERS,
            )
        elif text := _queue_text(row):
            yield TopProblem(ProblemLevel.WARNING, ProblemSubject.QUEUE, text, TopView.QUEUES)


def _queue_text(row: ControllerSummary) -> str:
    """Return why the requests of a controller wait for too long; empty if they do not."""
    if row.oldest_ready_seconds < _WAITING_SECONDS or not row.ready or row.standby or row.state != "running":
        return ""
    busy = f"{row.active} of {row.limit} workers are busy"
    return f"{row.controller}: {row.ready} ready, the oldest for {duration(row.oldest_ready_seconds)}; {busy}"


def _shards(state: TopState) -> Iterator[TopProblem]:
    for shard in state.shards:
        if shard.reason and shard.reason not in ("Connected", "Syncing"):
            text = f"cluster {shard.shard}: {shard.reason}: {shard.message}"
            yield TopProblem(ProblemLevel.ERROR, ProblemSubject.SHARD, text, TopView.LEASES)
        elif not shard.holder and shard.state == "none":
            text = f"shard {shard.shard} has no holder"
            yield TopProblem(ProblemLevel.WARNING, ProblemSubject.SHARD, text, TopView.LEASES)


def _recording(row: RecordingRow) -> Iterator[TopProblem]:
    """Yield the state of the flight recorder: an error after its end, else something worth knowing."""
    if not row.directory:
        return
    level, text = ProblemLevel.INFO, f"recording for {duration(row.seconds)} in {row.directory}: {size(row.size)}"
    if row.problem:
        level, text = ProblemLevel.ERROR, f"the recording in {row.directory} has ended: {row.problem}"
    elif row.skipped:
        level, text = ProblemLevel.ERROR, f"{text}, and {row.skipped} records are missing: a replay ends there"
    yield TopProblem(level, ProblemSubject.RECORDING, text, TopView.CONTROLLERS)
