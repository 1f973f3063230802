"""Laws of `opsdk.http.client.pool`."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import cast

import pytest

from opsdk.aio.clock import monotonic
from opsdk.errors import ConnectError, ConnectionLostError
from opsdk.http.client.connection import ClientConnection
from opsdk.http.client.parser import ResponseState
from opsdk.http.client.pool import HUNG_DIAL, MAX_DIALS, ConnectionPool


class FakeConnection:
    """A connection that answers after `delay` seconds."""

    def __init__(self, delay: float, started: list[str]) -> None:
        self.where = "fake"
        self.started = started
        self.delay = delay
        self.idle_since = 0.0
        self.reusable = True
        self.draining = False
        self.refusal = None
        self.requests = 0
        self.running = False
        self.reader = SimpleNamespace(status=200, headers={}, state=ResponseState.IDLE)

    def send(self, method: str, payload: bytes, check: object) -> None:
        """Start an exchange; two at a time are an error."""
        assert not self.running
        self.running = True
        self.reader.state = ResponseState.HEAD
        self.requests += 1
        self.started.append(payload.split()[1].decode())

    async def change(self) -> None:
        """Answer."""
        await asyncio.sleep(self.delay)
        self.running = False
        self.reader.state = ResponseState.DONE

    def abort(self) -> None:
        """Close."""
        self.reusable = False

    async def wait_closed(self) -> None:
        """Wait for nothing."""


class FakeServer:
    """Dials fake connections, and counts them.

    Attributes:
        failures: what the next dials raise; None lets one succeed.
        saturated: a dial takes longer for each connection that is busy, as on a server without idle CPU.
        started: targets of requests.
    """

    def __init__(self, dial_time: float = 0.5, answer_time: float = 1.0) -> None:
        self.dial_time, self.answer_time = dial_time, answer_time
        self.connections: list[FakeConnection] = []
        self.failures: list[Exception | None] = []
        self.started: list[str] = []
        self.dialing = self.most_dialing = 0
        self.saturated = False

    async def dial(self) -> ClientConnection:
        """Return a new connection."""
        failure = self.failures.pop(0) if self.failures else None
        self.dialing += 1
        self.most_dialing = max(self.most_dialing, self.dialing)
        try:
            busy = sum(connection.running for connection in self.connections) if self.saturated else 0
            await asyncio.sleep(self.dial_time * (1 + busy))
        finally:
            self.dialing -= 1
        if failure is not None:
            raise failure
        connection = FakeConnection(self.answer_time, self.started)
        self.connections.append(connection)
        return cast("ClientConnection", connection)


async def request(pool: ConnectionPool, target: str = "/") -> None:
    """Send one request and return its connection."""
    exchange = await pool.exchange("GET", target, (), b"")
    await exchange.aclose()


async def test_a_burst_runs_on_few_connections() -> None:
    """Requests wait for returned connections too, so a burst does not dial once for each of them."""
    server = FakeServer(dial_time=1.0, answer_time=0.01)
    pool = ConnectionPool(server.dial)
    await asyncio.gather(*(request(pool) for _ in range(64)))
    assert server.most_dialing == MAX_DIALS
    assert len(server.connections) <= 2 * MAX_DIALS
    assert sum(connection.requests for connection in server.connections) == 64
    await pool.aclose()


async def test_slow_requests_get_a_connection_each() -> None:
    """Requests that do not end keep no other request from a connection of its own."""
    server = FakeServer(dial_time=0.1, answer_time=1000.0)
    pool = ConnectionPool(server.dial)
    started = monotonic()
    await asyncio.gather(*(request(pool) for _ in range(64)))
    assert len(server.connections) == 64
    assert monotonic() - started == pytest.approx(1000 + 64 / MAX_DIALS * 0.1)
    await pool.aclose()


async def test_slow_dials_run_one_at_a_time() -> None:
    """A saturated server gets few connections; when its dials are fast again, they run in parallel again."""
    server = FakeServer(dial_time=0.005, answer_time=0.01)
    server.saturated = True
    pool = ConnectionPool(server.dial)
    await asyncio.gather(*(request(pool) for _ in range(8)))
    server.most_dialing = 0
    await asyncio.gather(*(request(pool) for _ in range(200)))
    assert server.most_dialing == MAX_DIALS  # the first ones of a burst
    assert len(server.connections) <= 3 * MAX_DIALS

    server.saturated = False
    server.answer_time = 1000.0
    started = monotonic()
    for connection in server.connections:
        connection.delay = 1000.0
    await asyncio.gather(*(request(pool) for _ in range(100)))
    assert len(server.connections) == 100
    assert monotonic() - started < 1000 + 2 * HUNG_DIAL
    await pool.aclose()


async def test_a_dial_that_hangs_delays_no_other() -> None:
    """After a slow dial, dials run one at a time, but do not wait for one whose packets are lost."""
    server = FakeServer(dial_time=0.01, answer_time=1000.0)
    pool = ConnectionPool(server.dial)
    await request(pool)
    server.dial_time = 0.03
    server.connections[0].delay = 1000.0
    first = asyncio.create_task(request(pool))
    await asyncio.sleep(0)
    slow = asyncio.create_task(request(pool))
    await asyncio.sleep(0.05)  # this dial was slow: one at a time from here
    server.dial_time = 30.0
    others = [asyncio.create_task(request(pool)) for _ in range(5)]
    await asyncio.sleep(0.01)
    assert server.dialing == 1
    server.dial_time = 0.01
    await asyncio.sleep(0.2)
    assert len(server.started) == 1 + 2 + 4
    for task in (first, slow, *others):
        task.cancel()
    await asyncio.wait([first, slow, *others])
    await pool.aclose()


async def test_requests_start_in_the_order_in_which_they_came() -> None:
    """The request that waits for the longest time gets the next connection."""
    server = FakeServer(dial_time=0.5, answer_time=0.3)
    pool = ConnectionPool(server.dial)
    targets = [f"/{number}" for number in range(40)]
    await asyncio.gather(*(request(pool, target) for target in targets))
    assert server.started == targets
    await pool.aclose()


async def test_a_server_without_an_answer_fails_each_request_within_two_dials() -> None:
    """A failed dial ends every request that waited when it began."""
    server = FakeServer(dial_time=30.0)
    server.failures = [TimeoutError("no answer")] * 64
    pool = ConnectionPool(server.dial)
    started = monotonic()
    results = await asyncio.gather(*(request(pool) for _ in range(64)), return_exceptions=True)
    assert all(isinstance(result, ConnectError) for result in results)
    assert monotonic() - started <= 60
    await pool.aclose()


async def test_a_failure_ends_no_request_that_came_later() -> None:
    """A request never raises the error of a dial that began before it waited."""
    server = FakeServer(dial_time=10.0)
    server.failures = [OSError("refused"), None]
    pool = ConnectionPool(server.dial)
    first = asyncio.create_task(request(pool))
    await asyncio.sleep(5)
    second = asyncio.create_task(request(pool))
    with pytest.raises(ConnectError, match="refused"):
        await first
    await second
    await pool.aclose()


async def test_a_cancelled_request_leaves_no_dial_behind() -> None:
    """The dial of a cancelled request ends with it, unless another request waits for a connection."""
    server = FakeServer(dial_time=10.0)
    pool = ConnectionPool(server.dial)
    task = asyncio.create_task(request(pool))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert server.dialing == 0
    assert not server.connections
    await pool.aclose()


async def test_closing_ends_requests_that_wait() -> None:
    """A request that waits for a connection when the pool closes raises, and its dial ends."""
    server = FakeServer(dial_time=10.0)
    pool = ConnectionPool(server.dial)
    task = asyncio.create_task(request(pool))
    await asyncio.sleep(1)
    await pool.aclose()
    with pytest.raises(ConnectionLostError, match="closed"):
        await task
    assert server.dialing == 0


@pytest.mark.parametrize("seed", range(100))
async def test_no_interleaving_loses_a_request_or_a_connection(seed: int) -> None:
    """However dials fail and requests are cancelled, each request ends, and each connection is idle or closed."""
    rng = random.Random(seed)
    server = FakeServer(dial_time=rng.choice([0.0, 0.1, 1.0]), answer_time=rng.choice([0.0, 0.1, 1.0]))
    server.failures = [OSError("refused") if rng.random() < 0.3 else None for _ in range(100)]
    pool = ConnectionPool(server.dial)

    async def sometimes_cancelled() -> None:
        await asyncio.sleep(rng.choice([0.0, 0.1, 0.5]))
        task = asyncio.create_task(request(pool))
        await asyncio.sleep(rng.choice([0.0, 0.0, 0.1, 1.0]))
        for _ in range(rng.randrange(4)):
            await asyncio.sleep(0)
        if rng.random() < 0.4:
            task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() or task.exception() is None or isinstance(task.exception(), ConnectError)

    await asyncio.gather(*(sometimes_cancelled() for _ in range(60)))
    assert server.most_dialing <= MAX_DIALS
    await asyncio.sleep(5)
    assert server.dialing == 0
    alive = [connection for connection in server.connections if connection.reusable]
    assert len(alive) == pool.idle
    assert repr(pool) == f"<ConnectionPool: 0 busy, {pool.idle} idle, 0 waiting>"
    await pool.aclose()
    assert not [connection for connection in server.connections if connection.reusable]
