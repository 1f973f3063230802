"""What a recording is made of: one record for each message that crosses the boundary of an operator. Pure.

The clock of a recording is the iteration of the event loop. All callbacks of an iteration see the same time, so the
number of an iteration and its time say when something happened, and in which order, without a doubt.
"""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = [
    "FORMAT",
    "Answered",
    "CallBegan",
    "Called",
    "Clock",
    "Closed",
    "ExchangeBegan",
    "Failed",
    "Iterations",
    "OperatorEnded",
    "Outcome",
    "Received",
    "Record",
    "RecordingBegan",
    "Responded",
    "Returned",
    "Skipped",
    "StopRequested",
    "ThreadArrived",
    "TimeMoved",
    "WallMoved",
]

FORMAT: Final = 1
"""Version of the records, in the first line of each file: another one may have other fields."""


class RecordingBegan(msgspec.Struct, frozen=True, array_like=True, kw_only=True, tag="b"):
    """The first record of each file.

    Attributes:
        opsdk: version of the framework.
        python: version of Python.
        operator: its name.
        reference: the operator as a command line names it; empty if it is not known.
        arguments: of the program.
        environment: variables of the environment that opsdk reads, and the seed of Python's hashes.
        code: digest of the operator's code; empty if it could not be read.
        namespace: of the operator.
        host: the address of its API server.
        wall: the UTC time at time 0 of the event loop, in microseconds since 1970.
        iteration: of the event loop, in which the operator was started.
        time: of this iteration.
        seed: of the random numbers that opsdk draws, and of `random`.
        is_virtual: the operator ran in virtual time.
        file: number of the file in the recording, from 0: a later file needs those before it.
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
    """

    iteration: int
    exchange: int
    server: str
    method: str
    target: str
    content_type: str = ""
    body: bytes = b""


class CallBegan(msgspec.Struct, frozen=True, array_like=True, tag="k"):
    """A call of a system outside of Kubernetes.

    Attributes:
        iteration: in which it was called.
        exchange: number of the call, among those of exchanges.
        name: of the system and its method, such as ``dns.create``.
        arguments: in MessagePack, as far as they have such a form.
    """

    iteration: int
    exchange: int
    name: str
    arguments: bytes = b""


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


class OperatorEnded(msgspec.Struct, frozen=True, array_like=True, tag="e"):
    """The operator has ended. A replay ends here.

    Attributes:
        iteration: in which.
    """

    iteration: int


class Skipped(msgspec.Struct, frozen=True, array_like=True, tag="s"):
    """Records that were not written, because the disk was full or too slow: a replay ends here.

    Attributes:
        iteration: of the first one.
        count: how many.
    """

    iteration: int
    count: int


Outcome = Responded | Received | Returned | Failed | Closed
"""What an operator waited for."""
Clock = Iterations | TimeMoved | WallMoved
Record = (
    RecordingBegan
    | Clock
    | ExchangeBegan
    | CallBegan
    | Outcome
    | Called
    | Answered
    | StopRequested
    | ThreadArrived
    | OperatorEnded
    | Skipped
)
