"""Clients that stop reading a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from opsdk.apiserver.endpoints.stall import STALL_SECONDS, until_stalled


async def numbers(pause: float) -> AsyncGenerator[bytes, None]:
    """Three chunks."""
    for number in range(3):
        await asyncio.sleep(pause)
        yield b"%d" % number


@pytest.mark.parametrize(("reading", "cut_after"), [(1, []), (50, []), (61, [60]), (90, [60, 150, 240])])
async def test_a_client_that_does_not_read_is_cut(reading: float, cut_after: list[int]) -> None:
    """The time counts for one chunk, and only while the client has to read it."""
    cuts: list[float] = []
    loop = asyncio.get_running_loop()
    start = loop.time()
    chunks = until_stalled(numbers(0), lambda: cuts.append(loop.time() - start))
    assert [chunk async for chunk in slowly(chunks, reading)] == [b"0", b"1", b"2"]
    assert [round(cut) for cut in cuts][: len(cut_after)] == cut_after
    assert bool(cuts) == bool(cut_after)


async def slowly(chunks: AsyncGenerator[bytes, None], seconds: float) -> AsyncGenerator[bytes, None]:
    """Take so long for each chunk."""
    async for chunk in chunks:
        await asyncio.sleep(seconds)
        yield chunk


async def test_a_stream_without_chunks_is_never_cut() -> None:
    """A quiet watch may last for hours."""
    cuts: list[int] = []
    chunks = until_stalled(numbers(10 * STALL_SECONDS), lambda: cuts.append(1))
    assert len([chunk async for chunk in chunks]) == 3
    assert cuts == []
