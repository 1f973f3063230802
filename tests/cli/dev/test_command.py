"""The loop of ``opsdk dev``."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest

command = pytest.importorskip("opsdk.cli.dev.command", reason="needs the cli extra: pip install opsdk[cli]")


@pytest.mark.realtime
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_the_command_also_where_it_was_ignored(number: signal.Signals) -> None:
    """A shell lets its background jobs ignore SIGINT. The work is cancelled, and cleans up."""
    ended = asyncio.Event()

    async def work() -> None:
        os.kill(os.getpid(), number)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    before = signal.signal(number, signal.SIG_IGN)
    try:
        await command.run_until_signal(work())
    finally:
        signal.signal(number, before)
    assert ended.is_set()


async def test_work_that_ignores_its_cancellation_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command ends ten seconds after the signal, whatever hangs."""
    loop = asyncio.get_running_loop()
    stops: list[Callable[[], None]] = []

    def stop_on_signals(stop: Callable[[], None]) -> AbstractContextManager[None]:
        stops.append(stop)
        return nullcontext()

    monkeypatch.setattr(command, "stop_on_signals", stop_on_signals)
    release = asyncio.Event()

    async def work() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    task = asyncio.create_task(command.run_until_signal(work()))
    await asyncio.sleep(1)
    stops[0]()
    began = loop.time()
    await task
    assert loop.time() - began == pytest.approx(10, abs=0.1)
    release.set()


async def test_an_error_is_raised() -> None:
    """An error of the work ends the command and is raised."""

    async def work() -> None:
        raise command.UsageError("no operator")

    with pytest.raises(command.UsageError, match="no operator"):
        await command.run_until_signal(work())
