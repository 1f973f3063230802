"""The queue that tasks wait on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from opsdk.queue.rate_limiters import (
    BucketRateLimiter,
    ItemExponentialFailureRateLimiter,
    ItemFastSlowRateLimiter,
    MaxOfRateLimiter,
)
from opsdk.queue.work_queue import ShutDownError, WorkQueue
from opsdk.telemetry.records import QueueHooks


@pytest.mark.behaviour(62)
async def test_get_waits_until_a_delayed_item_is_due() -> None:
    """A delayed item is returned exactly when it is due."""
    q: WorkQueue[str] = WorkQueue()
    q.add("a", after=5)
    q.add("b", after=2)
    assert (await q.get()).item == "b"
    assert asyncio.get_running_loop().time() == pytest.approx(2)
    assert (await q.get()).item == "a"
    assert asyncio.get_running_loop().time() == pytest.approx(5)


@pytest.mark.behaviour(62, 68)
async def test_an_earlier_add_moves_the_timer() -> None:
    """Adding without delay makes a delayed item ready at once."""
    q: WorkQueue[str] = WorkQueue()
    q.add("a", after=100)
    waiting = asyncio.create_task(q.get())
    await asyncio.sleep(1)
    q.add("a")
    assert (await waiting).item == "a"
    assert asyncio.get_running_loop().time() == pytest.approx(1)


@pytest.mark.behaviour(63)
async def test_failures_are_delayed_longer_until_forget() -> None:
    """5 ms, 10 ms, 20 ms, ... and 5 ms again after success."""
    q: WorkQueue[str] = WorkQueue()
    waits = []
    for _ in range(4):
        waits.append(q.add_rate_limited("a"))
        q.done((await q.get()).item)
    assert waits == [0.005, 0.01, 0.02, 0.04]
    q.forget("a")
    assert q.add_rate_limited("a") == 0.005
    q.shut_down()


@pytest.mark.behaviour(71)
async def test_shutdown_wakes_every_worker() -> None:
    """Every get that waits, and every later one, raises ShutDownError."""
    q: WorkQueue[str] = WorkQueue()
    waiting = [asyncio.create_task(q.get()) for _ in range(5)]
    await asyncio.sleep(0)
    q.shut_down()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(r, ShutDownError) for r in results)
    with pytest.raises(ShutDownError):
        await q.get()


@pytest.mark.behaviour(65)
async def test_draining_returns_ready_items_before_it_ends() -> None:
    """With drain, ready items still go out; wait_idle returns when the last is done."""
    q: WorkQueue[str] = WorkQueue()
    q.add("a")
    q.shut_down(drain=True)
    taken = await q.get()
    idle = asyncio.create_task(q.wait_idle())
    await asyncio.sleep(1)
    assert not idle.done()
    q.done(taken.item)
    await idle
    with pytest.raises(ShutDownError):
        await q.get()


@pytest.mark.behaviour(61, 70)
@pytest.mark.parametrize("seed", range(30))
async def test_no_item_is_lost_and_none_is_doubled(seed: int) -> None:
    """Under any interleaving and cancelled workers, each key's last add is processed, and never twice at once."""
    rng = random.Random(seed)
    q: WorkQueue[int] = WorkQueue()
    expected = [0] * 8
    handled = [0] * 8
    at_work: set[int] = set()

    async def worker() -> None:
        while True:
            try:
                item = (await q.get()).item
            except ShutDownError:
                return
            assert item not in at_work
            at_work.add(item)
            version = expected[item]
            try:
                await asyncio.sleep(rng.random())
                handled[item] = version
            finally:
                at_work.remove(item)
                if handled[item] != version:
                    q.add(item)  # a cancelled worker hands its item back
                q.done(item)

    workers = [asyncio.create_task(worker()) for _ in range(3)]
    for _ in range(200):
        key = rng.randrange(8)
        expected[key] += 1
        q.add(key, after=rng.choice([0, 0, 0.1, 1]), priority=rng.choice([0, -100]))
        if rng.random() < 0.2:
            await asyncio.sleep(rng.random() / 3)
        if rng.random() < 0.05:
            victim = rng.randrange(3)
            workers[victim].cancel()
            await asyncio.gather(workers[victim], return_exceptions=True)
            workers[victim] = asyncio.create_task(worker())
    await asyncio.sleep(30)
    assert handled == expected
    q.shut_down()
    await asyncio.gather(*workers)


