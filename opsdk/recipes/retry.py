"""Retries a read-modify-write after conflicts with other writers.

Upstream: k8s.io/client-go/util/retry/util.go (v1.36)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from opsdk.aio.backoff import Backoff
from opsdk.aio.clock import monotonic
from opsdk.errors import ConflictError, UsageError

R = TypeVar("R")

DEFAULT_RETRY = Backoff(base=0.01, factor=1.0, jitter=0.1, reset_after=0)
"""For writers that rarely conflict (``retry.DefaultRetry``)."""
DEFAULT_BACKOFF = Backoff(base=0.01, factor=5.0, jitter=0.1, reset_after=0)
"""For writers of an object that others write all the time (``retry.DefaultBackoff``)."""


async def retry_on_conflict(
    function: Callable[[], Awaitable[R]], *, attempts: int = 5, backoff: Backoff = DEFAULT_RETRY
) -> R:
    """Call `function` until it does not raise `ConflictError`. It must read the object again in each call.

    A reconciler rarely needs it: a conflict that escapes is retried with the next reconcile.

    Args:
        function: an async function without arguments.
        attempts: number of calls, at least 1.
        backoff: delays between calls.

    Raises:
        ConflictError: the last call conflicted as well.

    >>> async def set_replicas(client, key, replicas):
    ...     async def change():
    ...         deployment = await client.get(Deployment, key, uncached=True)
    ...         deployment.spec.replicas = replicas
    ...         await client.update(deployment)
    ...     await retry_on_conflict(change)
    """
    if attempts < 1:
        raise UsageError(f"attempts is {attempts}: it must be at least 1")
    waits = backoff.start()
    for _ in range(attempts - 1):
        try:
            return await function()
        except ConflictError:
            await asyncio.sleep(waits.next(monotonic()))
    return await function()
