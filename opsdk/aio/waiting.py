"""Waits that a cancellation cannot interrupt, for cleanup code."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Coroutine
from typing import TypeVar

from opsdk.aio.clock import monotonic

T = TypeVar("T")


async def wait_ended(tasks: Collection[asyncio.Task[object]], seconds: float | None) -> set[asyncio.Task[object]]:
    """Wait at most `seconds` (None: no limit) until `tasks` have ended; return the tasks that still run.

    A cancellation of the caller does not end the wait. It is raised afterwards, unless a task still runs: then the
    caller gets that task first.
    """
    ends_at = math.inf if seconds is None else monotonic() + seconds
    interrupted: asyncio.CancelledError | None = None
    while pending := {task for task in tasks if not task.done()}:
        remaining = ends_at - monotonic()
        if remaining <= 0:
            return pending
        try:
            await asyncio.wait(pending, timeout=None if seconds is None else remaining)
        except asyncio.CancelledError as error:
            interrupted = error
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
