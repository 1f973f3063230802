"""A timeout on a clock. ``asyncio.timeout`` follows the event loop, which a test's clock need not."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from opsdk.aio.clock import Clock, Timer


class ClockTimeoutError(TimeoutError):
    """A `timeout` has passed. Distinguishes it from a ``TimeoutError`` of the block itself."""


class ClockTimeout:
    """A timeout around a block. See `timeout`."""

    __slots__ = ("_cancelling", "_clock", "_ends_at", "_expired", "_seconds", "_task", "_timer", "_timer_at")

    def __init__(self, clock: Clock, seconds: float | None) -> None:
        self._clock = clock
        self._seconds = seconds
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._expired = False
        self._timer: Timer | None = None
        self._ends_at = self._timer_at = 0.0

    # A class and no generator, and not around `asyncio.timeout`: requests and reconciles enter one each. The rules of
    # cancellation are those of `asyncio.timeout`.
    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    # Without coroutines, for the timeout of each request.
    def __enter__(self) -> Self:
        task = self._task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a timeout needs a running task: enter it inside a coroutine")
        self._cancelling = task.cancelling()
        self.restart(self._seconds)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cancel_timer()
        if not self._expired:
            return
        assert self._task is not None
        # Another cancellation of the task, before or since, is not this timeout's.
        is_own = self._task.uncancel() <= self._cancelling and isinstance(error, asyncio.CancelledError)
        if is_own or isinstance(error, TimeoutError):  # the block may have made a TimeoutError of the cancellation
            text = "timed out" if self._seconds is None else f"{self._seconds:g} s have passed"
            raise ClockTimeoutError(text) from error

    def restart(self, seconds: float | None) -> None:
        """Let the timeout pass `seconds` from now; None: never.

        A later end only moves a number, so a stream may call it for each event.
        """
        if seconds is None or self._expired:
            self._cancel_timer()
            return
        self._ends_at = self._clock.now() + seconds
        if self._timer is None or self._ends_at < self._timer_at:
            self._cancel_timer()
            self._set_timer(seconds)

    def _set_timer(self, seconds: float) -> None:
        self._timer_at = self._ends_at
        self._timer = self._clock.call_later(seconds, self._on_timer)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        remaining = self._ends_at - self._clock.now()
        if remaining > 0:
            self._set_timer(remaining)
        else:
            self._timer = None
            self._expire()

    def _expire(self) -> None:
        assert self._task is not None
        self._expired = True
        self._task.cancel()

    def expired(self) -> bool:
        """Whether this timeout has passed."""
        return self._expired

    @property
    def ends_at(self) -> float:
        """The time of the clock when a running timeout passes."""
        return self._ends_at


class Timeouts:
    """Timeouts that share one timer: a block only adds and removes a number. A timer of its own would cost more.

    For many short blocks in one event loop, such as requests. The timer outlives the blocks, until `close`.

    >>> async def main():
    ...     timeouts = Timeouts(LOOP_CLOCK)
    ...     async with timeouts.timeout(1.0) as running:
    ...         await asyncio.sleep(0)
    ...     timeouts.close()
    ...     return running.expired()
    >>> from opsdk.aio.clock import LOOP_CLOCK
    >>> asyncio.run(main())
    False
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.ends: dict[_SharedTimeout, float] = {}
        """The blocks that run, with their ends. The timer outlives a block: the next one will need it."""
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None

    def timeout(self, seconds: float | None) -> ClockTimeout:
        """Return a block as `opsdk.aio.timeout.timeout` does."""
        block = _SharedTimeout(self.clock, seconds)
        block.timeouts = self
        return block

    def set(self, block: _SharedTimeout, ends_at: float, now: float) -> None:
        """Let a block end at a time of the clock."""
        self.ends[block] = ends_at
        if self._timer is None or ends_at < self._timer_at or self._loop is not asyncio.get_running_loop():
            self._set_timer(ends_at, now)

    def close(self) -> None:
        """Remove the timer. Blocks that run have no limit from here on; new ones set the timer again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, ends_at: float, now: float) -> None:
        self.close()
        self._loop, self._timer_at = asyncio.get_running_loop(), ends_at
        self._timer = self.clock.call_later(ends_at - now, self._on_timer)

    def _on_timer(self) -> None:
        self._timer, now = None, self.clock.now()
        due = [block for block, ends_at in self.ends.items() if ends_at <= now]
        for block in sorted(due, key=self.ends.__getitem__):
            del self.ends[block]
            block.expire()
        if self.ends:
            self._set_timer(min(self.ends.values()), now)

    def __repr__(self) -> str:
        return f"<Timeouts: {len(self.ends)} running>"


class _SharedTimeout(ClockTimeout):
    """A timeout whose timer is that of `Timeouts`."""

    __slots__ = ("timeouts",)

    timeouts: Timeouts

    def restart(self, seconds: float | None) -> None:
        """See `ClockTimeout`."""
        if seconds is None or self._expired:
            self._cancel_timer()
        else:
            now = self._clock.now()
            self._ends_at = now + seconds
            self.timeouts.set(self, self._ends_at, now)

    def _cancel_timer(self) -> None:
        self.timeouts.ends.pop(self, None)

    def expire(self) -> None:
        """Cancel the block."""
        self._expire()


def timeout(clock: Clock, seconds: float | None) -> ClockTimeout:
    """Cancel the block after `seconds` of `clock` and raise `ClockTimeoutError`; None sets no limit.

    A ``TimeoutError`` that the block raises in time stays as it is.

    >>> async def main():
    ...     async with timeout(LOOP_CLOCK, 1.0) as running:
    ...         await asyncio.sleep(0)
    ...     return running.expired()
    >>> from opsdk.aio.clock import LOOP_CLOCK
    >>> asyncio.run(main())
    False
    """
    return ClockTimeout(clock, seconds)
