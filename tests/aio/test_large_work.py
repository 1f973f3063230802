"""Work that leaves the event loop."""

from __future__ import annotations

import asyncio
import sys
import threading
import time

import pytest

from opsdk.aio import large_work
from opsdk.aio.large_work import (
    ATTEMPT_SECONDS,
    EVALUATION_SECONDS,
    LARGE_BYTES,
    REQUEST,
    TURN_SECONDS,
    RequestBudget,
    attempt,
    check_time,
    compute,
    is_spent,
)
from opsdk.errors import TooLargeError

pytestmark = pytest.mark.realtime


def busy(threads: list[str], seconds: float) -> int:
    """Work for some seconds, in steps."""
    threads.append(threading.current_thread().name)
    end, steps = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        steps += 1
        check_time()
    return steps


async def test_short_work_stays_on_the_loop() -> None:
    """Nothing is begun twice, and no thread is used."""
    threads: list[str] = []
    await attempt(busy, threads, 0.0)
    assert threads == [threading.current_thread().name]


async def test_long_work_begins_again_in_the_thread() -> None:
    """The event loop serves others while the thread works, and the result is that of the whole work."""
    threads: list[str] = []
    work = asyncio.ensure_future(attempt(busy, threads, 30 * ATTEMPT_SECONDS))
    turns = 0
    while not work.done():
        await asyncio.sleep(0.005)
        turns += 1
    assert turns > 5
    assert await work > 0
    assert len(threads) == 2
    assert threads[0] == threading.current_thread().name != threads[1]


async def test_an_error_of_the_work_is_its_result() -> None:
    """Errors pass, on the loop and in the thread, and leave no trace for the next work."""

    def failing(seconds: float) -> None:
        busy([], seconds)
        raise ValueError(str(seconds))

    for seconds in (0.0, 5 * ATTEMPT_SECONDS):
        with pytest.raises(ValueError, match=str(seconds)):
            await attempt(failing, seconds)
    assert busy([], 3 * ATTEMPT_SECONDS) > 0  # no work of `attempt`: it has all the time
    assert await compute(LARGE_BYTES + 1, busy, [], 3 * ATTEMPT_SECONDS) > 0


async def test_the_thread_gives_the_loop_its_turn_soon() -> None:
    """The interpreter's switch interval is short while the thread works, and what it was afterwards."""

    def interval(*, fails: bool) -> float:
        if fails:
            raise ValueError(sys.getswitchinterval())
        return sys.getswitchinterval()

    before = sys.getswitchinterval()
    assert await compute(LARGE_BYTES, interval, fails=False) == before
    assert await compute(LARGE_BYTES + 1, interval, fails=False) == pytest.approx(TURN_SECONDS)
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - its argument is compared
        await compute(LARGE_BYTES + 1, interval, fails=True)
    assert caught.value.args == (pytest.approx(TURN_SECONDS),)
    assert sys.getswitchinterval() == before


async def test_an_attempt_has_a_budget_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that never ends sees that its budget is spent; other work of the thread has no budget."""
    monkeypatch.setattr(large_work, "EVALUATION_SECONDS", 0.02)

    def endless() -> str:
        while not is_spent():
            check_time()
        return threading.current_thread().name

    assert await attempt(endless) != threading.current_thread().name
    assert not await compute(LARGE_BYTES + 1, is_spent)


class ManualClock:
    """A clock that only the work moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """Set the clocks of the loop and of the thread."""
    clock = ManualClock()
    monkeypatch.setattr(large_work, "perf_counter", clock)
    monkeypatch.setattr(large_work, "thread_time", clock)
    return clock


async def test_the_expressions_of_a_request_share_a_budget(clock: ManualClock) -> None:
    """Each is below the budget of one: the third one is cut, and the fourth one ends the request."""

    def slow() -> bool:
        clock.now += 2 * ATTEMPT_SECONDS
        check_time()
        clock.now += EVALUATION_SECONDS - 0.1
        return is_spent()

    async def request() -> None:
        REQUEST.set(RequestBudget())
        assert [await attempt(slow) for _ in range(3)] == [False, False, True]
        with pytest.raises(TooLargeError, match="the expressions that check the request have taken 10 seconds"):
            await attempt(slow)

    for _ in range(2):  # the next request has a budget of its own
        await asyncio.ensure_future(request())
    assert await attempt(slow) is False  # work without a request has the budget of one attempt


async def test_expressions_that_are_not_slow_alone_leave_the_loop_together(clock: ManualClock) -> None:
    """A hundred of 9 ms would hold the loop for a second."""
    threads: list[str] = []

    def short() -> None:
        threads.append(threading.current_thread().name)
        clock.now += 0.9 * ATTEMPT_SECONDS
        check_time()

    REQUEST.set(RequestBudget())
    for _ in range(5):
        await attempt(short)
    own = threading.current_thread().name
    assert threads == [own, own, *["large-work_0"] * 4]  # the second one begins on the loop, and again in the thread
