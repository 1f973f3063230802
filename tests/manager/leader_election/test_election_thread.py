"""An election in a thread: it goes on while the operator's loop is blocked, and always comes to an end."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from opsdk.api.coordination.v1 import Lease
from opsdk.apimachinery.object import deep_copy
from opsdk.client.client import Client
from opsdk.client.operations import Create, Get, Operation, Update
from opsdk.errors import ConnectError, LeaderElectionLostError, NotFoundError, UsageError
from opsdk.manager.leader_election.election_thread import ElectionThread
from opsdk.manager.leader_election.leader_election_record import LeaderElectionOptions
from opsdk.manager.leader_election.leader_elector import LeaderElector
from opsdk.telemetry.records import Leadership, Record, TelemetryHook

pytestmark = pytest.mark.realtime


class LeaseServer:
    """Keeps one lease, and counts its writes."""

    scheme: Any = None
    mapper: Any = None

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.writes = 0
        self.fails = False
        self.hangs = False
        self.blocks = threading.Event()
        self.blocks.set()

    async def execute(self, operation: Operation) -> Any:
        self.blocks.wait()
        while self.hangs:
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue
        if self.fails:
            raise ConnectError("down")
        if isinstance(operation, Get):
            if self.lease is None:
                raise NotFoundError("no lease")
            return deep_copy(self.lease)
        assert isinstance(operation, Create | Update)
        obj: Any = operation.obj
        self.writes += 1
        self.lease = deep_copy(obj)
        return obj

    def watch(self, operation: Any) -> Any:
        raise NotImplementedError


class Election:
    """An election thread with short times, and what its maker did."""

    def __init__(self, *, max_stall: float | None = 60.0, error: Exception | None = None) -> None:
        self.server = LeaseServer()
        self.records: list[tuple[bool, int]] = []
        self.closed = False
        self.error = error
        self.thread = ElectionThread(self._make, hook=self._hook(), max_stall=max_stall)

    def _hook(self) -> TelemetryHook:
        records = self.records

        class Hook(TelemetryHook):
            def record(self, record: Record) -> None:
                assert isinstance(record, Leadership)
                records.append((record.leading, threading.get_ident()))

        return Hook()

    @asynccontextmanager
    async def _make(self, hook: TelemetryHook) -> AsyncIterator[LeaderElector]:
        if self.error is not None:
            raise self.error
        options = LeaderElectionOptions(
            name="n", namespace="ns", identity="a", lease_duration=2, renew_deadline=1, retry_period=0.1
        )
        try:
            yield LeaderElector(Client(self.server), options, hook=hook)
        finally:
            self.closed = True


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, at most ten seconds."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


def threads() -> int:
    """How many election threads run."""
    return sum(thread.name == "leader election" for thread in threading.enumerate())


@pytest.mark.slow
async def test_a_life() -> None:
    """It leads, survives a blocked loop longer than the lease, releases the lease, and leaves nothing."""
    election = Election()
    running = asyncio.create_task(election.thread.run())
    await election.thread.wait_elected()
    assert election.thread.is_leader
    election.thread.check("a write")
    before = election.server.writes
    time.sleep(2.5)  # noqa: ASYNC251 - longer than the lease lasts
    assert election.thread.is_leader
    assert election.server.writes > before + 10
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    writes = election.server.writes
    await election.thread.release()
    assert not election.thread.is_leader
    with pytest.raises(LeaderElectionLostError):
        election.thread.check("a write")
    assert election.server.writes == writes + 1
    assert election.server.lease is not None
    assert election.server.lease.spec.holder_identity == ""
    await election.thread.aclose()
    await election.thread.aclose()
    assert election.closed
    await until(lambda: threads() == 0)
    assert [leading for leading, _ in election.records] == [False, True, False]
    assert {thread for _, thread in election.records} == {threading.get_ident()}


async def test_a_lost_lease_is_raised() -> None:
    """A lost lease raises the elector's error, and threads detect the loss by the clock."""
    election = Election()
    running = asyncio.create_task(election.thread.run())
    await election.thread.wait_elected()
    await asyncio.to_thread(election.thread.check, "a write")
    election.server.fails = True
    with pytest.raises(LeaderElectionLostError, match="could not renew ns/n"):
        await running
    with pytest.raises(LeaderElectionLostError, match="a write"):
        await asyncio.to_thread(election.thread.check, "a write")
    await election.thread.aclose()


