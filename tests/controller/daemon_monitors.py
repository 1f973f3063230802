"""Daemons of boxes that record when they begin and end: as a coroutine, and as a plain function in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from boxes import Box, records

from opsdk import BlockingContext, Context, Operator
from opsdk.aio.clock import monotonic


class DaemonRecords:
    """When a daemon began and ended for each object.

    Attributes:
        running: the names of the objects for which it runs.
        starts: times.
        threads: those in which it ran.
        error: what it raises after a second; None runs until it is cancelled.
    """

    def __init__(self, error: BaseException | None = None) -> None:
        self.running: list[str] = []
        self.starts: list[float] = []
        self.threads: set[int] = set()
        self.error = error

    @contextmanager
    def recorded(self, obj: Box) -> Iterator[None]:
        """Record the daemon of an object while the block runs."""
        self.threads.add(threading.get_ident())
        self.starts.append(monotonic())
        self.running.append(obj.metadata.name)
        try:
            yield
        finally:
            self.running.remove(obj.metadata.name)

    def waits(self) -> list[float]:
        """Return the seconds between starts."""
        return [b - a for a, b in zip(self.starts, self.starts[1:], strict=False)]


class Monitor(DaemonRecords):
    """A daemon that is a coroutine function."""

    async def monitor(self, obj: Box, ctx: Context) -> None:
        """Run until cancelled, or raise after a second."""
        assert ctx.object is obj
        with self.recorded(obj):
            await asyncio.sleep(1)
            if self.error is not None:
                raise self.error
            await asyncio.Event().wait()


class PlainMonitor(DaemonRecords):
    """A daemon that is a plain function."""

    def monitor(self, obj: Box, ctx: BlockingContext) -> None:
        """Run until cancelled, or raise after a second."""
        assert ctx.object is obj
        with self.recorded(obj):
            ctx.sleep(1)
            if self.error is not None:
                raise self.error
            ctx.sleep(100_000)


def daemon_results(operator: Operator, name: str = "a") -> list[str]:
    """Return what the journal has about the daemons of an object."""
    return [r.result.removeprefix("daemon ") for r in records(operator, name) if r.result.startswith("daemon")]
