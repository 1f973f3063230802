"""What controllers show on the debug pages, and requests that are queued by hand."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from opsdk import ControllerOptions, Request, Result, UsageError
from opsdk.base.cause import ReconcileCause
from opsdk.controller.context import Context
from opsdk.controller.controller import Controller
from opsdk.controller.journal import Journal
from opsdk.controller.pausing import Pause
from opsdk.queue.core import LOW_PRIORITY
from opsdk.queue.fairness import Fairness


async def end(running: asyncio.Task[None]) -> None:
    """Cancel a controller that runs, and its reconciles."""
    running.cancel()
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def rows(controller: Controller, page: str) -> list[Any]:
    """The rows of a page."""
    return list(controller.debug_pages()[page]())


async def test_a_queue_is_shown_by_priority_and_flow() -> None:
    """The row counts ready and delayed requests, names the largest flows, and how long the oldest request waits."""

    async def reconcile(request: Request) -> None:
        raise AssertionError(request)

    controller = Controller("site", reconcile, options=ControllerOptions(fairness=Fairness()))
    for number in range(3):
        controller.queue.add(Request("a", str(number)), priority=LOW_PRIORITY)
    controller.queue.add(Request("b", "0"))
    await asyncio.sleep(5)
    for number in range(25):
        controller.queue.add(Request(f"n{number}", "0"))
    controller.queue.add(Request("c", "0"), after=60)
    (row,) = rows(controller, "controllers")
    assert (row["ready"], row["delayed"], row["oldest_ready_seconds"], row["fair"]) == (29, 1, 5.0, True)
    assert row["flows"][0] == {"priority": LOW_PRIORITY, "flow": "a", "ready": 3}
    assert (len(row["flows"]), row["more_flows"]) == (20, 7)


async def test_rows_are_bounded_and_count_everything() -> None:
    """Of a very long queue, the counts are whole, and only the oldest requests are looked at."""

    async def reconcile(request: Request) -> None:
        raise AssertionError(request)

    controller = Controller("site", reconcile)
    for number in range(12_000):
        request, cause = Request("default", str(number)), ReconcileCause("retry", detail="no luck")
        controller.queue.add(request, after=1 + controller.queue.next_delay(request), cause=cause)
    (row,) = rows(controller, "controllers")
    assert (row["delayed"], row["retrying"]) == (12_000, 10_000)
    assert len(rows(controller, "retries")) == 50


async def test_a_running_reconcile_shows_its_place() -> None:
    """A coroutine shows the innermost frame of its author's code, and what it waits for."""

    async def reconcile(_request: Request) -> None:
        await asyncio.Event().wait()

    controller = Controller("site", reconcile)
    running = asyncio.create_task(controller.start())
    await controller.wait_ready()
    controller.queue.add(Request("default", "a"))
    await asyncio.sleep(7)
    (row,) = rows(controller, "running")
    assert (row["name"], row["seconds"], row["waits_for"]) == ("a", 7.0, "Future")
    assert row["place"].endswith("reconcile")
    assert row["stack"][-1].endswith("Event.wait")
    await end(running)


@pytest.mark.realtime
async def test_a_plain_reconciler_shows_the_place_of_its_thread() -> None:
    """A plain function shows the frame of the author's code in its thread."""
    entered, leaves = threading.Event(), threading.Event()

    def reconcile(_request: Request) -> None:
        entered.set()
        leaves.wait(60)

    controller = Controller("site", reconcile)
    running = asyncio.create_task(controller.start())
    await controller.wait_ready()
    controller.queue.add(Request("default", "a"))
    await asyncio.to_thread(entered.wait, 60)
    (row,) = rows(controller, "running")
    assert row["place"].endswith("reconcile")
    assert row["stack"][-1].endswith(("Event.wait", "Condition.wait", "Event.set"))
    leaves.set()
    await end(running)


async def test_retries_are_shown_until_they_succeed() -> None:
    """A request that fails is listed with its attempts, its time and the error; a success removes it."""
    fails = True

    async def reconcile(_request: Request, ctx: Context) -> None:
        if fails:
            raise ValueError(f"no luck in attempt {ctx.attempt}")

    controller = Controller("site", reconcile, journal=Journal())
    running = asyncio.create_task(controller.start())
    await controller.wait_ready()
    controller.queue.add(Request("default", "a"))
    await asyncio.sleep(100)
    (row,) = rows(controller, "retries")
    assert row["attempts"] > 10
    assert 0 < row["due_seconds"] < 100
    assert "no luck" in row["error"]
    assert row["error"] in row["causes"][-1]
    fails = False
    assert controller.enqueue_now("site", "default", "a") == "queued"
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert rows(controller, "retries") == []
    await end(running)


async def test_a_request_that_is_requeued_is_no_retry() -> None:
    """``Result(requeue=True)`` uses the rate limiter too, but nothing failed."""

    async def reconcile(_request: Request) -> Result:
        return Result(requeue=True)

    controller = Controller("site", reconcile)
    running = asyncio.create_task(controller.start())
    await controller.wait_ready()
    controller.queue.add(Request("default", "a"))
    await asyncio.sleep(100)
    assert rows(controller, "retries") == []
    assert rows(controller, "controllers")[0]["delayed"] == 1
    await end(running)


async def test_a_request_by_hand_overtakes_the_others() -> None:
    """A request by hand comes first, waits for the end of a pause, and is refused where the controller does not run."""
    order: list[str] = []

    async def reconcile(request: Request) -> None:
        order.append(request.name)
        await asyncio.sleep(1)

    controller = Controller("site", reconcile)
    with pytest.raises(UsageError, match="does not run on this replica"):
        controller.enqueue_now("site", "default", "a")
    running = asyncio.create_task(controller.start())
    await controller.wait_ready()
    assert controller.enqueue_now("shop", "default", "a") == ""
    for name in "abc":
        controller.queue.add(Request("default", name))
    await asyncio.sleep(0.5)
    assert controller.enqueue_now("site", "default", "c") == "queued"
    assert controller.enqueue_now("site", "default", "a") == "queued after the reconcile that runs"
    await asyncio.sleep(10)
    assert order == ["a", "c", "a", "b"]
    controller.pause(Pause(until=None, reason="moves"))
    assert controller.enqueue_now("site", "default", "d") == "queued until the pause of the controller ends"
    assert rows(controller, "controllers")[0]["paused"] == "paused: moves"
    await end(running)
