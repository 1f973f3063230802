"""Blocking functions: a bounded pool, threads that wait for the loop, and a loop that waits for threads."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk import UsageError
from opsdk.aio import blocking as module
from opsdk.aio.blocking import BlockingPool, blocking, current_call
from opsdk.aio.clock import monotonic, utc_now
from opsdk.testing.loop import VirtualLoop

TENANT: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="")


def sleep(seconds: float, *, always: bool = False) -> None:
    """Wait in the loop. In a thread."""
    current_call().wait(asyncio.sleep(seconds), always=always)


async def test_a_result_and_an_exception_reach_the_caller() -> None:
    """A thread returns and raises as a coroutine does, also an exception that is no ``Exception``."""

    class OddError(BaseException):
        pass

    def fail(error: BaseException) -> None:
        raise error

    async with BlockingPool("tests", 1) as pool:
        assert await pool.run(max, 1, 2) == 2
        for kind in (ValueError, OddError):
            with pytest.raises(kind, match="no"):
                await pool.run(fail, kind("no"))


async def test_context_variables_go_into_the_thread_and_from_it_to_its_waits() -> None:
    """A wait sees what the thread has set; the caller does not."""

    async def tenant() -> str:
        return TENANT.get()

    def work() -> list[str]:
        values = [TENANT.get()]
        TENANT.set("inner")
        return [*values, current_call().wait(tenant())]

    TENANT.set("outer")
    async with BlockingPool("tests", 1) as pool:
        assert await pool.run(work) == ["outer", "inner"]
    assert TENANT.get() == "outer"


async def test_the_clock_of_a_thread_is_that_of_its_loop() -> None:
    """Virtual time passes in waits only, not while the thread computes."""

    def work() -> list[float]:
        began, wall = monotonic(), utc_now()
        time.sleep(0.01)
        computed = monotonic() - began
        sleep(3600)
        return [computed, monotonic() - began, (utc_now() - wall).total_seconds()]

    async with BlockingPool("tests", 1) as pool:
        assert await pool.run(work) == [0, 3600, 3600]


def run_schedule(calls: list[tuple[int, list[int]]], size: int) -> list[tuple[float, int, str]]:
    """Run calls, each after a number of seconds with its waits; return who did what when."""
    transcript: list[tuple[float, int, str]] = []

    def work(number: int, waits: list[int]) -> None:
        transcript.append((monotonic(), number, "begins"))
        for seconds in waits:
            sleep(seconds)
            transcript.append((monotonic(), number, "continues"))
        transcript.append((monotonic(), number, "ends"))

    async def main() -> None:
        async with BlockingPool("tests", size) as pool, asyncio.TaskGroup() as tasks:
            for number, (after, waits) in enumerate(calls):

                async def call(number: int = number, after: int = after, waits: list[int] = waits) -> None:
                    await asyncio.sleep(after)
                    transcript.append((monotonic(), number, "calls"))
                    await pool.run(work, number, waits)

                tasks.create_task(call())

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main())
    return transcript


CALLS = st.lists(st.tuples(st.integers(0, 3), st.lists(st.integers(0, 3), max_size=3)), max_size=6)


@given(CALLS, st.integers(1, 3))
def test_a_pool_is_bounded_and_repeats_in_virtual_time(calls: list[tuple[int, list[int]]], size: int) -> None:
    """At most `size` functions run, they begin in the order of their calls, and a second run does the same."""
    transcript = run_schedule(calls, size)
    running, most = 0, 0
    for _, _, step in transcript:
        running += {"begins": 1, "ends": -1}.get(step, 0)
        most = max(most, running)
    assert most <= size
    called, begun = ([number for _, number, step in transcript if step == name] for name in ("calls", "begins"))
    assert begun == called
    assert run_schedule(calls, size) == transcript


class Cancelled:
    """A function that records what its waits raise, and waits on for a while."""

    def __init__(self, stays: float = 0.0) -> None:
        self.raised: list[str] = []
        self.ended_at = 0.0
        self.stays = stays

    def work(self) -> str:
        for _ in range(2):
            try:
                sleep(60)
            except asyncio.CancelledError as error:
                self.raised.append(str(error))
        sleep(self.stays, always=True)
        self.ended_at = monotonic()
        return "a result that nobody waits for"


async def test_a_cancellation_is_raised_in_the_wait_and_in_every_later_one() -> None:
    """The cancelled caller ends after its thread."""
    function = Cancelled(stays=30)
    async with BlockingPool("tests", 1) as pool:
        task = asyncio.create_task(pool.run(function.work), name="work on a")
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert monotonic() == function.ended_at == 31
        assert function.raised == ["work on a was cancelled: its deadline has passed, or its caller stops"] * 2


async def test_a_timeout_is_one_although_the_thread_ends_later() -> None:
    """``asyncio.timeout`` raises TimeoutError, with the thread's own error behind it."""

    def work() -> None:
        try:
            sleep(60)
        except asyncio.CancelledError:
            raise ValueError("the upload was cut") from None

    async with BlockingPool("tests", 1) as pool:
        with pytest.raises(TimeoutError) as raised:
            async with asyncio.timeout(5):
                await pool.run(work)
    # The cause of a timeout: asyncio.timeout of Python 3.11.2 keeps it only as the context.
    cancelled = raised.value.__context__
    assert cancelled is not None
    assert repr(cancelled.__cause__) == "ValueError('the upload was cut')"


