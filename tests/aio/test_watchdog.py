"""The watchdog: says what blocks the event loop, while it does."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from opsdk.aio.watchdog import Stall, Watchdog

pytestmark = pytest.mark.realtime


def blocking_call(seconds: float) -> None:
    """Blocks the thread."""
    time.sleep(seconds)


async def test_a_stall_is_reported_while_it_lasts_and_afterwards(caplog: pytest.LogCaptureFixture) -> None:
    """The first line has task, file, function and stack; the second the duration; the hook runs in the loop."""
    stalls: list[Stall] = []
    threads: list[int] = []

    def on_stall(stall: Stall) -> None:
        stalls.append(stall)
        threads.append(threading.get_ident())

    task = asyncio.current_task()
    assert task is not None
    task.set_name("reconcile of website default/a")
    async with Watchdog(limit=0.1, on_stall=on_stall) as watchdog:
        await asyncio.sleep(0.05)
        blocking_call(0.6)
        during = [r.getMessage() for r in caplog.records if "has been blocked for" in r.getMessage()]
        assert len(during) == 1
        while not stalls:
            await asyncio.sleep(0.01)
    assert "reconcile of website default/a" in during[0]
    assert "test_watchdog.py" in during[0]
    assert "in blocking_call" in during[0]
    assert "in test_a_stall_is_reported" in during[0]
    assert threads == [threading.get_ident()]
    assert watchdog.last is stalls[0]
    assert 0.4 <= stalls[0].seconds <= 5
    assert "was blocked for" in str(stalls[0])
    assert "blocking_call" in str(stalls[0])
    assert sum("was blocked for" in r.getMessage() for r in caplog.records) == 1


async def test_a_busy_loop_is_no_stall(caplog: pytest.LogCaptureFixture) -> None:
    """Many short pieces of work let the heartbeat through."""
    async with Watchdog(limit=0.3):
        until = time.monotonic() + 0.6
        while time.monotonic() < until:
            time.sleep(0.001)  # noqa: ASYNC251 - the point of the test
            await asyncio.sleep(0)
    assert not caplog.records


async def test_the_thread_ends_with_the_watchdog() -> None:
    """Closing is idempotent, does not wait, and leaves no thread; a closed watchdog does not start."""
    before = threading.active_count()
    watchdog = Watchdog(limit=0.1)
    watchdog.start()
    watchdog.start()
    assert threading.active_count() == before + 1
    await watchdog.aclose()
    await watchdog.aclose()
    while threading.active_count() > before:
        await asyncio.sleep(0.01)
    watchdog.start()
    assert threading.active_count() == before


def test_the_thread_ends_with_the_loop() -> None:
    """A loop that was closed without its watchdog ends the thread, also in the middle of a stall."""
    before = threading.active_count()

    async def main() -> None:
        Watchdog(limit=0.05).start()
        await asyncio.sleep(0.1)
        time.sleep(0.2)  # noqa: ASYNC251 - the point of the test

    asyncio.run(main())
    until = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() == before


_STOPPED = """
import asyncio, logging, sys
from opsdk.aio.watchdog import Watchdog
logging.basicConfig(stream=sys.stdout)
async def main():
    async with Watchdog(limit=0.5):
        print("ready", flush=True)
        await asyncio.sleep(3)
asyncio.run(main())
print("end", flush=True)
"""


@pytest.mark.slow
def test_a_stopped_process_is_no_stall() -> None:
    """SIGSTOP stops loop and watchdog alike, so no stall is reported."""
    process = subprocess.Popen([sys.executable, "-c", _STOPPED], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.2)
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(2)
    os.kill(process.pid, signal.SIGCONT)
    rest = process.communicate(timeout=30)[0]
    assert rest == "end\n"
