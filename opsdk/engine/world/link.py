"""A proxy between one client and the API server: an ASGI application that applies faults on demand.

It is independent of the application behind it, so it also serves clients in other languages.
"""

from __future__ import annotations

import asyncio
import json
import random
import zlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs

import msgspec

from opsdk.aio.randomness import seeded
from opsdk.apiserver.endpoints.status import status_of
from opsdk.engine.world.exchange import CURRENT_EXCHANGE, Exchange
from opsdk.engine.world.faults import PLACED_AT_WRITES, PLACED_FAULTS, Fault, Step
from opsdk.errors import ApiError
from opsdk.http.asgi_types import CUT, App, Message, Receive, Scope, Send

_ERRORS = {
    Fault.CONFLICT: ApiError("injected: the object has been modified", code=409, reason="Conflict"),
    Fault.CONFLICTING_WRITE: ApiError("injected: the object has been modified", code=409, reason="Conflict"),
    Fault.THROTTLE: ApiError("injected: too many requests", code=429, reason="TooManyRequests"),
    Fault.INTERNAL_ERROR: ApiError("injected: internal error", code=500, reason="InternalError"),
    Fault.UNAVAILABLE: ApiError("injected: the server is unavailable", code=503, reason="ServiceUnavailable"),
    Fault.REFUSE_WATCHES: ApiError("injected: no watches now", code=503, reason="ServiceUnavailable"),
    Fault.EXPIRE_WATCHES: ApiError("injected: too old resource version", code=410, reason="Expired"),
    Fault.ALWAYS_EXPIRED: ApiError("injected: too old resource version", code=410, reason="Expired"),
}
_EXPIRED = 410
_CONDITIONAL = ("PUT", "PATCH")
"""The methods of writes that fail if the object was changed meanwhile."""
_CHANCE = 0.5
"""The probability that a fault hits a request in its window; `Fault.UNAVAILABLE` hits every request."""
_MAX_DELAY = 2.0
_MAX_PLACE = 4
"""A placed fault begins with one of so many next writes or events."""
MAX_STALE_WRITES = 10
"""Writes on a view that is held back, after which it moves on. An operator that sees a deleted owner creates a child
that the garbage collector deletes, again and again: that is not its bug."""


class _Window(msgspec.Struct):
    fault: Fault
    end: float
    rng: random.Random


class _Placed(msgspec.Struct):
    """A fault that begins with a write or an event.

    Attributes:
        fault: of `PLACED_FAULTS`.
        remaining: number of the write or event, from now.
        seconds: of the window that begins then.
    """

    fault: Fault
    remaining: int
    seconds: float


class _OpenWatch(msgspec.Struct, eq=False):
    """A watch that is open.

    Attributes:
        path: of its request.
        abort: breaks its connection.
        send: passes a message to the client.
        task: runs the server's application.
        has_begun: the client has received the head of the response.
        ended: the client has received a 410 event, and gets nothing more.
        silent: the client gets nothing more, and does not notice.
    """

    path: str
    abort: Callable[[], None]
    send: Send
    task: asyncio.Task[None] | None = None
    has_begun: bool = False
    ended: bool = False
    silent: bool = False


