"""Waiting that a cancellation cannot cut short: for the last lines of what must be ended."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def wait_ended(tasks: Collection[asyncio.Task[Any]], seconds: float | None) -> set[asyncio.Task[Any]]:
    """Wait until the tasks have ended, at most `seconds` (None: for ever); returns those that have not.

    A cancellation of the caller does not end the wait: it is raised afterwards, unless a task is still at work,
    which the caller must hear of first.
    """
    loop = asyncio.get_running_loop()
    deadline = None if seconds is None else loop.time() + seconds
    interrupted: asyncio.CancelledError | None = None
    while pending := {task for task in tasks if not task.done()}:
        remaining = None if deadline is None else deadline - loop.time()
        if remaining is not None and remaining <= 0:
            return pending
        try:
            await asyncio.wait(pending, timeout=remaining)
        except asyncio.CancelledError as error:
            interrupted = error
    if interrupted is not None:
        raise interrupted
    return set()


async def finish(coro: Coroutine[Any, Any, T], *, name: str) -> T:
    """Run `coro` to its end even if the caller is cancelled meanwhile, and raise the cancellation after it."""
    task = asyncio.get_running_loop().create_task(coro, name=name)
    try:
        await wait_ended((task,), None)
    except asyncio.CancelledError:
        if not task.cancelled():
            task.exception()  # the cancellation is what the caller gets; a failure beside it is not "never retrieved"
        raise
    return task.result()
