"""The virtual loop."""

import asyncio

import pytest

from opsdk.testing.loop import DeadlockError, VirtualLoop


async def test_a_day_takes_no_time() -> None:
    """Sleeping moves the clock by exactly what was asked."""
    await asyncio.sleep(86_400 * 3)
    assert asyncio.get_running_loop().time() == 86_400 * 3


async def test_timers_fire_in_order() -> None:
    """Timers fire in the order of their times, not of their creation."""
    numbers: list[int] = []

    async def note(after: int) -> None:
        await asyncio.sleep(after)
        numbers.append(after)

    await asyncio.gather(*(note(n) for n in (5, 1, 3)))
    assert numbers == [1, 3, 5]


async def test_sockets_work_within_the_process() -> None:
    """Bytes sent over loopback arrive before any timer jumps past them."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(100))
        writer.close()

    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        async with asyncio.timeout(0.5):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"hello")
            assert await reader.read() == b"hello"
            writer.close()
            await writer.wait_closed()


async def test_threads_hold_time_back() -> None:
    """A timer never overtakes work that a thread does in real time."""
    async with asyncio.timeout(1):
        assert await asyncio.to_thread(sum, range(1000)) == 499_500


def test_waiting_for_nothing_is_an_error() -> None:
    """When no timer is set and all tasks wait, the loop says so."""

    async def main() -> None:
        await asyncio.Event().wait()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner, pytest.raises(DeadlockError, match="tasks waiting"):
        runner.run(main())


async def test_a_block_lets_time_pass_before_timers_run() -> None:
    """`VirtualLoop.block` moves the time; a timer that became due runs afterwards."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    times: list[float] = []
    loop.call_later(1, lambda: times.append(loop.time()))
    began = loop.time()
    loop.block(5)
    assert (loop.time() - began, times) == (5, [])
    await asyncio.sleep(0.1)
    assert times == [began + 5]