@dataclass(eq=False)
class Link:
    """An ASGI application that passes requests to `app`, and applies the faults of steps.

    Args:
        app: the server's application.
        client: the name of the client, for the record.
        decide: called before each request is sent; it may wait. Returns the fault of `PLACED_AT_WRITES` or the error
            that hits it, or None.
        hold: called before each message of a watch is delivered; it may wait. Returns whether it is delivered.
        delay: called before the answer to a request that is no watch is delivered; it may wait.
        on_crash: called when a fault of `decide` ended the client.
        on_exchange: called when a request is sent.
        on_end: called when a request has ended, also by a fault.
        on_response: called when the server has responded, before the client receives the response.
        on_hot_loop: called with the method and path of a client that sends requests without a pause.
        seed: of the latencies.
        max_latency: seconds that each message takes at most: the order of messages depends on the seed.
        hot_requests: more requests of one path in one second are a hot loop; they are slowed down, so that virtual
            time moves. 0 for no limit.
        dead: see `kill`.
    """

    app: App
    client: str = "client"
    decide: Callable[[Exchange], Awaitable[Fault | None]] | None = None
    hold: Callable[[Exchange, bytes], Awaitable[bool]] | None = None
    delay: Callable[[Exchange], Awaitable[None]] | None = None
    on_crash: Callable[[], None] = lambda: None
    on_exchange: Callable[[Exchange], None] = lambda _: None
    on_end: Callable[[Exchange], None] = lambda _: None
    on_response: Callable[[Exchange], None] = lambda _: None
    on_hot_loop: Callable[[str], None] = lambda _: None
    seed: int = 0
    max_latency: float = 0.01
    hot_requests: int = 30
    dead: bool = False
    _windows: list[_Window] = field(init=False, default_factory=list)
    _watches: list[_OpenWatch] = field(init=False, default_factory=list)
    _aborts: list[Callable[[], None]] = field(init=False, default_factory=list)
    _compacted: set[str] = field(init=False, default_factory=set)
    _hidden: dict[str, asyncio.Event] = field(init=False, default_factory=dict)
    _slow: dict[str, asyncio.Event] = field(init=False, default_factory=dict)
    _held: list[asyncio.Event] = field(init=False, default_factory=list)
    _stale_writes: int = field(init=False, default=0)
    _placed: list[_Placed] = field(init=False, default_factory=list)
    _recent: dict[str, deque[float]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._rng = seeded(self.seed)

    def __repr__(self) -> str:
        return f"<Link of {self.client}: {len(self._windows)} windows, {len(self._watches)} watches>"

    # -------------------------------------------------------------- faults
    async def apply(self, step: Step) -> None:
        """Begin a fault of `NETWORK_FAULTS`."""
        fault = Fault(step.name)
        rng = seeded(step.seed)
        if fault in PLACED_FAULTS:
            self._placed.append(_Placed(fault, rng.randint(1, _MAX_PLACE), step.seconds))
            return
        if fault is Fault.EXPIRE_WATCHES:
            for watch in list(self._watches):
                await _expire(watch)
            return
        if fault is Fault.BLACK_HOLE:
            for watch in self._watches:
                watch.silent = True
        if fault in (Fault.CUT_WATCHES, Fault.REFUSE_WATCHES, Fault.ALWAYS_EXPIRED):
            for watch in list(self._watches):
                watch.abort()
                if fault is Fault.REFUSE_WATCHES:
                    self._compacted.add(watch.path)
        if step.seconds > 0:
            self._windows.append(_Window(fault, _now() + step.seconds, rng))

    def hide(self, path: str) -> asyncio.Event:
        """Break the watch of a path. Requests for it wait for the returned event; then the client lists anew."""
        for watch in list(self._watches):
            if watch.path == path:
                watch.abort()
        self._compacted.add(path)
        if (event := self._hidden.get(path)) is None or event.is_set():
            event = self._hidden[path] = asyncio.Event()
        return event

    def kill(self) -> None:
        """Break every connection, and refuse new ones: the process behind the link is dead."""
        self.dead = True
        for abort in list(self._aborts):
            abort()

    def heal(self) -> None:
        """End every fault."""
        self._placed.clear()
        self._windows.clear()
        self._move_on()

    def window(self, fault: Fault) -> random.Random | None:
        """Return the random numbers of the open window of a fault, or None."""
        if not self._windows:
            return None
        now = _now()
        self._windows = [w for w in self._windows if w.end > now]
        return next((w.rng for w in self._windows if w.fault is fault), None)

    async def _wait_end(self, fault: Fault) -> None:
        while self.window(fault) is not None:
            end = max(w.end for w in self._windows if w.fault is fault)
            await asyncio.sleep(max(end - _now(), 0.001))

    async def _vanish(self, exchange: Exchange, receive: Receive) -> None:
        """Return when the client has given up."""
        exchange.fault = Fault.BLACK_HOLE.value
        while (await receive())["type"] != "http.disconnect":
            pass

    async def _travel(self) -> None:
        if self.max_latency:
            await asyncio.sleep(self._rng.uniform(0, self.max_latency))
        await self._wait_end(Fault.PARTITION)

    def _is_hot(self, exchange: Exchange) -> bool:
        if exchange.method == "POST" or not self.hot_requests:
            return False  # creates of different objects share one path
        what = f"{exchange.method} {exchange.path}"
        times = self._recent.setdefault(what, deque())
        times.append(exchange.time)
        while times[0] < exchange.time - 1.0:
            times.popleft()
        if len(times) > self.hot_requests:
            self.on_hot_loop(what)
        return len(times) > self.hot_requests

    def _hits(self, fault: Fault) -> bool:
        rng = self.window(fault)
        return rng is not None and rng.random() < _CHANCE

    # -------------------------------------------------------------- placed faults
    def _begin_at_write(self, exchange: Exchange) -> Fault | None:
        """Count a write. Returns the fault that it meets, or None."""
        if not exchange.changes_state:
            return None
        self._stale_writes += 1
        if self._stale_writes >= MAX_STALE_WRITES:
            self._move_on()
        may_conflict = exchange.method in _CONDITIONAL
        placed = self._next_placed(PLACED_AT_WRITES if may_conflict else PLACED_AT_WRITES - {Fault.CONFLICTING_WRITE})
        return placed.fault if placed is not None else None

    async def _begin_at_event(self, path: str, body: bytes) -> bool:
        """Count an event of a watch; wait while the watch stands still. Returns whether the event is delivered."""
        # Without the deletion of an owner, an operator creates its child as often as it is collected.
        is_deletion = body.startswith(b'{"type":"DELETED"')
        placed = None if is_deletion else self._next_placed(PLACED_FAULTS - PLACED_AT_WRITES)
        if placed is not None and placed.fault is Fault.HIDE_EVENT:
            self._hold(self.hide(path), placed.seconds)
            return False
        if placed is not None:
            event = self._slow[path] = asyncio.Event()
            self._hold(event, placed.seconds)
        if (slow := self._slow.get(path)) is not None:
            await slow.wait()
        return True

    def _hold(self, event: asyncio.Event, seconds: float) -> None:
        self._stale_writes = 0
        self._held.append(event)
        asyncio.get_running_loop().call_later(seconds, event.set)

    def _move_on(self) -> None:
        """Release the views that placed faults hold back."""
        held, self._held = self._held, []
        for event in held:
            event.set()

    def _next_placed(self, faults: AbstractSet[Fault]) -> _Placed | None:
        """Count down the faults of a kind, and take the first that begins now."""
        waiting = [placed for placed in self._placed if placed.fault in faults]
        for placed in waiting:
            placed.remaining -= 1
        begun = next((placed for placed in waiting if placed.remaining <= 0), None)
        if begun is not None:
            self._placed.remove(begun)
        return begun

    # -------------------------------------------------------------- requests
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI 3."""
        if scope["type"] != "http":
            await self._pass_unseen(scope, receive, send)
            return
        query = scope["query_string"].decode()
        target = scope["path"] + (f"?{query}" if query else "")
        is_watch = parse_qs(query).get("watch", ["0"])[0] in ("1", "true", "True")
        exchange = Exchange(time=_now(), client=self.client, method=scope["method"], target=target, is_watch=is_watch)
        abort = _abort_of(scope)
        if is_watch:
            # A message that is held here is not a client that does not read: the server must not disconnect it.
            extensions = {name: value for name, value in (scope.get("extensions") or {}).items() if name != CUT}
            scope = {**scope, "extensions": extensions}
        if self.dead:
            exchange.fault = "dead"
            abort()
            return
        self.on_exchange(exchange)
        with self._abortable(abort):
            try:
                await self._pass(exchange, scope, receive, send, abort)
            finally:
                self.on_end(exchange)

    async def _pass_unseen(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a WebSocket. It takes its time, and ends with the client; other faults do not hit it."""
        abort = _abort_of(scope)
        if self.dead:
            abort()
            return
        with self._abortable(abort):
            await self._travel()
            await self.app(scope, receive, send)

    @contextmanager
    def _abortable(self, abort: Callable[[], None]) -> Iterator[None]:
        """In the block, `kill` calls a function."""
        self._aborts.append(abort)
        try:
            yield
        finally:
            self._aborts.remove(abort)

    async def _pass(
        self, exchange: Exchange, scope: Scope, receive: Receive, send: Send, abort: Callable[[], None]
    ) -> None:
        """Pass one exchange to the server, with the faults whose windows are open."""
        await self._travel()
        decided = await self.decide(exchange) if self.decide is not None else None
        decided = decided or self._begin_at_write(exchange)
        if self.window(Fault.BLACK_HOLE) is not None:
            await self._vanish(exchange, receive)
            return
        if not exchange.is_write and (hidden := self._hidden.get(exchange.path)) is not None:
            await hidden.wait()
        if self._is_hot(exchange):
            await asyncio.sleep(1.0)
        if (rng := self.window(Fault.DELAY)) is not None:
            await asyncio.sleep(rng.uniform(0, _MAX_DELAY))
        if (fault := decided if decided in _ERRORS else self._refusal(exchange)) is not None:
            await self._refuse(exchange, fault, send)
            return
        if exchange.is_watch:
            await self._watch(exchange, scope, receive, send, abort)
            return
        lost = self._loss(exchange, decided)
        if decided is Fault.CRASH_AFTER_WRITE:
            exchange.fault = decided.value

        async def read() -> Message:
            message = await receive()
            exchange.body += message.get("body", b"")
            return message

        CURRENT_EXCHANGE.set(exchange)
        await self.app(scope, read, self._sends(exchange, send if lost is None else _drop))
        if lost is not None:
            exchange.fault = lost.value
            abort()

    @staticmethod
    async def _refuse(exchange: Exchange, fault: Fault, send: Send) -> None:
        """Answer a request with the error of a fault."""
        exchange.fault = fault.value
        if exchange.is_watch and _ERRORS[fault].code == _EXPIRED:
            await _send_expired(send, head=True)
            return
        headers = [(b"content-type", b"application/json")]
        headers += [(b"retry-after", b"1")] if fault is Fault.THROTTLE else []
        body = json.dumps(status_of(_ERRORS[fault])).encode()
        headers.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": _ERRORS[fault].code, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    def _refusal(self, exchange: Exchange) -> Fault | None:
        if exchange.is_watch:
            for fault in (Fault.REFUSE_WATCHES, Fault.ALWAYS_EXPIRED):
                if self.window(fault) is not None:
                    return fault
            if exchange.path in self._compacted:
                self._compacted.remove(exchange.path)
                # A watch that begins at the present, or with all objects, never expires.
                if parse_qs(exchange.target.partition("?")[2]).get("resourceVersion", ["0"]) != ["0"]:
                    return Fault.EXPIRE_WATCHES
        if self.window(Fault.UNAVAILABLE) is not None:
            return Fault.UNAVAILABLE
        if exchange.is_lease and self.window(Fault.LOSE_LEASE) is not None:
            return Fault.UNAVAILABLE
        if exchange.method in _CONDITIONAL and self._hits(Fault.CONFLICT):
            return Fault.CONFLICT
        return next((f for f in (Fault.THROTTLE, Fault.INTERNAL_ERROR) if self._hits(f)), None)

    def _loss(self, exchange: Exchange, decided: Fault | None) -> Fault | None:
        """Return the fault that loses the answer to a request, or None."""
        if decided is Fault.LOSE_ANSWER:
            return decided
        return Fault.LOSE_ANSWERS if exchange.is_write and self._hits(Fault.LOSE_ANSWERS) else None

    def _sends(self, exchange: Exchange, send: Send) -> Send:
        async def passed(message: Message) -> None:
            is_start, body = message["type"] == "http.response.start", message.get("body", b"")
            if is_start:
                exchange.status = message["status"]
                self.on_response(exchange)
                if exchange.fault == Fault.CRASH_AFTER_WRITE.value:
                    self.kill()
                    self.on_crash()
            await self._travel()
            if exchange.is_watch and not is_start:
                await self._wait_end(Fault.SLOW_WATCHES)
                if body and not await self._is_delivered(exchange, body):
                    return
            elif self.delay is not None and is_start and not exchange.is_watch:
                await self.delay(exchange)
            exchange.digest = zlib.crc32(body, exchange.digest)
            await send(message)

        return passed

    async def _is_delivered(self, exchange: Exchange, body: bytes) -> bool:
        """Whether a message of a watch is delivered, after it has waited as long as placed faults and `hold` want."""
        if not await self._begin_at_event(exchange.path, body):
            return False
        return self.hold is None or await self.hold(exchange, body)

    async def _watch(
        self, exchange: Exchange, scope: Scope, receive: Receive, send: Send, abort: Callable[[], None]
    ) -> None:
        """Run the application in a task of its own, so that `_expire` can end it."""
        watch = _OpenWatch(exchange.path, abort, send)

        async def unless_ended(message: Message) -> None:
            if not watch.ended and not watch.silent:
                watch.has_begun = True
                await send(message)

        coro = self.app(scope, receive, self._sends(exchange, unless_ended))
        watch.task = asyncio.ensure_future(coro)
        self._watches.append(watch)
        try:
            await asyncio.wait([watch.task])
            if not watch.task.cancelled():
                watch.task.result()
        finally:
            self._watches.remove(watch)
            if not watch.task.done():
                watch.task.cancel()
                await asyncio.wait([watch.task])


def _abort_of(scope: Scope) -> Callable[[], None]:
    """Return what breaks the connection of a request; nothing happens if the server cannot."""
    abort: Callable[[], None] | None = (scope.get("extensions") or {}).get(CUT)
    return abort or (lambda: None)


async def _expire(watch: _OpenWatch) -> None:
    if not watch.has_begun or watch.ended or watch.task is None:
        return
    watch.ended = True
    await _send_expired(watch.send)
    watch.task.cancel()


async def _send_expired(send: Send, *, head: bool = False) -> None:
    """End a watch as the API server does: with an event, not with an HTTP status.

    Upstream: k8s.io/apiserver/pkg/storage/cacher/cacher.go (v1.36), `newErrWatcher`
    """
    if head:
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
    event = {"type": "ERROR", "object": status_of(_ERRORS[Fault.EXPIRE_WATCHES])}
    await send({"type": "http.response.body", "body": json.dumps(event).encode() + b"\n", "more_body": False})


async def _drop(message: Message) -> None:
    """Receive a response for a client that will not get it."""


def _now() -> float:
    return asyncio.get_running_loop().time()
