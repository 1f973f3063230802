"""What a recording is made of: one record for each message that crosses the boundary of an operator. Pure.

The clock of a recording is the iteration of the event loop. All callbacks of an iteration see the same time, so the
number of an iteration and its time say when something happened, and in which order, without a doubt.
"""

from __future__ import annotations

from typing import Final

import msgspec

from opsdk.base.cause import ReconcileCause

__all__ = [
    "FORMAT",
    "Answered",
    "CachedCollection",
    "CachedObjects",
    "CallBegan",
    "Called",
    "CheckpointBegan",
    "CheckpointEnded",
    "CheckpointPart",
    "Clock",
    "Closed",
    "EventSeriesRecord",
    "ExchangeBegan",
    "Failed",
    "HeldRequest",
    "Iterations",
    "OperatorEnded",
    "Outcome",
    "QueuedRequest",
    "RandomState",
    "Received",
    "Record",
    "RecordedCause",
    "RecordedController",
    "RecordingBegan",
    "RepeatedRequest",
    "Responded",
    "Returned",
    "Skipped",
    "SliceEnded",
    "StopRequested",
    "ThreadArrived",
    "TimeMoved",
    "WallMoved",
]

FORMAT: Final = 3
"""Version of the records, in the first line of each file: another one may have other fields."""

RandomState = tuple[int, tuple[int, ...], float | None]
"""What `random.Random.getstate` returns."""


class RecordingBegan(msgspec.Struct, frozen=True, array_like=True, kw_only=True, tag="b"):
    """The first record of each file.

    Attributes:
        opsdk: version of the framework.
        python: version of Python.
        operator: its name.
        reference: the operator as a command line names it; empty if it is not known.
        arguments: of the program: flags of opsdk, which hold no secrets.
        environment: such flags as variables of the environment, names of the Pod, and the seed of Python's hashes.
        code: digest of the operator's code; empty if it could not be read.
        namespace: of the operator.
        host: the address of its API server.
        qps: limit of its client for requests in a second; None for no limit.
        burst: of this limit.
        timeout: of its requests, in seconds; None for no limit.
        wall: the UTC time at time 0 of the event loop, in microseconds since 1970.
        iteration: of the event loop, in which the operator was started.
        time: of this iteration.
        seed: of the random numbers that opsdk draws, and of `random`.
        is_virtual: the operator ran in virtual time.
        file: number of the file in the recording, from 0: a later file needs those before it, unless it begins with a
            checkpoint.
        unrecorded: functions that the operator's code uses, and whose results no recording has, each with a line.
    """

    opsdk: str
    python: str
    operator: str
    reference: str = ""
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    code: str = ""
    namespace: str = "default"
    host: str = ""
    iteration: int = 0
    time: float = 0.0
    wall: int
    seed: int
    is_virtual: bool = False
    file: int = 0
    qps: float | None = None
    burst: int = 10
    timeout: float | None = 120.0
    unrecorded: tuple[str, ...] = ()


class CheckpointBegan(msgspec.Struct, frozen=True, array_like=True, kw_only=True, tag="p"):
    """The state of an operator between two iterations, in which it waits: a replay may begin here.

    The records until `CheckpointEnded` belong to it. Exchanges among them are from before: those without an end are
    open, as watches are, and the others are answers that the start of an operator needs.

    Attributes:
        iteration: that has ended.
        time: of this iteration.
        wall: the UTC time at time 0 of the event loop, in microseconds since 1970.
        sleeps: names of what repeats or happens later, with its times.
        lease_times: of the election, in MessagePack; empty without one.
        leads_since: the time at which leadership began the last time.
        thread_calls: functions that were called in threads so far.
        sliced: objects in slices so far, see `SliceEnded`.
        random: the state of opsdk's random numbers, see `random.Random.getstate`.
        process_random: the state of those of the module `random`.
    """

    iteration: int
    time: float
    wall: int
    sleeps: tuple[tuple[str, float], ...]
    lease_times: bytes
    leads_since: float
    thread_calls: int
    sliced: int
    random: RandomState
    process_random: RandomState


class CachedCollection(msgspec.Struct, frozen=True, array_like=True, tag="g"):
    """The informer of a collection, as a part of a checkpoint. Its objects follow.

    Attributes:
        collection: path of the informer's lists, with its selectors, see `collection_of`.
        gvk: group, version and kind of the objects.
        metadata_only: the informer has metadata only.
        by_reads: reads may have started the informer. Others are started by the operator's own start.
        resource_version: up to which its watch has shown everything.
        history: how its watches went, in MessagePack.
    """

    collection: str
    gvk: tuple[str, str, str]
    metadata_only: bool
    by_reads: bool
    resource_version: str
    history: bytes