@pytest.mark.behaviour(63, 64)
def test_rate_limiters_return_their_delays() -> None:
    """The delays of each limiter, in order."""
    fast: ItemFastSlowRateLimiter[str] = ItemFastSlowRateLimiter(fast=1, slow=10, fast_attempts=2)
    assert [fast.when("a", now=0) for _ in range(3)] == [1, 1, 10]
    bucket: BucketRateLimiter[str] = BucketRateLimiter(qps=2, burst=2)
    assert [bucket.when("x", now=0) for _ in range(4)] == [0, 0, 0.5, 1.0]
    assert bucket.when("x", now=10) == 0
    both: MaxOfRateLimiter[str] = MaxOfRateLimiter([ItemExponentialFailureRateLimiter(base=3, cap=5), fast])
    assert both.when("b", now=0) == 3
    assert both.when("b", now=0) == 5
    assert both.num_requeues("b") == 2
    both.forget("b")
    assert both.num_requeues("b") == 0
    capped: ItemExponentialFailureRateLimiter[str] = ItemExponentialFailureRateLimiter()
    assert [capped.when("z", now=0) for _ in range(2000)][-1] == 1000.0
    assert isinstance(WorkQueue[str]().rate_limiter, ItemExponentialFailureRateLimiter)
    shared: BucketRateLimiter[str] = BucketRateLimiter()
    assert [shared.when(f"k{n}", now=0) for n in range(102)][-3:] == pytest.approx([0, 0.1, 0.2])


class Counts(QueueHooks):
    """Counts what is added, and has no methods for other events."""

    def __init__(self) -> None:
        self.adds = 0

    def added(self) -> None:
        self.adds += 1


@pytest.mark.behaviour(61, 62, 67, 68, 70, 73)
async def test_adds_of_one_item_are_combined() -> None:
    """The item is returned once, at the earliest time and highest priority; delayed ones do not count in len()."""
    counts = Counts()
    q: WorkQueue[str] = WorkQueue(hooks=counts)
    q.add("a", after=10)
    q.add("a", after=5, priority=7)
    q.add("a", after=20, priority=-100)
    assert (len(q), counts.adds) == (0, 1)
    assert (await q.get()).priority == 7
    assert asyncio.get_running_loop().time() == pytest.approx(5)
    q.done("a")
    q.add("b", after=100)
    for _ in range(3):
        q.add("b")
    assert (len(q), counts.adds) == (1, 2)
    assert (await q.get()).item == "b"
    q.done("b")
    await asyncio.sleep(1000)
    assert q.get_nowait() is None


async def test_an_item_added_during_processing_is_returned_after_done() -> None:
    """During processing the added item is not returned to another worker."""
    q: WorkQueue[str] = WorkQueue()
    q.add("a")
    await q.get()
    q.add("a")
    assert q.get_nowait() is None
    q.done("a")
    assert (await q.get()).item == "a"


@pytest.mark.behaviour(71)
@pytest.mark.parametrize("drain", [False, True])
async def test_shutdown_among_adds_wakes_every_worker(*, drain: bool) -> None:
    """Adds right before and after the shutdown leave no worker waiting."""
    q: WorkQueue[str] = WorkQueue()
    waiting = [asyncio.create_task(q.get()) for _ in range(5)]
    await asyncio.sleep(0)
    q.add("a")
    q.shut_down(drain=drain)
    q.add("b")
    async with asyncio.timeout(1):
        results = await asyncio.gather(*waiting, return_exceptions=True)
    assert sum(isinstance(result, ShutDownError) for result in results) == (4 if drain else 5)


@pytest.mark.behaviour(69)
async def test_draining_returns_items_added_during_their_processing() -> None:
    """A worker that waits gets the item after `done`; then the queue has ended for every worker."""
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    first = await queue.get()
    queue.add("a", after=100)
    queue.shut_down(drain=True)
    waiting = [asyncio.create_task(queue.get()) for _ in range(2)]
    await asyncio.sleep(1)
    assert not any(task.done() for task in waiting)
    queue.done(first.item)
    await asyncio.sleep(1)
    [again] = [task.result() for task in waiting if task.done()]
    assert again.item == "a"
    queue.done("a")
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result).__name__ for result in results if isinstance(result, Exception)] == ["ShutDownError"]


async def test_a_due_item_sets_one_timer_while_every_worker_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The item becomes ready when its timer fires, so that the timer is not due again and again."""
    calls = 0
    loop = asyncio.get_running_loop()
    call_later = loop.call_later

    def count(delay: float, callback: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        nonlocal calls
        calls += getattr(callback, "__self__", None) is queue
        return call_later(delay, callback, *args)

    monkeypatch.setattr(loop, "call_later", count)
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a", after=1.0)
    await asyncio.sleep(60)
    assert (calls, len(queue)) == (1, 1)
    assert (await queue.get()).item == "a"


async def test_a_paused_queue_wakes_its_workers_when_it_is_resumed() -> None:
    """Items that were added during the pause are combined; each waiting worker gets one at the end of the pause."""
    q: WorkQueue[str] = WorkQueue()
    q.pause()
    waiting = [asyncio.create_task(q.get()) for _ in range(3)]
    for item in "aab":
        q.add(item)
    q.add("later", after=5)
    await asyncio.sleep(60)
    assert not any(task.done() for task in waiting)
    q.resume()
    items = [(await task).item for task in waiting]
    assert sorted(items) == ["a", "b", "later"]


async def test_a_pause_takes_no_item_from_a_worker() -> None:
    """A worker may finish its item during the pause; an item that it added meanwhile waits."""
    q: WorkQueue[str] = WorkQueue()
    q.add("a")
    taken = await q.get()
    q.pause()
    q.add("a")
    q.done(taken.item)
    assert q.get_nowait() is None
    q.resume()
    assert (await q.get()).item == "a"
