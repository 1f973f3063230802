"""Records the exchanges of an operator. The loop only notes what happened; redaction and files come later."""

from __future__ import annotations

import asyncio
import platform
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, Final, Protocol, TypeVar

import msgspec

from opsdk.aio.named_sleep import SLEEPS, NamedSleeps
from opsdk.aio.randomness import RANDOM, seeded
from opsdk.aio.repeatable_loop import RepeatableLoop, running_task
from opsdk.aio.slicer import SLICE_ENDS
from opsdk.base.limits import MIB
from opsdk.base.version import VERSION
from opsdk.errors import ApiError
from opsdk.http.body_stream import Body
from opsdk.http.client.decompression import decoder_for
from opsdk.http.client.request import (
    CONNECT,
    ConnectionBackend,
    MessageStream,
    Pairs,
    ResponseStream,
    content_type_of,
)
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse
from opsdk.recording.boundary import BOUNDARY, ExternalCall, RequestHandler
from opsdk.recording.open_exchanges import OpenExchanges
from opsdk.recording.records import (
    Answered,
    CallBegan,
    Called,
    Closed,
    ExchangeBegan,
    Failed,
    Received,
    Record,
    RecordingBegan,
    Responded,
    Returned,
    SliceEnded,
    StopRequested,
    TimeMoved,
)
from opsdk.telemetry.context import current as log_fields

__all__ = [
    "ExchangeRecorder",
    "RecordedConfig",
    "begin_recording",
    "describe_start",
    "encode_arguments",
    "error_name",
    "response_to",
    "result_of",
]

S = TypeVar("S", bound=ResponseStream)

_HEADERS: Final = frozenset(
    {"content-type", "retry-after", "warning", "location", "audit-id", "sec-websocket-protocol"}
)
"""Headers of responses that clients read, and the one that finds the request in the server's audit log. The body is
recorded after decompression, so its encoding is not one of them."""
_MAX_REVIEW: Final = 8 * MIB
"""Bytes of the body of a review: more than webhooks accept."""


class _Endpoint(Protocol):
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def base_path(self) -> str: ...


class RecordedConfig(Protocol):
    """What a recording says about the configuration of the operator."""

    @property
    def endpoint(self) -> _Endpoint: ...
    @property
    def namespace(self) -> str: ...
    @property
    def qps(self) -> float | None: ...
    @property
    def burst(self) -> int: ...
    @property
    def timeout(self) -> float | None: ...


class ExchangeRecorder:
    """A `Boundary` that notes each exchange. It changes neither order nor content of what passes.

    Args:
        add: called with each record, in order. It must not block.
        loop: the running loop.
        seed: of the operator's random numbers.

    Attributes:
        numbers: of exchanges.
        exchanges: that a checkpoint needs.
        sleeps: with names.
        thread_calls: returns how many functions were called in threads; 0 in virtual time, which waits for them.
        random: the generator of the operator.
    """

    def __init__(self, add: Callable[[Record], None], loop: RepeatableLoop, *, seed: int) -> None:
        self.add = add
        self.loop = loop
        self.random = seeded(seed)
        self.numbers = count()
        self.exchanges = OpenExchanges()
        self.sleeps = NamedSleeps()
        self.thread_calls: Callable[[], int] = lambda: 0
        self._sliced = Counter[str]()

    @property
    def listens(self) -> bool:
        """See `Boundary`."""
        return True

    def around(self, backend: ConnectionBackend, server: str) -> ConnectionBackend:
        """See `Boundary`."""
        return _RecordedBackend(backend, server, self)

    def serve(self, handler: RequestHandler) -> RequestHandler:
        """See `Boundary`."""

        async def recorded(request: HttpRequest) -> HttpResponse:
            number = next(self.numbers)
            try:
                body = await request.body(_MAX_REVIEW)
            except ApiError:
                # The handler gets it too, and answers it. It had no effect.
                return await handler(request)
            with self.loop.outside():
                await asyncio.sleep(0)  # now this task runs first in the iteration, as in a replay
            target = f"{request.path}?{request.query.raw}" if request.query.raw else request.path
            self.add(Called(self.loop.iteration, number, request.method, target, request.header("content-type"), body))
            self.exchanges.call_began(number)
            try:
                response = await handler(request)
                self.add(Answered(self.loop.iteration, number, response.status, response.body))
            finally:
                self.exchanges.call_ended(number)
            return response

        return recorded

    async def call(self, call: ExternalCall) -> Any:
        """See `Boundary`."""
        number = next(self.numbers)
        task = running_task()
        woken_by = self.loop.wake_of(task)
        arguments = encode_arguments(call.arguments)
        self.add(CallBegan(self.loop.iteration, number, call.name, arguments, task.get_name(), woken_by))
        self.exchanges.call_began(number)
        try:
            with self.loop.outside():
                value = await call.run()
        except BaseException as error:
            self.add(Failed(self.loop.iteration, number, error_name(error), str(error)))
            raise
        finally:
            self.exchanges.call_ended(number)
            self.loop.note_event(lambda: result_of(call.name), task)
        self.add(Returned(self.loop.iteration, number, msgspec.msgpack.encode(value, enc_hook=str)))
        return value

    def ends(self, is_full: bool, once: str) -> bool:
        """See `SliceEnds`."""
        if is_full:
            self.add(SliceEnded(self.loop.iteration, self._sliced[once], once))
        self._sliced[once] += 1
        return is_full

    @property
    def sliced(self) -> int:
        """The objects in slices so far, without those of loops that run once, see `SliceEnded`."""
        return self._sliced[""]

    def observe_time(self, iteration: int, time: float) -> None:
        """Note that virtual time has moved."""
        self.add(TimeMoved(iteration, time))

    def note_stop(self) -> None:
        """Note that a signal asks the operator to stop."""
        self.add(StopRequested(self.loop.iteration))

    def __repr__(self) -> str:
        return f"<ExchangeRecorder on {self.loop!r}>"


