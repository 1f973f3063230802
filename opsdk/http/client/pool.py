"""Connection pool for one server.

Upstream: net/http/transport.go (Go 1.25)
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from opsdk.aio.clock import loop_time, monotonic
from opsdk.aio.tasks import TaskOwner
from opsdk.errors import ConnectionLostError, UsageError
from opsdk.http.body_stream import Body, BodyStream
from opsdk.http.client.connection import ClientConnection
from opsdk.http.client.errors import TRANSPORT_ERRORS, translate
from opsdk.http.client.parser import ResponseState
from opsdk.http.client.request import CONNECT, CheckFactory, Pairs, encode_request, unchecked
from opsdk.http.client.upgrade import UpgradeConnection

if TYPE_CHECKING:  # start-up time: few programs open a WebSocket
    from opsdk.http.client.websocket import ClientWebSocket

C = TypeVar("C", bound=ClientConnection)

# The value of net/http.DefaultTransport.
IDLE_TIMEOUT = 90.0
# Go keeps 25 (k8s.io/apimachinery/pkg/util/net/http.go) and needs one, because it speaks HTTP/2. Here each running
# request needs a connection: with 25, 64 workers opened a new one with TLS for every other request, at twice the CPU.
MAX_IDLE = 256
# A burst of requests finds no idle connection. With 8 dials at a time many of them run on connections that other
# requests of the burst return, and are spared a TLS handshake (about 1 ms of CPU).
MAX_DIALS = 8
# Dials that take longer than the fastest one by this factor wait for the CPU of client or server, not for the network.
# More connections then serve no request sooner. 64 workers dialed 55 times without this rule, and 25 times with it.
SLOW_DIAL = 2.0
# A dial that takes longer than this may have lost its SYN (Linux sends it again after 1 s). Others do not wait for it.
HUNG_DIAL = 0.1
"""Seconds."""
# Python 3.11 searches the metaclass for each member of an enum that is named: not for each request.
_HEAD = ResponseState.HEAD
_CLOSED_WHILE_CONNECTING = "the transport was closed while connecting"


class ConnectionExchange:
    """The response to one request on a pooled connection."""

    __slots__ = ("_connection", "_pool", "headers", "status")

    def __init__(self, pool: ConnectionPool, connection: ClientConnection) -> None:
        self._pool = pool
        self._connection: ClientConnection | None = connection
        self.status = connection.reader.status
        self.headers = connection.reader.headers

    # Not async: connection and pool have the coroutines.
    def read(self) -> Coroutine[Any, Any, bytes]:
        return _read_nothing() if self._connection is None else self._connection.read()

    def aclose(self) -> Coroutine[Any, Any, None]:
        connection, self._connection = self._connection, None
        return self._pool.release(connection)

    def take_whole(self, limit: int) -> bytes | None:
        """Return the body of a response that has arrived, and pass its connection on.

        None if it has more than `limit` bytes, if bytes are missing or if no other request may use the connection: then
        `read` and `aclose` are needed.
        """
        connection = self._connection
        if connection is None or not connection.is_complete or connection.reader.buffered > limit:
            return None
        body = connection.reader.take()
        self._connection = None
        self._pool.put(connection)
        return body

    def __repr__(self) -> str:
        return f"<ConnectionExchange {self.status}{'' if self._connection else ', closed'}>"


async def _read_nothing() -> bytes:
    return b""


class ConnectionPool:
    """Reuses connections to one server, the most recently used first.

    A request without an idle connection waits for the next one that is dialed or returned, in order. At most
    `MAX_DIALS` dials run at a time, and one at a time after a slow one (see `SLOW_DIAL`), unless that one hangs. The
    number of connections is not limited; the concurrency of the callers limits it.

    Args:
        dial: opens a connection.
        max_idle: idle connections to keep.
        idle_timeout: seconds before an idle connection is closed.
        check_factory: returns the check that a request must pass when its connection is open, and before each send.
        dial_upgrade: opens a connection for a WebSocket; None if none is opened.
    """

    def __init__(
        self,
        dial: Callable[[], Awaitable[ClientConnection]],
        *,
        max_idle: int = MAX_IDLE,
        idle_timeout: float = IDLE_TIMEOUT,
        check_factory: CheckFactory = unchecked,
        dial_upgrade: Callable[[], Awaitable[UpgradeConnection]] | None = None,
    ) -> None:
        self._check_factory = check_factory
        self._dial_upgrade = dial_upgrade
        self._dial = dial
        self._max_idle = max_idle
        self._idle_timeout = idle_timeout
        self._idle: deque[ClientConnection] = deque()
        self._busy: dict[ClientConnection, None] = {}  # in order, so that runs repeat
        self._waiting: dict[asyncio.Future[ClientConnection | BaseException], None] = {}  # in order
        self._dials: dict[asyncio.Task[None], None] = {}  # in order
        self._clock: Callable[[], float] = monotonic
        self._max_dials = MAX_DIALS
        self._fastest_dial = math.inf
        self._hung_dial_timer: asyncio.TimerHandle | None = None
        self._tasks = TaskOwner("connections")
        self._closed = False

    @property
    def idle(self) -> int:
        """Number of idle connections."""
        return len(self._idle)

    async def exchange(self, method: str, target: str, headers: Pairs, body: Body) -> ConnectionExchange:
        """Send one request and return when the response head has arrived. Cancellation closes the connection.

        A `BodyStream` gets a new connection: the server may just have closed an idle one, and it cannot be sent again.
        """
        payload = encode_request(method, target, headers, body)
        stream = body if isinstance(body, BodyStream) else None
        if stream is None:
            connection = self._take_idle() or await self._wait_for_connection()
        else:
            connection = await self._dial_alone(self._dial)
        check = self._check_factory(method, target)
        try:
            if check is not None:
                check()
        except BaseException:
            await self.release(connection)
            raise
        try:
            if stream is not None:
                await connection.send_stream(method, payload, stream, check)
            else:
                connection.send(method, payload, check)
                # As `ClientConnection.head`, without another coroutine for each request.
                while connection.reader.state is _HEAD:
                    await connection.change()
        except BaseException as error:
            connection.abort()
            await self.release(connection)
            # Nothing was sent, or not the whole of it: the server has not seen the request.
            if connection.refusal is not None and not isinstance(error, asyncio.CancelledError):
                raise connection.refusal from None
            raise
        return ConnectionExchange(self, connection)

    async def connect(self, target: str, headers: Pairs) -> ClientWebSocket:
        """Open a WebSocket on a new connection. See `ConnectionBackend`. Cancellation closes the connection."""
        from opsdk.http.client.websocket import open_websocket  # noqa: PLC0415 - start-up time: as above

        if self._dial_upgrade is None:
            raise UsageError("this pool has no dial_upgrade, so it cannot open a WebSocket")
        connection = await self._dial_alone(self._dial_upgrade)
        release = partial(self.release, connection)
        try:
            if (check := self._check_factory(CONNECT, target)) is not None:
                check()
            return await open_websocket(connection, target, headers, check=check, release=release)
        except BaseException as error:
            connection.abort()
            await release()
            if connection.refusal is not None and not isinstance(error, asyncio.CancelledError):
                raise connection.refusal from None
            raise

    def _raise_if_closed(self) -> None:
        if self._closed:
            raise UsageError("this transport is closed; create a new one")

    def _take_idle(self) -> ClientConnection | None:
        """Return an idle connection that is still usable, or None."""
        if self._closed:
            self._raise_if_closed()
        now = self._clock() if self._idle else 0.0
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable and now - connection.idle_since < self._idle_timeout:
                self._busy[connection] = None
                return connection
            connection.abort()
        return None

    async def _dial_alone(self, dial: Callable[[], Awaitable[C]]) -> C:
        """Return a new connection. The limit of dials is for bursts of short requests, and does not count."""
        self._raise_if_closed()
        try:
            connection = await dial()
        except TRANSPORT_ERRORS as error:
            raise translate(error, sent=False, where="dial") from error
        self._busy[connection] = None
        if self._closed:
            await self.release(connection)
            raise ConnectionLostError(_CLOSED_WHILE_CONNECTING)
        return connection

    async def _wait_for_connection(self) -> ClientConnection:
        """Return the next connection that is dialed or returned. Raises the error of a dial that began later."""
        waiter: asyncio.Future[ClientConnection | BaseException] = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = None
        self._start_dials()
        try:
            result = await waiter
        except asyncio.CancelledError:
            self._waiting.pop(waiter, None)
            if not waiter.cancelled() and not isinstance(result := waiter.result(), BaseException):
                await self.release(result)
            if len(self._dials) > len(self._waiting):  # no task is left behind
                dial, _ = self._dials.popitem()
                dial.cancel()
                await asyncio.wait([dial])
            raise
        if isinstance(result, TRANSPORT_ERRORS):
            raise translate(result, sent=False, where="dial") from result
        if isinstance(result, BaseException):
            raise result
        return result

    def _start_dials(self) -> None:
        """Dial for each waiting request, as many at a time as `MAX_DIALS` and `SLOW_DIAL` allow."""
        while len(self._dials) < min(len(self._waiting), self._max_dials):
            dial = self._tasks.start(self._dial_once(tuple(self._waiting)), name="dial")
            self._dials[dial] = None
        if self._hung_dial_timer is None and len(self._dials) < min(len(self._waiting), MAX_DIALS):
            self._hung_dial_timer = asyncio.get_running_loop().call_later(HUNG_DIAL, self._dial_in_parallel)

    def _dial_in_parallel(self) -> None:
        self._hung_dial_timer = None
        self._max_dials = MAX_DIALS
        self._start_dials()

    async def _dial_once(self, waiting: tuple[asyncio.Future[ClientConnection | BaseException], ...]) -> None:
        """Dial, and pass the connection on. A failure ends every request that waited when the dial began.

        Without that, requests to a server that does not answer would wait for the time limit of one dial after another.
        """
        # Each idle connection was dialed before: so the clock is bound when one is looked for.
        self._clock = loop_time()
        began = self._clock()
        try:
            connection = await self._dial()
        except Exception as error:  # noqa: BLE001 - the requests raise it
            for waiter in waiting:
                if waiter in self._waiting and not waiter.cancelled():
                    del self._waiting[waiter]
                    waiter.set_result(error)
        else:
            seconds = self._clock() - began
            self._fastest_dial = min(self._fastest_dial, seconds)
            self._max_dials = MAX_DIALS if seconds <= SLOW_DIAL * self._fastest_dial else 1
            self._busy[connection] = None
            self.put(connection)
        finally:
            self._dials.pop(cast("asyncio.Task[None]", asyncio.current_task()), None)
            self._stop_hung_dial_timer()
        self._start_dials()

    def _stop_hung_dial_timer(self) -> None:
        if self._hung_dial_timer is not None:
            self._hung_dial_timer.cancel()
            self._hung_dial_timer = None

    def put(self, connection: ClientConnection) -> None:
        """Pass a reusable connection to the first waiting request, or keep it as idle."""
        for waiter in self._waiting:
            if not waiter.cancelled():  # a cancelled one has yet to remove itself
                del self._waiting[waiter]
                waiter.set_result(connection)
                return
        self._busy.pop(connection, None)
        now = connection.idle_since = self._clock()
        self._idle.append(connection)
        # The first one is idle for the longest time.
        while self._idle and (len(self._idle) > self._max_idle or now - self._idle[0].idle_since >= self._idle_timeout):
            self._idle.popleft().abort()

    async def release(self, connection: ClientConnection | None) -> None:
        """Return a connection after its exchange: pass it on, or close it and wait until it is closed.

        None is a connection that was returned before.
        """
        if connection is None:
            return
        if connection.reusable and not self._closed:
            self.put(connection)
            return
        self._busy.pop(connection, None)
        connection.abort()
        await connection.wait_closed()

    def drain(self) -> None:
        """Close idle connections, and close busy ones after their exchange."""
        for connection in self._busy:
            connection.draining = True
        while self._idle:
            self._idle.pop().abort()

    async def aclose(self) -> None:
        """Close every connection, also those in use. Idempotent."""
        self._closed = True
        self._stop_hung_dial_timer()
        for waiter in self._waiting:
            if not waiter.cancelled():
                waiter.set_result(ConnectionLostError(_CLOSED_WHILE_CONNECTING))
        self._waiting.clear()
        await self._tasks.aclose()
        connections = [*self._idle, *self._busy]
        self._idle.clear()
        for connection in connections:
            connection.abort()
        for connection in connections:
            await connection.wait_closed()

    def __repr__(self) -> str:
        counts = f"{len(self._busy)} busy, {len(self._idle)} idle, {len(self._waiting)} waiting"
        return f"<ConnectionPool: {counts}{', closed' if self._closed else ''}>"
