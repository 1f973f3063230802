"""The boundary of a replay: each request, call and review gets what the recording has."""

from __future__ import annotations

import asyncio
import builtins
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any
from urllib.parse import urlsplit

import msgspec

from opsdk.aio.repeatable_loop import running_task
from opsdk.aio.tasks import TaskOwner
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.engine.replay.body_differences import body_differences
from opsdk.engine.replay.hidden_values import HiddenValues, has_digest
from opsdk.engine.replay.loop import TIMER_TOLERANCE, ReplayLoop
from opsdk.engine.replay.start import StartAnswers
from opsdk.engine.replay.timeline import RecordedExchange, RecordedReview, Timeline, describe
from opsdk.engine.request_kinds import changes_state
from opsdk.errors import ConnectionLostError, OpsdkError
from opsdk.http.asgi_types import Message
from opsdk.http.body_stream import Body
from opsdk.http.client.request import CONNECT, ConnectionBackend, MessageStream, Pairs, ResponseStream
from opsdk.http.server.request import HttpRequest, Query
from opsdk.recording.boundary import ExternalCall, RequestHandler
from opsdk.recording.recorder import encode_arguments, response_to, result_of
from opsdk.recording.records import CallBegan, Closed, ExchangeBegan, Failed, Outcome, Received, Responded, Returned
from opsdk.telemetry.context import current as log_fields
from opsdk.webhook.certificates.options import SelfSigned

