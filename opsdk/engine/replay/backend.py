"""Answers the requests of an operator from a recording."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain

import opsdk.errors
from opsdk.engine.replay.loop import ReplayLoop
from opsdk.engine.replay.timeline import RecordedExchange, Timeline
from opsdk.engine.request_kinds import changes_state
from opsdk.errors import ConnectionLostError, OpsdkError
from opsdk.http.body_stream import Body
from opsdk.http.client.request import ConnectionBackend, Pairs, ResponseStream
from opsdk.recording.records import Closed, ExchangeBegan, Failed, Outcome, Received, Responded
from opsdk.telemetry.context import current as log_fields

__all__ = ["Divergence", "ReplayBoundary", "SentRequest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """A request that differs from the recording.

    Attributes:
        recorded: the request of the recording; None if it has none.
        replayed: the request of the replay; None if it did not send the recorded one.
        time: of the event loop, in seconds.
    """

    recorded: ExchangeBegan | None
    replayed: ExchangeBegan | None
    time: float

    def __str__(self) -> str:
        if self.recorded is None:
            assert self.replayed is not None
            return f"sent in addition: {self.replayed.method} {self.replayed.target}"
        if self.replayed is None:
            return f"not sent: {self.recorded.method} {self.recorded.target}"
        differs = "another body" if self.recorded.body != self.replayed.body else "another time"
        return f"{differs}: {self.recorded.method} {self.recorded.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRequest:
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
        key = f"{self.namespace}/{self.name}" if self.namespace else self.name
        sender = f"reconcile of {self.controller} {key}" if self.controller else "outside of reconciles"
        return f"{self.request.method} {self.request.target.partition('?')[0]} ({sender})"


class ReplayBoundary:
    """A `Boundary` whose servers are a recording.

    A request gets the responses of the first recorded request that is left with its method and target.

    Args:
        timeline: of the recording.
        loop: of the replay.
        on_write: called after each write was sent.

    Attributes:
        identical: number of requests that were sent in their iteration, byte for byte.
        divergences: the other ones, in order.
        writes: that were sent, except those of leases, Events and reviews.
    """

    def __init__(self, timeline: Timeline, loop: ReplayLoop, *, on_write: Callable[[], None] = lambda: None) -> None:
        self.timeline, self.loop = timeline, loop
        self.identical = 0
        self.divergences: list[Divergence] = []
        self.writes: list[SentRequest] = []
        self._on_write = on_write
        self._left: dict[tuple[str, str, str], deque[RecordedExchange]] = defaultdict(deque)
        for exchange in timeline.exchanges:
            self._left[exchange.request.server, exchange.request.method, exchange.request.target].append(exchange)

    def around(self, backend: ConnectionBackend, server: str) -> ConnectionBackend:
        """See `Boundary`: no request reaches `backend`."""
        return _ReplayBackend(backend, server, self)

    def begin(self, request: ExchangeBegan) -> RecordedExchange | None:
        """Return the recorded exchange of a request, and compare the two."""
        if changes_state(request.method, request.target.partition("?")[0]):
            self._note_write(request)
        exchanges = self._left.get((request.server, request.method, request.target))
        if not exchanges:
            self._diverge(None, request)
            return None
        exchange = exchanges.popleft()
        recorded = exchange.request
        if (recorded.body, recorded.content_type, recorded.iteration) == (
            request.body,
            request.content_type,
            request.iteration,
        ):
            self.identical += 1
        else:
            self._diverge(recorded, request)
        return exchange

    def _note_write(self, request: ExchangeBegan) -> None:
        fields = log_fields()
        self.writes.append(
            SentRequest(
                request=request,
                time=self.loop.time(),
                controller=fields.get("controller", ""),
                namespace=fields.get("namespace", ""),
                name=fields.get("name", ""),
                reconcile_id=fields.get("reconcileID", ""),
            )
        )
        self._on_write()

    def unsent(self) -> Sequence[ExchangeBegan]:
        """Return the requests of the recording that the replay has not sent so far, in order."""
        exchanges = sorted(chain.from_iterable(self._left.values()), key=lambda each: each.number)
        return [each.request for each in exchanges]

    def _diverge(self, recorded: ExchangeBegan | None, replayed: ExchangeBegan) -> None:
        self.divergences.append(Divergence(recorded=recorded, replayed=replayed, time=self.loop.time()))


@dataclass(slots=True, eq=False)
class _ReplayBackend:
    backend: ConnectionBackend
    server: str
    boundary: ReplayBoundary

    async def exchange(self, method: str, target: str, headers: Pairs, body: Body) -> ResponseStream:
        loop = self.boundary.loop
        content_type = next((value for name, value in headers if name.lower() == "content-type"), "")
        sent = body if isinstance(body, bytes) else b""
        request = ExchangeBegan(loop.iteration, 0, self.server, method, target, content_type, sent)
        if loop.is_over:
            raise ConnectionLostError("the replay has ended")
        exchange = self.boundary.begin(request)
        if exchange is None:
            raise ConnectionLostError(f"the recording has no response to {method} {target}")
        outcome = await _next(exchange, loop)
        if not isinstance(outcome, Responded):
            raise ConnectionLostError(f"the recording ends before the response to {method} {target}")
        return _ReplayStream(outcome.status, outcome.headers, exchange, loop)

    def drain(self) -> None:
        """Do nothing: there are no connections."""

    async def aclose(self) -> None:
        await self.backend.aclose()


@dataclass(slots=True, eq=False)
class _ReplayStream:
    status: int
    headers: dict[str, str]
    exchange: RecordedExchange
    loop: ReplayLoop
    _is_closed: bool = field(default=False, init=False)

    async def read(self) -> bytes:
        while True:
            outcome = await _next(self.exchange, self.loop)
            assert isinstance(outcome, Received)
            if outcome.data or outcome.is_end:
                return outcome.data

    async def aclose(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self.exchange.outcomes and isinstance(self.exchange.outcomes[0][1], Closed):
            await _next(self.exchange, self.loop)


async def _next(exchange: RecordedExchange, loop: ReplayLoop) -> Outcome:
    """Wait for the next outcome, and return it or raise its exception."""
    if not exchange.outcomes:
        # The recording ends first. Only the end of the replay ends this wait.
        await loop.create_future()
    place, outcome = exchange.outcomes.popleft()
    is_cancelled = isinstance(outcome, Failed) and outcome.error == "CancelledError"
    try:
        await loop.wait_until(outcome.iteration, place)
    except asyncio.CancelledError:
        if is_cancelled:
            # The recorded exchange took until then to end.
            await loop.wait_until(outcome.iteration, place)
        raise
    if is_cancelled:
        # The recorded task was cancelled, and this one is not: it goes on waiting.
        await loop.create_future()
    if isinstance(outcome, Failed):
        raise _error(outcome)
    return outcome


def _error(outcome: Failed) -> Exception:
    """Return the exception of an outcome."""
    kind = getattr(opsdk.errors, outcome.error, ConnectionLostError)
    if isinstance(kind, type) and issubclass(kind, OpsdkError):
        return kind(outcome.message)
    return ConnectionLostError(outcome.message)
