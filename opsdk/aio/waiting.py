"""Waits that a cancellation cannot interrupt, for cleanup code."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from typing import TypeVar

from opsdk.aio.alarm import Alarm
from opsdk.aio.clock import LOOP_CLOCK, Clock

T = TypeVar("T")


async def wait_ended(
    tasks: Collection[asyncio.Task[object]], seconds: float | None, clock: Clock = LOOP_CLOCK
) -> set[asyncio.Task[object]]:
    """Wait at most `seconds` of `clock` (None: no limit) until `tasks` have ended; return the tasks that still run.

    A cancellation of the caller does not end the wait. It is raised afterwards, unless a task still runs: then the
    caller gets that task first.
    """
    alarm = None if seconds is None else Alarm(clock, clock.now() + seconds)
    interrupted: asyncio.CancelledError | None = None
    try:
        while pending := {task for task in tasks if not task.done()}:
            if alarm is not None and alarm.fired:
                return pending
            waiting: set[asyncio.Future[object]] = {*pending, *([alarm.future] if alarm is not None else ())}
            try:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError as error:
                interrupted = error
    finally:
        if alarm is not None:
            alarm.cancel()
    if interrupted is not None:
        raise interrupted
    return set()


async def finish(coro: Coroutine[object, None, T], *, name: str) -> T:
    """Run `coro` to its end even if the caller is cancelled, and raise the cancellation afterwards."""
    task = asyncio.get_running_loop().create_task(coro, name=name)
    try:
        await wait_ended((task,), None)
    except asyncio.CancelledError:
        if not task.cancelled():
            task.exception()  # marks it as retrieved: the caller gets the cancellation instead
        raise
    return task.result()