class _RecordedBackend:
    def __init__(self, backend: ConnectionBackend, server: str, recorder: ExchangeRecorder) -> None:
        self._backend, self._server, self._recorder = backend, server, recorder

    async def exchange(self, method: str, target: str, headers: Pairs, body: Body) -> ResponseStream:
        sent = body if isinstance(body, bytes) else b""
        began = self._begin(method, target, content_type_of(headers), sent)
        stream = await self._head(began, self._backend.exchange(method, target, headers, body))
        return _RecordedStream(stream, self._recorder, began)

    async def connect(self, target: str, headers: Pairs) -> MessageStream:
        """Note the messages of the server. Those of the operator are not noted: they may be large, and secret."""
        began = self._begin(CONNECT, target, "", b"")
        stream = await self._head(began, self._backend.connect(target, headers))
        return _RecordedMessages(stream, self._recorder, began)

    def _begin(self, method: str, target: str, content_type: str, body: bytes) -> ExchangeBegan:
        recorder, task = self._recorder, running_task()
        began = ExchangeBegan(
            recorder.loop.iteration,
            next(recorder.numbers),
            self._server,
            method,
            target,
            content_type,
            body,
            task=task.get_name(),
            woken_by=recorder.loop.wake_of(task),
        )
        recorder.add(began)
        recorder.exchanges.began(began, in_reconcile=bool(log_fields().get("reconcileID")))
        return began

    async def _head(self, began: ExchangeBegan, response: Awaitable[S]) -> S:
        """Wait for the head of a response, and note it."""
        recorder, number = self._recorder, began.exchange
        try:
            with recorder.loop.outside():
                stream = await response
        except BaseException as error:
            recorder.exchanges.ended(number)
            recorder.add(Failed(recorder.loop.iteration, number, error_name(error), str(error)))
            raise
        recorder.loop.note_event(lambda: response_to(began.method, began.target), running_task())
        recorded = {name: value for name, value in stream.headers.items() if name in _HEADERS}
        responded = Responded(recorder.loop.iteration, number, stream.status, recorded)
        recorder.add(responded)
        recorder.exchanges.responded(responded)
        return stream

    def drain(self) -> None:
        self._backend.drain()

    async def aclose(self) -> None:
        await self._backend.aclose()

    def __repr__(self) -> str:
        return f"<recorded {self._backend!r}>"


