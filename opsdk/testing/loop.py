"""An event loop whose time jumps.

Where an ordinary loop would sleep until its next timer, this one moves its clock there at once. Sockets inside the
process work as usual: time only moves when nothing is ready. A test that waits for something that can never happen
ends with `DeadlockError` instead of hanging.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
# Loopback data is visible to select() at once as a rule; a millisecond covers the kernel's exceptions.
_SOCKET_GRACE = 0.001
# How long, in real seconds, an idle loop waits for its sockets or threads before it calls the state a deadlock.
_PATIENCE = 5.0


class DeadlockError(AssertionError):
    """Every task waits and no timer is set: nothing will ever happen again."""


class _JumpingSelector(selectors.BaseSelector):
    """A real selector that never sleeps longer than it must."""

    def __init__(self) -> None:
        self._real = selectors.DefaultSelector()
        self.skipped = 0.0
        self.busy_threads = 0
        self.deadlocked: Callable[[], str] = str

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_map(self) -> Any:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # One descriptor is the loop's own wake-up pipe.
        has_sockets = len(self._real.get_map() or ()) > 1
        ready = self._real.select(0 if timeout == 0 or not has_sockets else _SOCKET_GRACE)
        if ready or timeout == 0:
            return ready
        if self.busy_threads:
            # A thread works in real time: virtual time must not run past it.
            return self._real.select(_PATIENCE)
        if timeout is None:
            ready = self._real.select(_PATIENCE if has_sockets else 0)
            if not ready:
                raise DeadlockError(self.deadlocked())
            return ready
        self.skipped += max(timeout, 0)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """A selector loop in virtual time, starting at zero; its time of day starts on 2026-01-01.

    >>> async def main():
    ...     await asyncio.sleep(86_400)
    ...     return asyncio.get_running_loop().time()
    >>> with asyncio.Runner(loop_factory=VirtualLoop) as runner:
    ...     runner.run(main())
    86400.0
    """

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        self._jumping.deadlocked = self._describe

    @property
    def _clock_resolution(self) -> float:
        # The base class runs timers early by this much, without moving the clock: a loop that waits for the last
        # nanosecond before its deadline would spin for ever. As little as floats allow keeps time moving.
        return 2 * math.ulp(self._jumping.skipped + 1.0)

    @_clock_resolution.setter
    def _clock_resolution(self, value: float) -> None:
        """The base class sets the real clock's; ours is computed."""

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._jumping.skipped

    def wall(self) -> datetime:
        """The virtual time of day."""
        return _EPOCH + timedelta(seconds=self._jumping.skipped)

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """As usual; while the thread works, virtual time stands still."""
        self._jumping.busy_threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._thread_done)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ARG002, ASYNC109
        """As usual; the thread that joins the workers holds time back too."""
        self._jumping.busy_threads += 1
        try:
            await super().shutdown_default_executor()
        finally:
            self._jumping.busy_threads -= 1

    def _thread_done(self, _: asyncio.Future[Any]) -> None:
        self._jumping.busy_threads -= 1

    def _describe(self) -> str:
        waiting = "\n".join(f"  {task.get_name()}: {task.get_coro()!r}" for task in asyncio.all_tasks(self))
        return f"nothing can happen any more; tasks waiting:\n{waiting}"