class CachedObjects(msgspec.Struct, frozen=True, array_like=True, tag="o"):
    """Objects in the cache of the last `CachedCollection`, as a part of a checkpoint.

    Attributes:
        collection: its path.
        items: the objects as JSON, without values of Secrets and tokens.
    """

    collection: str
    items: tuple[bytes, ...]


class RecordedCause(msgspec.Struct, frozen=True, array_like=True):
    """A cause of a queued request.

    Attributes:
        happens_at: the time at which it happens; None if it has happened.
        cause: the cause.
    """

    happens_at: float | None
    cause: ReconcileCause


class QueuedRequest(msgspec.Struct, frozen=True, array_like=True, tag="u"):
    """A request in the queue of a controller, as a part of a checkpoint.

    Attributes:
        controller: its name.
        request: the fields of the request.
        priority: in the queue.
        ready_at: the time at which a worker may take it.
        queued_at: the time at which it was added.
        failures: that the rate limiter has counted.
        streak: for a `RetryLimit`: a finalizer failed, failures, and the time of the first one; None without one.
        causes: why it is queued.
    """

    controller: str
    request: tuple[str, str, str]
    priority: int
    ready_at: float
    queued_at: float
    failures: int = 0
    streak: tuple[bool, int, float] | None = None
    causes: tuple[RecordedCause, ...] = ()


class RecordedController(msgspec.Struct, frozen=True, array_like=True, tag="l"):
    """A controller, as a part of a checkpoint. The requests in its queue follow.

    Attributes:
        controller: its name.
        state: its workers run, or it waits for leadership.
        paused: its queue returns no requests.
        last_id: of its reconciles; empty before the first.
    """

    controller: str
    state: str
    paused: bool
    last_id: str


class HeldRequest(msgspec.Struct, frozen=True, array_like=True, tag="y"):
    """A request that the pause of its object holds back, as a part of a checkpoint.

    Attributes:
        controller: its name.
        namespace: of the object.
        name: of the object.
        pause: in MessagePack.
        causes: that wait.
    """

    controller: str
    namespace: str
    name: str
    pause: bytes
    causes: tuple[ReconcileCause, ...]


class RepeatedRequest(msgspec.Struct, frozen=True, array_like=True, tag="j"):
    """A request whose last reconciles wrote something, as a part of a checkpoint: it may be a hot loop.

    Attributes:
        controller: its name.
        request: the fields of the request.
        passes: its reconciles in a row, in MessagePack.
    """

    controller: str
    request: tuple[str, str, str]
    passes: bytes


class EventSeriesRecord(msgspec.Struct, frozen=True, array_like=True, tag="x"):
    """An Event that repetitions belong to, as a part of a checkpoint.

    Attributes:
        event: as JSON.
        last: UTC time of the last repetition, in ISO 8601.
        sent: the count that was written.
    """

    event: bytes
    last: str
    sent: int


class CheckpointEnded(msgspec.Struct, frozen=True, array_like=True, tag="z"):
    """The last record of a checkpoint.

    Attributes:
        iteration: of the checkpoint.
    """

    iteration: int


class Iterations(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="i"):
    """The times of consecutive iterations.

    Attributes:
        first: number of the first one.
        micros: for each, the microseconds since the iteration before it, as variable-length integers.
    """

    first: int
    micros: bytes


class TimeMoved(msgspec.Struct, frozen=True, array_like=True, tag="m"):
    """The time of one iteration and of those after it, until the next record of times. For virtual time.

    Attributes:
        iteration: its number.
        time: of the event loop, in seconds.
    """

    iteration: int
    time: float


class WallMoved(msgspec.Struct, frozen=True, array_like=True, tag="w"):
    """The system's clock was set.

    Attributes:
        iteration: from which on the new time counts.
        wall: the UTC time at time 0 of the event loop, in microseconds since 1970.
    """

    iteration: int
    wall: int


class ExchangeBegan(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="q"):
    """A request of the operator.

    Attributes:
        iteration: in which it was sent.
        exchange: number of the exchange, from 0.
        server: host, port and path of the server.
        method: HTTP method.
        target: path and query.
        content_type: of the body.
        body: without values of Secrets and tokens.
        task: name of the task that sent it.
        woken_by: what let the task go on, see `RepeatableLoop.wake_of`.
    """

    iteration: int
    exchange: int
    server: str
    method: str
    target: str
    content_type: str = ""
    body: bytes = b""
    task: str = ""
    woken_by: str = ""