async def test_a_cancelled_call_that_waits_for_a_thread_takes_none() -> None:
    """A cancelled call leaves the queue for threads, also if it got one at the same time."""
    async with BlockingPool("tests", 1) as pool:
        first = asyncio.create_task(pool.run(sleep, 1))
        second, third = (asyncio.create_task(pool.run(sleep, 1)) for _ in range(2))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.gather(first, second, third, return_exceptions=True)
        assert (monotonic(), repr(pool)) == (2, "<BlockingPool tests: 0 of 1 threads busy>")


async def test_threads_that_the_function_starts_wait_with_its_context() -> None:
    """Threads that a function starts have the call's context variables, which Python does not pass on."""

    async def tenant() -> str:
        await asyncio.sleep(1)
        return TENANT.get()

    def work() -> list[str]:
        call, values = current_call(), list[str]()
        threads = [threading.Thread(target=lambda: values.append(call.wait(tenant()))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return values

    TENANT.set("outer")
    async with BlockingPool("tests", 1) as pool:
        assert await pool.run(work) == ["outer"] * 3


async def test_a_wait_outside_of_its_call_is_refused() -> None:
    """A wait in the event loop would deadlock, and one after its call cannot be cancelled: both are refused."""
    async with BlockingPool("tests", 1) as pool:
        call = await pool.run(current_call)
        with pytest.raises(UsageError, match="would block the event loop"):
            call.wait(asyncio.sleep(0))
        with pytest.raises(UsageError, match="has ended: its context is valid until then"):
            await pool.run(lambda: call.wait(asyncio.sleep(0)))
    with pytest.raises(UsageError, match="await the async method"):
        current_call()
    with pytest.raises(RuntimeError, match="tests is closed"):
        await pool.run(sleep, 1)


# ------------------------------------------------------------------ the decorator
class Library:
    """A class with a blocking method."""

    @blocking(threads=2)
    def size(self, name: str) -> int:
        """Return a length."""
        sleep(1)
        return len(name)


async def test_a_decorated_method_is_async_and_bounded() -> None:
    """Three calls in two threads take two turns."""
    assert await asyncio.gather(*(Library().size(name) for name in ("a", "bc", "def"))) == [1, 2, 3]
    assert monotonic() == 2


async def _async() -> None: ...
def _generator() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: blocking(_async), "neither a class nor an async one"),
        (lambda: blocking(functools.partial(_async)), "neither a class nor an async one"),
        (lambda: blocking(_generator), "neither a class nor an async one"),
        (lambda: blocking(int), "neither a class nor an async one"),
        (lambda: blocking(3), "decorate a plain function"),  # type: ignore[call-overload]
        (lambda: blocking(threads=0), "threads is 0: pass a number of threads, at least 1"),
        (lambda: blocking(threads=True), "threads is True"),
        (lambda: blocking(threads="4"), "threads is '4'"),  # type: ignore[call-overload]
    ],
)
def test_a_wrong_decoration_is_refused(make: Callable[[], object], message: str) -> None:
    """The message says what to write."""
    with pytest.raises(UsageError, match=message):
        make()


# ------------------------------------------------------------------ real threads
@pytest.mark.realtime
async def test_the_loop_runs_while_a_thread_computes() -> None:
    """The thread ends only after the loop has done something."""
    turn = threading.Event()
    async with BlockingPool("tests", 1) as pool:
        running = asyncio.create_task(pool.run(turn.wait, 60))
        await asyncio.sleep(0.01)
        turn.set()
        assert await running


@pytest.mark.realtime
async def test_a_thread_that_does_not_end_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has the task's name and the line; the caller waits, however often it is cancelled."""
    monkeypatch.setattr(module, "_ENDS_WITHIN", 0.01)
    end = threading.Event()

    def upload() -> None:
        end.wait(60)

    async with BlockingPool("tests", 1) as pool:
        task = asyncio.create_task(pool.run(upload), name="sites/reconcile default/a")
        await asyncio.sleep(0.01)
        task.cancel()
        while "still runs in" not in caplog.text:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.sleep(0.01)
        assert not task.done()
        end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert "the thread 'sites/reconcile default/a' was cancelled, and still runs in" in caplog.text
    assert "in upload" in caplog.text


def test_a_thread_that_outlives_its_loop_is_cancelled() -> None:
    """The next wait of a thread whose loop has ended raises."""
    raised: list[BaseException] = []
    end, ended = threading.Event(), threading.Event()

    def work() -> None:
        end.wait(60)
        try:
            sleep(0)
        except BaseException as error:  # noqa: BLE001 - compared below
            raised.append(error)
        ended.set()

    loop = asyncio.new_event_loop()
    pool = BlockingPool("tests", 1)
    task = loop.create_task(pool.run(work))
    loop.run_until_complete(asyncio.sleep(0.01))
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.close()
    end.set()
    assert ended.wait(60)
    assert "its event loop has ended" in str(raised[0])
    pool.release_threads()
