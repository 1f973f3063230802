"""Watches an event loop from a thread, and reports what blocks it.

A blocking call in a coroutine, such as ``time.sleep`` or a large computation, stops every other task: watches time out,
health checks fail, leases expire. The watchdog logs the stack of the loop's thread while it is blocked.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Self

import msgspec

from opsdk.aio.closing import Closing

log = logging.getLogger(__name__)

# The loop is checked this many times within `limit`, so a stall is measured to a quarter of the limit.
_CHECKS_PER_LIMIT = 4


class Stall(msgspec.Struct, frozen=True, kw_only=True):
    """The event loop did not run its tasks for a while.

    Attributes:
        seconds: how long, at least.
        ended_at: ``time.monotonic()`` at its end.
        where: task, file, line and function, while it was blocked.
    """

    seconds: float
    ended_at: float
    where: str

    def __str__(self) -> str:
        ago = time.monotonic() - self.ended_at
        return f"the event loop was blocked for {self.seconds:.1f} s, until {ago:.1f} s ago, in {self.where}"


class Watchdog(Closing):
    """Measures stalls of the running event loop. For ordinary loops only: it measures real time.

    A stall longer than `limit` is logged once with its stack while it lasts, and with its duration afterwards.

    ::

        async with Watchdog(limit=1.0):
            await serve()

    Args:
        limit: seconds.
        on_stall: called in the event loop after each stall.

    Attributes:
        last: the last stall, or None.
    """

    def __init__(self, *, limit: float = 1.0, on_stall: Callable[[Stall], None] | None = None) -> None:
        self.limit = limit
        self.last: Stall | None = None
        self._on_stall = on_stall
        self._closed = threading.Event()
        self._loop_responded = threading.Event()
        self._thread: threading.Thread | None = None

    async def __aenter__(self) -> Self:
        self.start()
        return self

    def start(self) -> None:
        """Watch the running loop, which must run in this thread. Idempotent."""
        if self._thread is None and not self._closed.is_set():
            arguments = (asyncio.get_running_loop(), threading.get_ident())
            self._thread = threading.Thread(target=self._watch, args=arguments, name="watchdog", daemon=True)
            self._thread.start()

    async def aclose(self) -> None:
        """Stop watching. Idempotent."""
        self._closed.set()
        self._loop_responded.set()

    def __repr__(self) -> str:
        return f"<Watchdog of {self.limit:g} s{', closed' if self._closed.is_set() else ''}>"

    # -------------------------------------------------------------- the thread
    def _watch(self, loop: asyncio.AbstractEventLoop, ident: int) -> None:
        while not self._closed.wait(self.limit / _CHECKS_PER_LIMIT):
            asked_at = time.monotonic()
            self._loop_responded.clear()
            if not _call_in_loop(loop, self._loop_responded.set):
                return
            if not self._loop_responded.wait(self.limit) and self._is_blocked(asked_at):
                self._report(loop, ident, asked_at)

    def _is_blocked(self, asked_at: float) -> bool:
        """Distinguish a blocked loop from a process that did not run at all, for example after SIGSTOP."""
        if time.monotonic() - asked_at < 2 * self.limit:
            return not self._closed.is_set()
        return not self._loop_responded.wait(self.limit) and not self._closed.is_set()

    def _report(self, loop: asyncio.AbstractEventLoop, ident: int, asked_at: float) -> None:
        where = f"{_task_name(loop)}{place(ident)}"
        seconds = time.monotonic() - asked_at
        log.warning("the event loop has been blocked for %.1f s in %s\n%s", seconds, where, stack(ident))
        while not self._loop_responded.wait(self.limit):
            if loop.is_closed():
                return
        if self._closed.is_set():
            return
        ended_at = time.monotonic()
        stall = self.last = Stall(seconds=ended_at - asked_at, ended_at=ended_at, where=where)
        log.warning("the event loop was blocked for %.1f s in %s", stall.seconds, where)
        if self._on_stall is not None:
            _call_in_loop(loop, lambda: self._on_stall(stall) if self._on_stall is not None else None)


def _call_in_loop(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> bool:
    """Call a function in the loop. Returns False if the loop is closed."""
    try:
        loop.call_soon_threadsafe(function)
    except RuntimeError:
        return False
    return True


def _task_name(loop: asyncio.AbstractEventLoop) -> str:
    try:
        task = asyncio.current_task(loop)
    except RuntimeError:
        return ""
    return f"{task.get_name()!r}: " if task is not None else ""


def place(ident: int) -> str:
    """Return file, line and function that a thread executes, or a note that it has ended."""
    frame = sys._current_frames().get(ident)
    if frame is None:
        return "a thread that has ended"
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"


def stack(ident: int) -> str:
    """Return the stack of a thread, the innermost call last; empty if the thread has ended."""
    frame = sys._current_frames().get(ident)
    return "".join(traceback.format_stack(frame)).rstrip() if frame is not None else ""


def thread_frames(ident: int) -> list[str]:
    """Return file, line and function of each frame of a thread, the outermost first; empty if it has ended."""
    frame = sys._current_frames().get(ident)
    frames = [f"{f.f_code.co_filename}:{line} {f.f_code.co_qualname}" for f, line in traceback.walk_stack(frame)]
    return frames[::-1] if frame is not None else []