class _RecordedStream:
    """Notes the bytes of a response after their decompression, so that a recording can be searched and redacted."""

    def __init__(self, stream: ResponseStream, recorder: ExchangeRecorder, request: ExchangeBegan) -> None:
        self.status, self.headers = stream.status, stream.headers
        self._stream, self._recorder, self._request = stream, recorder, request
        self._number = request.exchange
        self._decoder = decoder_for(stream.headers) if "content-encoding" in stream.headers else None
        self._has_ended = False
        """Whether the last record of the exchange was added."""

    async def read(self) -> bytes:
        try:
            with self._recorder.loop.outside():
                data = await self._stream.read()
        except BaseException as error:
            self._end()
            self._recorder.add(Failed(self._recorder.loop.iteration, self._number, error_name(error), str(error)))
            raise
        request = self._request
        self._recorder.loop.note_event(lambda: response_to(request.method, request.target), running_task())
        # A part of compressed data may have no decoded byte, and is not the end.
        self._has_ended = not data
        received = Received(self._recorder.loop.iteration, self._number, self._decoded(data), not data)
        self._recorder.add(received)
        self._recorder.exchanges.received(received)
        return data

    def _end(self) -> None:
        self._has_ended = True
        self._recorder.exchanges.ended(self._number)

    def _decoded(self, data: bytes) -> bytes:
        if self._decoder is None:
            return data
        try:
            return b"".join(self._decoder.feed(data))
        except Exception:  # noqa: BLE001 - the operator's own decoder raises it too, with its request
            return data

    async def aclose(self) -> None:
        began = self._recorder.loop.iteration
        try:
            with self._recorder.loop.outside():
                await self._stream.aclose()
        finally:
            if self._recorder.loop.iteration != began or not self._has_ended:
                self._end()
                self._recorder.add(Closed(self._recorder.loop.iteration, self._number))

    def __repr__(self) -> str:
        return f"<recorded {self._stream!r}>"


class _RecordedMessages(_RecordedStream):
    """Notes the messages of a WebSocket, one record for each."""

    def __init__(self, stream: MessageStream, recorder: ExchangeRecorder, request: ExchangeBegan) -> None:
        super().__init__(stream, recorder, request)
        self._socket = stream

    async def send(self, message: bytes) -> None:
        with self._recorder.loop.outside():
            await self._socket.send(message)
        self._recorder.loop.note_event(lambda: response_to(self._request.method, self._request.target), running_task())

    def abort(self) -> None:
        self._socket.abort()


def error_name(error: BaseException) -> str:
    """Return how a recording names the class of an exception.

    >>> error_name(KeyError())
    'builtins:KeyError'
    """
    return f"{type(error).__module__}:{type(error).__qualname__}"


def response_to(method: str, target: str) -> str:
    """Return what woke a task that waited for a response."""
    return f"the response to {method} {target.partition('?')[0]}"


def result_of(call: str) -> str:
    """Return what woke a task that waited for a call of an external system."""
    return f"the result of {call}"


def encode_arguments(arguments: tuple[Any, ...]) -> bytes:
    """Return the arguments of a call, in MessagePack; those that have no such form as text."""
    return msgspec.msgpack.encode(arguments, enc_hook=str)


def describe_start(config: RecordedConfig, loop: RepeatableLoop, *, operator: str, seed: int) -> RecordingBegan:
    """Return the first record of an operator that starts now.

    Args:
        config: of its API server.
        loop: the running loop.
        operator: its name.
        seed: of its random numbers.
    """
    endpoint = config.endpoint
    return RecordingBegan(
        opsdk=VERSION,
        python=platform.python_version(),
        operator=operator,
        namespace=config.namespace,
        host=f"http://{endpoint.host}:{endpoint.port}{endpoint.base_path}",
        wall=loop.wall_origin,
        iteration=loop.iteration,
        time=loop.time(),
        seed=seed,
        qps=config.qps,
        burst=config.burst,
        timeout=config.timeout,
    )


def begin_recording(add: Callable[[Record], None], began: RecordingBegan, loop: RepeatableLoop) -> ExchangeRecorder:
    """Record the operator that starts in this context from now on: its exchanges and its random numbers.

    Args:
        add: called with each record after `began`.
        began: the first record of the recording.
        loop: the running loop.
    """
    recorder = ExchangeRecorder(add, loop, seed=began.seed)
    BOUNDARY.set(recorder)
    RANDOM.set(recorder.random)
    SLEEPS.set(recorder.sleeps)
    SLICE_ENDS.set(recorder)
    return recorder
