"""In-process connections: bytes arrive at the other end."""

from __future__ import annotations

import asyncio

import pytest

from opsdk.apiserver.webhook_client.in_process_upgrade import tunnels
from opsdk.errors import ConnectionLostError


async def test_bytes_pass_in_order_in_both_directions() -> None:
    """Bytes pass in order in both directions, and the directions stay separate."""
    near, far = tunnels()
    await near.write(b"a")
    await near.write(b"b")
    await far.write(b"c")
    assert (await far.read(), await near.read()) == (b"ab", b"c")


async def test_a_writer_waits_for_a_reader_that_is_behind() -> None:
    """A writer waits while unread data exceeds the limit, and continues when the reader reads."""
    near, far = tunnels()
    writing = asyncio.create_task(near.write(b"x" * 1_000_000))
    await asyncio.sleep(0)
    assert not writing.done()
    assert len(await far.read()) == 1_000_000
    await writing
    await far.write(b"the other direction was never held")


@pytest.mark.parametrize("closer", [0, 1])
async def test_closing_one_end_closes_both(closer: int) -> None:
    """After one end closes, sent data can be read, writes fail, and waiting writers continue."""
    ends = tunnels()
    writing = asyncio.create_task(ends[0].write(b"x" * 1_000_000))
    await asyncio.sleep(0)
    ends[closer].close()
    ends[closer].close()
    await writing
    assert len(await ends[1].read()) == 1_000_000
    for end in ends:
        assert await end.read() == b""
        with pytest.raises(ConnectionLostError):
            await end.write(b"y")
