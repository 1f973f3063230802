"""Merges asynchronous iterators."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import TypeVar

import msgspec

T = TypeVar("T")

_QUEUE_SIZE = 100
"""Maximum number of queued items; above it, the sources wait."""


class _End(msgspec.Struct, frozen=True):
    error: Exception | None


async def fan_in(sources: Sequence[AsyncIterator[T]]) -> AsyncGenerator[T, None]:
    """Yield the items of all sources as they arrive, in order for each source.

    It ends, or raises, with the first source that does, so that a reader of watches misses nothing. The caller closes
    the sources.
    """
    queue: asyncio.Queue[T | _End] = asyncio.Queue(_QUEUE_SIZE)

    async def follow(source: AsyncIterator[T]) -> None:
        error: Exception | None = None
        try:
            async for item in source:
                await queue.put(item)
        except Exception as caught:  # noqa: BLE001 - raised to the reader below
            error = caught
        await queue.put(_End(error))

    tasks = [asyncio.create_task(follow(source), name="fan in") for source in sources]
    try:
        while tasks:
            item = await queue.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield item
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
