"""State that all connections of one server share."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from email.utils import formatdate
from itertools import chain
from typing import Final, Protocol

from opsdk.aio.clock import monotonic
from opsdk.aio.containment import contain
from opsdk.base.limits import LIMITS, Limits
from opsdk.errors import ConnectionLostError
from opsdk.http.asgi_types import App, Scope
from opsdk.http.server.exchange import ServerExchange
from opsdk.http.server.known_heads import KnownHeads, RawHeaders
from opsdk.http.server.request import DECODED_HEADERS

_LOG = logging.getLogger("opsdk.http.server")
_HEADS_SECONDS = 60.0


_LARGE_HEAD: Final = 16 * 1024
"""Bytes of a request head from which on its application takes milliseconds to read it."""
_PAUSE_SECONDS: Final = 0.01
"""Seconds between two requests with a large head, at least: as long as the first one keeps the event loop."""


_AT_ONCE: Final = 8
"""Requests that begin, or learn that their clients have left, in one iteration of the event loop: 4 ms.

Clients that send or leave by hundreds at once would keep the loop for as many milliseconds."""


_PROBES: Final = frozenset({"/healthz", "/livez", "/readyz"})
"""Paths of requests that begin before others. Upstream: the FlowSchema ``probes`` of the level ``exempt``."""


class StoppableConnection(Protocol):
    """The methods of a connection with which the server stops it."""

    def stop(self) -> None:
        """Finish the current response, then close."""
        ...

    def abort(self) -> None:
        """Close at once, without a response."""
        ...


class Service:
    """The application, the open connections and the running requests of a server.

    Attributes:
        limits: what the connections accept.
        draining: the server stops: each connection closes after its current response.
        heads: the header blocks that any connection has parsed.
    """

    def __init__(self, app: App, limits: Limits = LIMITS) -> None:
        self.app = app
        self.limits = limits
        self.connections: dict[StoppableConnection, None] = {}  # in order, so that runs repeat
        self.tasks: dict[asyncio.Task[None], None] = {}
        self.draining = False
        self.heads = KnownHeads(limits)
        self._heads_timer: asyncio.TimerHandle | None = None
        self._empty: asyncio.Event | None = None
        self._large_head = asyncio.Lock()
        self._to_begin = 0  # tasks whose first step is to come
        self._waiting: deque[tuple[ServerExchange, Callable[[], None]]] = deque()
        self._left_now = 0
        self._leaving: deque[Callable[[], None]] = deque()
        self._next_large = 0.0
        self._date_second = 0
        self._date = b""

    def __repr__(self) -> str:
        return f"<Service with {len(self.connections)} connections>"

    def date(self) -> bytes:
        """Return the Date header's value, computed once in a second."""
        now = int(time.time())
        if now != self._date_second:
            self._date_second, self._date = now, formatdate(now, usegmt=True).encode()
        return self._date

    def learn_head(self, data: bytes, headers: RawHeaders) -> None:
        """Remember the header block of a request until it is unused for `_HEADS_SECONDS`, or for twice as long."""
        self.heads.learn(data, headers)
        if self._heads_timer is None and self.heads:
            self._heads_timer = asyncio.get_running_loop().call_later(_HEADS_SECONDS, self._rotate_heads)

    def _rotate_heads(self) -> None:
        self.heads.rotate()
        self._heads_timer = None
        if self.heads:
            self._heads_timer = asyncio.get_running_loop().call_later(_HEADS_SECONDS, self._rotate_heads)

    def discard(self, connection: StoppableConnection) -> None:
        """Remove a connection that has ended."""
        self.connections.pop(connection, None)
        if self._empty is not None and not self.connections:
            self._empty.set()

    async def wait_empty(self, seconds: float) -> None:
        """Return when no connection is left, or after `seconds`."""
        if not self.connections:
            return
        self._empty = asyncio.Event()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._empty.wait(), seconds)

    def start(self, exchange: ServerExchange, on_failure: Callable[[], None]) -> None:
        """Run the application for a request, in a new task. `on_failure` is called if the response is incomplete."""
        if self._to_begin < _AT_ONCE or exchange.scope["path"] in _PROBES:
            self._create_task(exchange, on_failure)
        else:
            self._waiting.append((exchange, on_failure))

    def _create_task(self, exchange: ServerExchange, on_failure: Callable[[], None]) -> None:
        self._to_begin += 1
        task = asyncio.get_running_loop().create_task(self._run(exchange, on_failure))
        self.tasks[task] = None

    def drain(self) -> None:
        """Begin all requests that have arrived. The connections close after them."""
        self.draining = True
        while self._waiting:
            self._create_task(*self._waiting.popleft())

    def leave(self, wake: Callable[[], None]) -> None:
        """A client has left: call `wake` for its requests, now or in one of the next iterations."""
        if self._left_now >= _AT_ONCE:
            self._leaving.append(wake)
            return
        if not self._left_now:
            asyncio.get_running_loop().call_soon(self._leave_more)
        self._left_now += 1
        wake()

    def _leave_more(self) -> None:
        self._left_now = 0
        for _ in range(min(len(self._leaving), _AT_ONCE)):
            self.leave(self._leaving.popleft())

    async def _pause(self) -> None:
        """Let requests with large heads begin one after another: the event loop serves others half of the time."""
        await self._large_head.acquire()
        try:
            if (wait := self._next_large - monotonic()) > 0:
                await asyncio.sleep(wait)
        finally:
            asyncio.get_running_loop().call_soon(self._rest_after, monotonic())

    def _rest_after(self, begin: float) -> None:
        """The first step of a request with a large head has ended; it began at `begin`."""
        now = monotonic()
        self._next_large = now + max(now - begin, _PAUSE_SECONDS)
        self._large_head.release()

    async def _run(self, exchange: ServerExchange, on_failure: Callable[[], None]) -> None:
        """Run the application for one exchange. Its exception fails the exchange only."""
        task = asyncio.current_task()
        assert task is not None
        self._to_begin -= 1
        if self._waiting:
            self._create_task(*self._waiting.popleft())
        try:
            if _has_large_head(exchange.scope):
                await self._pause()
            await exchange.app(exchange.scope, exchange.receive, exchange.send)
        except asyncio.CancelledError:
            # The server stops: end the response here, if its framing allows that.
            exchange.finish()
        except BaseException as error:  # noqa: BLE001 - no request may stop the server
            contain(error, task=task)
            if not (exchange.disconnected and isinstance(error, ConnectionLostError)):
                _LOG.exception("the application failed on %r", exchange)
        finally:
            self.tasks.pop(task, None)  # not a done callback: the loop would run one more handle for each request
        if not exchange.complete and not exchange.disconnected:
            on_failure()


def _has_large_head(scope: Scope) -> bool:
    if len(scope["raw_path"]) + len(scope["query_string"]) > _LARGE_HEAD:
        return True
    # Known header blocks are small.
    return DECODED_HEADERS not in scope and sum(map(len, chain.from_iterable(scope["headers"]))) > _LARGE_HEAD