class CallBegan(msgspec.Struct, frozen=True, array_like=True, tag="k"):
    """A call of a system outside of Kubernetes.

    Attributes:
        iteration: in which it was called.
        exchange: number of the call, among those of exchanges.
        name: of the system and its method, such as ``dns.create``.
        arguments: in MessagePack, as far as they have such a form.
        task: name of the task that called.
        woken_by: what let the task go on, see `RepeatableLoop.wake_of`.
    """

    iteration: int
    exchange: int
    name: str
    arguments: bytes = b""
    task: str = ""
    woken_by: str = ""


class Returned(msgspec.Struct, frozen=True, array_like=True, tag="v"):
    """The result of a call. An exception is a `Failed`.

    Attributes:
        iteration: in which the operator saw it.
        exchange: number of the call.
        value: in MessagePack.
    """

    iteration: int
    exchange: int
    value: bytes


class Called(msgspec.Struct, frozen=True, array_like=True, tag="a"):
    """A request to a webhook of the operator.

    Attributes:
        iteration: in which its body was complete.
        exchange: number of the request, among those of exchanges.
        method: HTTP method.
        target: path and query.
        content_type: of the body.
        body: without values of Secrets and tokens.
    """

    iteration: int
    exchange: int
    method: str
    target: str
    content_type: str
    body: bytes


class Answered(msgspec.Struct, frozen=True, array_like=True, tag="n"):
    """The response of a webhook.

    Attributes:
        iteration: in which it was complete.
        exchange: number of the request.
        status: HTTP status.
        body: without values of Secrets and tokens.
    """

    iteration: int
    exchange: int
    status: int
    body: bytes


class Responded(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="r"):
    """The head of a response.

    Attributes:
        iteration: in which the operator saw it.
        exchange: whose response it is.
        status: HTTP status.
        headers: of the response.
    """

    iteration: int
    exchange: int
    status: int
    headers: dict[str, str]


class Received(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="d"):
    """Bytes of a response's body, after decompression: a whole response, or a part of a watch.

    Attributes:
        iteration: in which the operator saw them.
        exchange: whose response it is.
        data: without values of Secrets and tokens; may be empty, for a part of a compressed body.
        is_end: the response has ended.
    """

    iteration: int
    exchange: int
    data: bytes
    is_end: bool = False


class Failed(msgspec.Struct, frozen=True, array_like=True, tag="f"):
    """An exchange raised an exception instead of a head or of bytes.

    Attributes:
        iteration: in which the operator saw it.
        exchange: that failed.
        error: the class of the exception.
        message: its text.
    """

    iteration: int
    exchange: int
    error: str
    message: str


class Closed(msgspec.Struct, frozen=True, array_like=True, tag="c"):
    """The operator has closed an exchange before its end, or had to wait until it was closed.

    Attributes:
        iteration: in which it went on.
        exchange: that is closed.
    """

    iteration: int
    exchange: int


class StopRequested(msgspec.Struct, frozen=True, array_like=True, tag="t"):
    """A signal asked the operator to stop.

    Attributes:
        iteration: in which.
    """

    iteration: int


class ThreadArrived(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="h"):
    """A plain function in a thread waits for the event loop, or has ended.

    Attributes:
        iteration: in which the loop saw it.
        call: number of the function's call, from 0.
    """

    iteration: int
    call: int


class SliceEnded(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="S"):
    """A loop over objects let other tasks run, see `opsdk.aio.slicer.Slicer`.

    Attributes:
        iteration: in which.
        number: of the object, among all that such loops of the operator have counted, from 0.
        once: the loop, if it runs once in a process; its objects have numbers of their own.
    """

    iteration: int
    number: int
    once: str = ""


class OperatorEnded(msgspec.Struct, frozen=True, array_like=True, tag="e"):
    """The operator has ended. A replay ends here.

    Attributes:
        iteration: in which.
    """

    iteration: int


class Skipped(msgspec.Struct, frozen=True, array_like=True, tag="s"):
    """Records that were not written: a replay ends here.

    Attributes:
        iteration: of the first one.
        count: how many.
        reason: why; empty if the disk was full or too slow.
    """

    iteration: int
    count: int
    reason: str = ""


Outcome = Responded | Received | Returned | Failed | Closed
"""What an operator waited for."""
Clock = Iterations | TimeMoved | WallMoved
CheckpointPart = (
    CheckpointBegan
    | CachedCollection
    | CachedObjects
    | RecordedController
    | QueuedRequest
    | HeldRequest
    | RepeatedRequest
    | EventSeriesRecord
    | CheckpointEnded
)
"""Records of a checkpoint, besides exchanges."""
Record = (
    RecordingBegan
    | CheckpointPart
    | Clock
    | ExchangeBegan
    | CallBegan
    | Outcome
    | Called
    | Answered
    | StopRequested
    | ThreadArrived
    | SliceEnded
    | OperatorEnded
    | Skipped
)
