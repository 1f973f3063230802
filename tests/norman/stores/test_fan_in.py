"""Several watches as one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from opsdk.norman.stores.fan_in import fan_in


async def counting(start: int, seconds: float, end: Exception | None = None) -> AsyncGenerator[int]:
    """Yield three numbers, then end."""
    for number in range(3):
        await asyncio.sleep(seconds)
        yield start + number
    if end is not None:
        raise end


async def test_items_of_each_source_keep_their_order_until_one_ends() -> None:
    """The slower source is not awaited once the faster one has ended."""
    items = [item async for item in fan_in([counting(0, 1), counting(10, 1.4)])]
    assert items == [0, 10, 1, 11, 2]


async def test_an_error_of_a_source_reaches_the_reader() -> None:
    """The reader gets the items before the error, then the error."""
    merged = fan_in([counting(0, 1, ValueError("broken")), counting(10, 100)])
    assert [await anext(merged) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="broken"):
        await anext(merged)


async def test_no_sources_end_at_once() -> None:
    """A watch without sources ends at once."""
    assert [item async for item in fan_in(list[AsyncGenerator[int]]())] == []


async def test_a_reader_that_leaves_stops_the_sources() -> None:
    """No task of a source is left when its reader has gone."""
    before = asyncio.all_tasks()
    async with aclosing(fan_in([counting(0, 1), counting(10, 100)])) as items:
        assert await anext(items) == 0
    assert asyncio.all_tasks() == before