__all__ = ["Divergence", "ReplayBoundary", "SentWrite"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """Something that differs from the recording.

    Attributes:
        what: in a sentence.
        time: of the event loop, in seconds.
        details: the fields that differ, with both values; if the times differ, when and why each request was sent.
    """

    what: str
    time: float
    details: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.what


@dataclass(frozen=True, slots=True, kw_only=True)
class SentWrite:
    """A write of a replay.

    Attributes:
        request: what was sent.
        time: of the event loop, in seconds.
        controller: whose reconcile sent it; empty for a write outside of reconciles.
        namespace: of the reconciled object.
        name: of the reconciled object.
        reconcile_id: of the reconcile, see `ReconcileRecord`.
    """

    request: ExchangeBegan
    time: float
    controller: str
    namespace: str
    name: str
    reconcile_id: str

    def __str__(self) -> str:
        key = ObjectKey(self.namespace, self.name)
        sender = f"reconcile of {self.controller} {key}" if self.controller else "outside of reconciles"
        return f"{self.request.method} {self.request.target.partition('?')[0]} ({sender})"


class ReplayBoundary:
    """A `Boundary` whose other side is a recording.

    A request gets the responses of the first recorded request that is left with its method and target, and a call the
    result of the first call that is left with its name.

    Args:
        timeline: of the recording.
        loop: of the replay.
        on_write: called after each write was sent.

    Attributes:
        certificates: the options of the operator's own certificates; None without them.
        identical: number of requests and calls that came in their iteration, byte for byte but for hidden values.
        divergences: the other ones, and answers of webhooks that differ, in order.
        writes: that were sent, except those of leases, Events and reviews.
        unanswered: requests before the checkpoint that it has no answer for.
    """

    listens = False

    def __init__(self, timeline: Timeline, loop: ReplayLoop, *, on_write: Callable[[], None] = lambda: None) -> None:
        self.timeline, self.loop = timeline, loop
        self.identical = 0
        self.divergences: list[Divergence] = []
        self.writes: list[SentWrite] = []
        self.certificates: SelfSigned | None = None
        self._hidden = HiddenValues()
        self._on_write = on_write
        self._left: dict[Hashable, deque[RecordedExchange]] = defaultdict(deque)
        self._reviews = TaskOwner("reviews")
        self.unanswered: list[str] = []
        checkpoint = timeline.checkpoint
        self._begins_in = checkpoint.began.iteration if checkpoint is not None else 0
        base_path = urlsplit(timeline.began.host).path
        self._start = StartAnswers(checkpoint, base_path) if checkpoint is not None else None
        for exchange in timeline.exchanges:
            self._left[_identity(exchange.request)].append(exchange)

    # -------------------------------------------------------------- the operator's side
    def around(self, backend: ConnectionBackend, server: str) -> ConnectionBackend:
        """See `Boundary`: no request reaches `backend`."""
        return _ReplayBackend(backend, server, self)

    def serve(self, handler: RequestHandler) -> RequestHandler:
        """See `Boundary`. The recorded reviews come in their iterations."""
        for review in self.timeline.reviews:
            start = partial(self._start_review, handler, review)
            self.loop.make_ready_in(review.request.iteration, start, place=review.place)
        return handler

    async def call(self, call: ExternalCall) -> Any:
        """See `Boundary`."""
        task = running_task()
        sender = (task.get_name(), self.loop.wake_of(task))
        began = CallBegan(self.loop.iteration, 0, call.name, encode_arguments(call.arguments), *sender)
        outcome = await self.next(await self.begin(began))
        assert isinstance(outcome, Returned)
        try:
            return msgspec.msgpack.decode(outcome.value, type=call.returns)
        except (msgspec.DecodeError, TypeError) as error:
            raise OpsdkError(
                f"the recorded result of {call.name} is no {call.returns}: {error}; annotate the type that the method "
                "returns"
            ) from error

    # -------------------------------------------------------------- the recording's side
    async def begin(self, request: ExchangeBegan | CallBegan, *, accept: str = "") -> RecordedExchange:
        """Return the recorded exchange of a request, and compare the two. Raises `ConnectionLostError` without one."""
        if self.loop.is_over:
            raise ConnectionLostError("the replay has ended")
        if self._start is not None and request.iteration < self._begins_in:
            answered = self._start.answer(request, accept) if isinstance(request, ExchangeBegan) else None
            if answered is None:
                self.unanswered.append(describe(request))
                raise ConnectionLostError(f"the checkpoint has no answer to {describe(request)}")
            return answered
        if isinstance(request, ExchangeBegan) and changes_state(request.method, request.target.partition("?")[0]):
            self._note_write(request)
        exchanges = self._left.get(_identity(request))
        if not exchanges:
            if self.timeline.end is None and self.loop.iteration >= self.timeline.last_iteration:
                # The recording is cut off here: what follows is unknown.
                await self.loop.create_future()
            self._diverge(f"sent in addition: {describe(request)}")
            raise ConnectionLostError(f"the recording has no response to {describe(request)}")
        exchange = exchanges.popleft()
        if not self._hidden.matches(_body(exchange.request), _body(request)):
            fields = body_differences(_body(exchange.request), _body(request))
            self._diverge(f"another body: {describe(request)}", fields)
        elif not self._is_at_its_time(request, exchange.request):
            moment = self.timeline.time_of(exchange.request.iteration)
            details = (self._sending("recorded", exchange.request), self._sending("replayed", request))
            self._diverge(f"sent at another time than {moment:.6f} s: {describe(request)}", details)
        else:
            self.identical += 1
        return exchange

    def _is_at_its_time(self, request: ExchangeBegan | CallBegan, recorded: ExchangeBegan | CallBegan) -> bool:
        """Whether a request came when the recorded one came.

        After a checkpoint, its iteration may be another one of the same time. A shutdown cancels tasks of the start
        that had ended in the recorded process, so its times differ by an iteration.
        """
        if self._start is None:
            return recorded.iteration == request.iteration
        if self.timeline.stop is not None and request.iteration >= self.timeline.stop:
            return True
        return abs(self.timeline.time_of(recorded.iteration) - self.loop.time()) <= TIMER_TOLERANCE

    async def next(self, exchange: RecordedExchange) -> Outcome:
        """Wait for the next outcome of an exchange, and return it or raise its exception."""
        if not exchange.outcomes:
            # The recording ends first. Only the end of the replay ends this wait.
            await self.loop.create_future()
        place, outcome = exchange.outcomes.popleft()
        is_cancelled = isinstance(outcome, Failed) and outcome.error.endswith(":CancelledError")
        try:
            await self.loop.wait_until(outcome.iteration, place)
        except asyncio.CancelledError:
            if is_cancelled:
                # The recorded exchange took until then to end.
                await self.loop.wait_until(outcome.iteration, place)
            raise
        if is_cancelled and exchange.is_open_at_checkpoint:
            # The wait of the recorded watch had begun before the checkpoint, and took too long here.
            raise TimeoutError
        if is_cancelled:
            # The recorded task was cancelled, and this one is not: it goes on waiting.
            await self.loop.create_future()
        self.loop.note_event(partial(_outcome_of, exchange.request), running_task())
        if isinstance(outcome, Failed):
            raise _error(outcome)
        return outcome

    def unsent(self) -> Sequence[ExchangeBegan | CallBegan]:
        """Return the requests of the recording that the replay has not sent so far, in order."""
        exchanges = sorted(chain.from_iterable(self._left.values()), key=lambda each: each.number)
        return [each.request for each in exchanges]

    def _start_review(self, handler: RequestHandler, review: RecordedReview) -> None:
        self._reviews.start(self._review(handler, review), name=f"review {review.request.target}")

    async def _review(self, handler: RequestHandler, review: RecordedReview) -> None:
        """Let the operator answer a recorded request to a webhook, and compare the answers."""
        request = review.request
        path, _, query = request.target.partition("?")

        async def receive() -> Message:
            return {"type": "http.request", "body": request.body, "more_body": False}

        response = await handler(
            HttpRequest(
                method=request.method,
                path=path,
                query=Query(query),
                headers={"content-type": request.content_type},
                receive=receive,
            )
        )
        answer = review.answer
        if answer is None:
            return
        if answer.status != response.status or not self._hidden.matches(answer.body, response.body):
            self._diverge(f"another answer: {request.method} {request.target}")

    def _note_write(self, request: ExchangeBegan) -> None:
        fields = log_fields()
        self.writes.append(
            SentWrite(
                request=request,
                time=self.loop.time(),
                controller=fields.get("controller", ""),
                namespace=fields.get("namespace", ""),
                name=fields.get("name", ""),
                reconcile_id=fields.get("reconcileID", ""),
            )
        )
        self._on_write()

    def restored(self, data: bytes) -> bytes:
        """Return a part of a recorded response with the hidden values that the replay knows."""
        if not has_digest(data):
            return data
        if self.certificates is not None:
            from opsdk.engine.replay.stand_in_certificates import learn_certificates  # noqa: PLC0415 - needs an extra

            learn_certificates(self._hidden, data, self.certificates)
        return self._hidden.restored(data)

    def _sending(self, side: str, request: ExchangeBegan | CallBegan) -> str:
        """Return when a request was sent, and what let its task go on."""
        moment = self.timeline.time_of(request.iteration)
        return (
            f"{side} in iteration {request.iteration} at {moment:.6f} s by {request.task}, woken by {request.woken_by}"
        )

    def _diverge(self, what: str, details: tuple[str, ...] = ()) -> None:
        self.divergences.append(Divergence(what=what, time=self.loop.time(), details=details))


@dataclass(slots=True, eq=False)
class _ReplayBackend:
    backend: ConnectionBackend
    server: str
    boundary: ReplayBoundary

    async def exchange(self, method: str, target: str, headers: Pairs, body: Body) -> ResponseStream:
        return await self._responded(method, target, headers, body if isinstance(body, bytes) else b"")

    async def connect(self, target: str, headers: Pairs) -> MessageStream:
        return await self._responded(CONNECT, target, headers, b"")

    async def _responded(self, method: str, target: str, headers: Pairs, sent: bytes) -> _ReplayStream:
        """Return the recorded response to a request."""
        by_name = {name.lower(): value for name, value in reversed(headers)}
        loop, task = self.boundary.loop, running_task()
        request = ExchangeBegan(
            iteration=loop.iteration,
            exchange=0,
            server=self.server,
            method=method,
            target=target,
            content_type=by_name.get("content-type", ""),
            body=sent,
            task=task.get_name(),
            woken_by=loop.wake_of(task),
        )
        exchange = await self.boundary.begin(request, accept=by_name.get("accept", ""))
        outcome = await self.boundary.next(exchange)
        assert isinstance(outcome, Responded)
        return _ReplayStream(outcome.status, outcome.headers, exchange, self.boundary)

    def drain(self) -> None:
        """Do nothing: there are no connections."""

    async def aclose(self) -> None:
        await self.backend.aclose()


@dataclass(slots=True, eq=False)
class _ReplayStream:
    status: int
    headers: dict[str, str]
    exchange: RecordedExchange
    boundary: ReplayBoundary

    async def read(self) -> bytes:
        while True:
            outcome = await self.boundary.next(self.exchange)
            assert isinstance(outcome, Received)
            if outcome.data or outcome.is_end:
                return self.boundary.restored(outcome.data)

    async def send(self, message: bytes) -> None:
        """Drop the message: a recording has those of the server only."""

    def abort(self) -> None:
        """Do nothing: there is no connection."""

    async def aclose(self) -> None:
        if self.exchange.outcomes and isinstance(self.exchange.outcomes[0][1], Closed):
            await self.boundary.next(self.exchange)


def _identity(request: ExchangeBegan | CallBegan) -> Hashable:
    if isinstance(request, CallBegan):
        return request.name
    return (request.server, request.method, request.target, request.content_type)


def _outcome_of(request: ExchangeBegan | CallBegan) -> str:
    if isinstance(request, CallBegan):
        return result_of(request.name)
    return response_to(request.method, request.target)


def _body(request: ExchangeBegan | CallBegan) -> bytes:
    return request.arguments if isinstance(request, CallBegan) else request.body


def _error(outcome: Failed) -> Exception:
    """Return the exception of an outcome. Only classes of modules that the operator has imported are used."""
    module, _, name = outcome.error.partition(":")
    kind = getattr(builtins if module == "builtins" else sys.modules.get(module), name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(outcome.message)
        except TypeError:
            pass
    return ConnectionLostError(f"{name}: {outcome.message}")
