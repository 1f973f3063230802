"""The order of a recording: times of iterations, requests, and what the operator waited for. Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from opsdk.recording.files import RecordingError
from opsdk.recording.records import (
    Answered,
    CachedCollection,
    CachedObjects,
    CallBegan,
    Called,
    CheckpointBegan,
    CheckpointEnded,
    CheckpointPart,
    Clock,
    EventSeriesRecord,
    ExchangeBegan,
    HeldRequest,
    Iterations,
    OperatorEnded,
    Outcome,
    QueuedRequest,
    Received,
    Record,
    RecordedController,
    RecordingBegan,
    RepeatedRequest,
    Responded,
    Skipped,
    SliceEnded,
    StopRequested,
    ThreadArrived,
    TimeMoved,
    WallMoved,
)

__all__ = [
    "BEFORE_CHECKPOINT",
    "Checkpoint",
    "RecordedCollection",
    "RecordedExchange",
    "RecordedReview",
    "Timeline",
    "describe",
    "times_of",
]


BEFORE_CHECKPOINT: Final = -(1 << 60)
"""The first iteration of a replay that begins with a checkpoint: a start has any number of iterations."""


@dataclass(slots=True, eq=False)
class RecordedReview:
    """A request to a webhook of the operator.

    Attributes:
        request: that came.
        place: of the request among all records.
        answer: of the operator; None if the recording ends before.
    """

    request: Called
    place: int
    answer: Answered | None = None


@dataclass(slots=True, eq=False)
class RecordedExchange:
    """One exchange of a recording, or a call of a system outside of Kubernetes.

    Attributes:
        request: that the operator sent, or the call.
        outcomes: what it waited for, in order, each with its place among all records.
        number: its place among all requests, from 0.
        is_open_at_checkpoint: it began before the checkpoint with which the replay begins.
    """

    request: ExchangeBegan | CallBegan
    number: int
    outcomes: deque[tuple[int, Outcome]] = field(default_factory=deque)
    is_open_at_checkpoint: bool = False

    def __str__(self) -> str:
        return describe(self.request)


@dataclass(slots=True, eq=False)
class RecordedCollection:
    """What an informer has at a checkpoint.

    Attributes:
        informer: what is known of it.
        items: its objects as JSON.
    """

    informer: CachedCollection
    items: list[bytes] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Checkpoint:
    """The state of an operator at the place where a replay begins, see `CheckpointBegan`.

    Attributes:
        began: its first record.
        collections: in the caches, with their objects.
        controllers: of the operator.
        queued: requests in their queues.
        held: requests that pauses hold back.
        passes: reconciles in a row of requests that wrote something.
        events: that repetitions belong to.
        exchanges: from before: those without an end are open, and the others are answers that a start needs.
    """

    began: CheckpointBegan
    collections: list[RecordedCollection] = field(default_factory=list)
    controllers: list[RecordedController] = field(default_factory=list)
    queued: list[QueuedRequest] = field(default_factory=list)
    held: list[HeldRequest] = field(default_factory=list)
    passes: list[RepeatedRequest] = field(default_factory=list)
    events: list[EventSeriesRecord] = field(default_factory=list)
    exchanges: list[RecordedExchange] = field(default_factory=list)

    def add(self, record: CheckpointPart) -> None:
        """Add a part."""
        match record:
            case CachedCollection():
                self.collections.append(RecordedCollection(record))
            case CachedObjects():
                if not self.collections:
                    raise RecordingError(
                        "the checkpoint has objects of an unknown collection: the recording is damaged"
                    )
                self.collections[-1].items += record.items
            case RecordedController():
                self.controllers.append(record)
            case QueuedRequest():
                self.queued.append(record)
            case HeldRequest():
                self.held.append(record)
            case RepeatedRequest():
                self.passes.append(record)
            case EventSeriesRecord():
                self.events.append(record)


class Timeline:
    """A recording, for its replay.

    Args:
        records: of all files that are left, in order; the first one is a `RecordingBegan`. A checkpoint that follows it
            is the place where the replay begins; later ones are passed over.

    Attributes:
        began: the first record.
        checkpoint: the place where the replay begins; None for the start of the process.
        exchanges: in the order of their requests; calls of systems outside of Kubernetes are exchanges too.
        reviews: requests to webhooks, in order.
        arrivals: of each call of a plain function in a thread, in order, with their places among all records.
        slice_ends: the objects that ended slices: loop and number, see `SliceEnded`.
        last_iteration: of any record.
        problem: why the recording ends early; empty if it does not.
        end: the iteration in which the operator ended; None if it did not.
        stop: the iteration in which a signal asked it to stop; None if none did.
        stop_place: of the signal among all records.

    Raises:
        RecordingError: it has no beginning.
    """

    def __init__(self, records: Sequence[Record]) -> None:
        if not records or not isinstance(records[0], RecordingBegan):
            raise RecordingError("the recording has no beginning: its first file is empty, or was not written to disk")
        self.began = records[0]
        self.checkpoint: Checkpoint | None = None
        self._is_in_checkpoint, self._is_first_checkpoint = False, True
        self.exchanges: list[RecordedExchange] = []
        self.reviews: list[RecordedReview] = []
        self.arrivals: dict[int, deque[tuple[int, int]]] = defaultdict(deque)
        self.slice_ends: set[tuple[str, int]] = set()
        self._unanswered: dict[int, RecordedReview] = {}
        self.last_iteration = 0
        self.problem = ""
        self.end: int | None = None
        self.stop: int | None = None
        self.stop_place = 0
        # Arrays: an hour has some million iterations.
        self._iterations = array("q", (0, self.began.iteration))
        self._times = array("d", (0.0, self.began.time))
        self._micros = round(self.began.time * 1e6)
        self._wall_iterations: list[int] = [0]
        self._walls: list[int] = [self.began.wall]
        by_number: dict[int, RecordedExchange] = {}
        for place, record in enumerate(records[1:]):
            if isinstance(record, CheckpointPart) or self._is_in_checkpoint:
                self._add_to_checkpoint(place, record, by_number)
                continue
            if isinstance(record, Skipped):
                reason = record.reason or "the disk was full or too slow"
                self.problem = f"the recording ends early, and {record.count} records are missing: {reason}"
                break
            if isinstance(record, OperatorEnded):
                self.end = record.iteration
                break
            self._add(place, record, by_number)

    def _add_to_checkpoint(self, place: int, record: Record, by_number: dict[int, RecordedExchange]) -> None:
        """Add a record of a checkpoint. Those of later ones are passed over: the replay comes from before."""
        if isinstance(record, CheckpointBegan):
            self._is_in_checkpoint = True
            if place == 0:
                self._begin_with(record)
            else:
                self._is_first_checkpoint = False
        elif isinstance(record, CheckpointEnded):
            self._is_in_checkpoint = False
        elif self.checkpoint is None or not self._is_first_checkpoint:
            return
        elif isinstance(record, ExchangeBegan):
            exchange = by_number[record.exchange] = RecordedExchange(
                record, record.exchange, is_open_at_checkpoint=True
            )
            self.checkpoint.exchanges.append(exchange)
        elif isinstance(record, Responded | Received):
            if (open_exchange := by_number.get(record.exchange)) is not None:
                open_exchange.outcomes.append((place, record))
        elif isinstance(record, CheckpointPart):
            self.checkpoint.add(record)

    def _begin_with(self, began: CheckpointBegan) -> None:
        self.checkpoint = Checkpoint(began)
        # Until the checkpoint, time stands still for the start of the operator.
        self._iterations = array("q", (BEFORE_CHECKPOINT, began.iteration))
        self._times = array("d", (began.time, began.time))
        self._micros = round(began.time * 1e6)
        self._walls = [began.wall]

    def _add(self, place: int, record: Record, by_number: dict[int, RecordedExchange]) -> None:
        if isinstance(record, Iterations | TimeMoved | WallMoved):
            self._add_time(record)
            return
        if isinstance(record, RecordingBegan | Skipped | OperatorEnded | CheckpointPart):
            return
        self.last_iteration = max(self.last_iteration, record.iteration)
        match record:
            case ExchangeBegan() | CallBegan():
                exchange = by_number[record.exchange] = RecordedExchange(record, len(self.exchanges))
                self.exchanges.append(exchange)
            case Called():
                review = self._unanswered[record.exchange] = RecordedReview(record, place)
                self.reviews.append(review)
            case Answered():
                if record.exchange in self._unanswered:
                    self._unanswered.pop(record.exchange).answer = record
            case StopRequested() | SliceEnded() | ThreadArrived():
                self._add_turn(place, record)
            case _:
                if (answered := by_number.get(record.exchange)) is not None:
                    answered.outcomes.append((place, record))

    def _add_turn(self, place: int, record: StopRequested | SliceEnded | ThreadArrived) -> None:
        """Add what decides which callbacks come first."""
        match record:
            case StopRequested():
                self.stop, self.stop_place = record.iteration, place
            case SliceEnded():
                self.slice_ends.add((record.once, record.number))
            case ThreadArrived():
                self.arrivals[record.call].append((place, record.iteration))

    def _add_time(self, record: Clock) -> None:
        match record:
            case TimeMoved():
                self._iterations.append(record.iteration)
                self._times.append(record.time)
            case Iterations():
                for iteration, micros in enumerate(times_of(record.micros), record.first):
                    self._micros += micros
                    self._iterations.append(iteration)
                    self._times.append(self._micros / 1e6)
            case WallMoved():
                self._wall_iterations.append(record.iteration)
                self._walls.append(record.wall)

    @property
    def start_time(self) -> float:
        """The time at which the replay begins, in seconds of the event loop."""
        return self.began.time if self.checkpoint is None else self.checkpoint.began.time

    @property
    def start_wall(self) -> int:
        """The UTC time at time 0 of the event loop, as the begin of the replay sees it, in microseconds since 1970."""
        return self._walls[0]

    def time_of(self, iteration: int) -> float:
        """Return the time of an iteration, in seconds of the event loop."""
        return self._times[max(bisect_right(self._iterations, iteration) - 1, 0)]

    def wall_of(self, iteration: int) -> int:
        """Return the UTC time at time 0 of the event loop, as an iteration sees it, in microseconds since 1970."""
        return self._walls[bisect_right(self._wall_iterations, iteration) - 1]

    def iteration_at(self, time: float, *, after: int = BEFORE_CHECKPOINT) -> int | None:
        """Return the first iteration whose time is at least `time`; None if the recording ends before.

        Args:
            time: of the event loop, in seconds.
            after: an iteration that is over.
        """
        index = max(bisect_left(self._times, time), bisect_right(self._iterations, after))
        return self._iterations[index] if index < len(self._times) else None

    def __repr__(self) -> str:
        return f"<Timeline of {self.began.operator}: {len(self.exchanges)} exchanges>"


def describe(request: ExchangeBegan | CallBegan) -> str:
    """Return a request or a call in a few words."""
    return f"call {request.name}" if isinstance(request, CallBegan) else f"{request.method} {request.target}"


def times_of(micros: bytes) -> Sequence[int]:
    """Return the integers of `Iterations.micros`.

    >>> times_of(bytes([5, 0x80 | 44, 2]))
    [5, 300]
    """
    values: list[int] = []
    value = shift = 0
    for byte in micros:
        value |= (byte & 0x7F) << shift
        if byte & 0x80:
            shift += 7
        else:
            values.append(value)
            value = shift = 0
    return values
