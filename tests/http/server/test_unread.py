"""Clients that stop reading a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from opsdk.errors import TooManyRequestsError
from opsdk.http.server import unread as module
from opsdk.http.server.unread import STALL_SECONDS, UnreadBytes, until_stalled


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
    chunks = until_stalled(numbers(0), lambda: cuts.append(loop.time() - start), "ann")
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
    chunks = until_stalled(numbers(10 * STALL_SECONDS), lambda: cuts.append(1), "ann")
    assert len([chunk async for chunk in chunks]) == 3
    assert cuts == []


async def parts(*sizes: int) -> AsyncGenerator[bytes, None]:
    """Some parts."""
    for size in sizes:
        yield bytes(size)


async def test_a_user_has_a_budget_of_unread_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a full budget, new requests of the user are denied and watches end; other users have their own."""
    unread = UnreadBytes(100)
    monkeypatch.setattr(module, "UNREAD", unread)
    held = until_stalled(parts(60, 40), None, "ann")
    assert len(await anext(held)) == 60
    unread.check("ann")
    other = until_stalled(parts(40, 1), None, "ann")
    assert len(await anext(other)) == 40
    with pytest.raises(TooManyRequestsError, match="Too many requests, please try again later") as denied:
        unread.check("ann")
    assert denied.value.retry_after == 1
    unread.check("bob")
    assert [part async for part in until_stalled(parts(1), None, "ann", ends_when_full=True)] == []
    assert [len(part) async for part in until_stalled(parts(1), None, "bob", ends_when_full=True)] == [1]
    await held.aclose()
    unread.check("ann")
    await other.aclose()
    assert unread.held == {}


async def test_a_part_that_responses_share_counts_once() -> None:
    """A hundred watches that send one event hold it once."""
    unread, event = UnreadBytes(100), b"x" * 60
    first, second = unread.hold("ann", event), unread.hold("ann", event)
    unread.check("ann")
    assert unread.held == {"ann": 60}
    unread.release(first)
    assert unread.held == {"ann": 60}
    unread.release(second)
    assert unread.held == {}