async def test_a_stuck_loop_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    """After `max_stall` the renewals stop, the fence closes at once, and the log has the stack of the loop."""
    election = Election(max_stall=0.4)
    running = asyncio.create_task(election.thread.run())
    await election.thread.wait_elected()
    began = time.monotonic()
    while election.thread.is_leader and time.monotonic() - began < 10:
        time.sleep(0.01)  # noqa: ASYNC251 - the loop is stuck
    assert time.monotonic() - began < 5
    writes = election.server.writes
    with pytest.raises(LeaderElectionLostError, match="the event loop was blocked for"):
        await running
    await asyncio.sleep(0.3)
    assert election.server.writes == writes
    critical = [r.getMessage() for r in caplog.records if r.levelno == logging.CRITICAL]
    assert len(critical) == 1
    assert "test_a_stuck_loop_is_replaced" in critical[0]
    await election.thread.aclose()


@pytest.mark.slow
async def test_a_standby_whose_loop_is_blocked_does_not_take_the_lease() -> None:
    """Another replica can do the work at once. It takes part again when its loop runs."""
    election = Election(max_stall=20.0)
    election.server.fails = True
    running = asyncio.create_task(election.thread.run())
    await asyncio.sleep(0.5)
    time.sleep(3)  # noqa: ASYNC251 - no heartbeat for three intervals, but less than max_stall
    election.server.fails = False
    time.sleep(0.7)  # noqa: ASYNC251
    assert election.server.lease is None
    await election.thread.wait_elected()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await election.thread.aclose()


async def test_a_system_without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is raised, and nothing is left to close."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    election = Election()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            await election.thread.run()
    began = time.monotonic()
    await election.thread.release()
    await election.thread.aclose()
    assert time.monotonic() - began < 1


async def test_an_error_of_the_maker_is_raised() -> None:
    """An error while an elector is made is raised, and nothing is left to close."""
    election = Election(error=ValueError("no certificate"))
    with pytest.raises(ValueError, match="no certificate"):
        await election.thread.run()
    await election.thread.release()
    await election.thread.aclose()
    assert threads() == 0


async def test_before_the_start() -> None:
    """Before the start no lease is held or released; closing does nothing, and the thread starts once."""
    election = Election()
    assert not election.thread.is_leader
    with pytest.raises(LeaderElectionLostError, match="not started"):
        election.thread.check("a write")
    await election.thread.release()
    await election.thread.aclose()
    running = asyncio.create_task(election.thread.run())
    await election.thread.wait_elected()
    with pytest.raises(UsageError, match="runs once"):
        await election.thread.run()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await election.thread.aclose()


@pytest.mark.parametrize("turns", range(12))
async def test_a_cancellation_at_any_time(turns: int) -> None:
    """A cancelled thread elector ends its thread and closes its client, also during the start."""
    election = Election()
    running = asyncio.create_task(election.thread.run())
    for _ in range(turns):
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await election.thread.aclose()
    await until(lambda: threads() == 0)


@pytest.mark.slow
async def test_a_thread_that_hangs_is_left(caplog: pytest.LogCaptureFixture) -> None:
    """Cancel and close are bounded, also when the thread is stuck in a blocking call; the log names the call."""
    election = Election()
    running = asyncio.create_task(election.thread.run())
    await election.thread.wait_elected()
    election.server.blocks.clear()
    await asyncio.sleep(0.3)
    began = time.monotonic()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await election.thread.aclose()
    assert time.monotonic() - began < 8
    assert "the leader election thread did not stop, it is still in" in caplog.text
    election.server.blocks.set()
    await until(lambda: threads() == 0)


@pytest.mark.slow
async def test_a_request_that_ignores_its_cancellation_does_not_hold_up_the_end() -> None:
    """The thread leaves it after a few seconds."""
    election = Election()
    running = asyncio.create_task(election.thread.run())
    await election.thread.wait_elected()
    election.server.hangs = True
    await asyncio.sleep(0.3)
    began = time.monotonic()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await election.thread.aclose()
    assert time.monotonic() - began < 8
    election.server.hangs = False
    await until(lambda: threads() == 0)


def test_the_thread_ends_with_its_loop() -> None:
    """A program whose loop ended without `aclose` still exits: the thread is a daemon."""
    election = Election()

    async def main() -> None:
        running = asyncio.create_task(election.thread.run())
        await election.thread.wait_elected()
        running.cancel()

    asyncio.run(main())
    assert all(t.daemon for t in threading.enumerate() if t.name == "leader election")
    election.thread._call_in_thread_loop(election.thread._shutdown.set)
    began = time.monotonic()
    while threads() and time.monotonic() - began < 5:
        time.sleep(0.01)
    assert not threads()
