"""An event loop with virtual time.

Instead of sleeping until the next timer, the loop moves its clock to it. Sockets inside the process work as usual:
time only moves when nothing is ready. A test that waits for an event that cannot happen raises `DeadlockError`.
"""

from __future__ import annotations

import asyncio
import math
import random
import selectors
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from weakref import WeakKeyDictionary

from opsdk.aio.randomness import seeded
from opsdk.aio.repeatable_loop import RepeatableLoop, owner_of

__all__ = ["VIRTUAL_EPOCH", "DeadlockError", "HotLoopError", "VirtualLoop"]

VIRTUAL_EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""The time of day at which virtual time begins."""
# Loopback data is usually visible to select() at once; one millisecond covers the exceptions.
_SOCKET_GRACE = 0.001
# A timer that is due sooner may be due now: times are rounded.
_IDLE_SECONDS = 1e-5
# Real seconds that an idle loop waits for sockets or threads before it raises DeadlockError.
_DEADLOCK_TIMEOUT = 5.0


class DeadlockError(AssertionError):
    """Every task waits and no timer is set."""


class HotLoopError(AssertionError):
    """Work continues without end, so virtual time cannot advance."""


class JumpingSelector(selectors.BaseSelector):
    """A selector that does not sleep for timers.

    Attributes:
        skipped: the time, in seconds.
        iteration: how often the loop has selected.
        on_time: called with iteration and time after the time has moved.
        on_idle: called before the time moves by more than some microseconds: all tasks wait.
        busy_threads: number of threads that work for the loop.
        deadlocked: describes the tasks of a deadlock.
        failure: raised by the next iteration.
    """

    def __init__(self) -> None:
        self._real = selectors.DefaultSelector()
        self.skipped = 0.0
        self.iteration = 0
        self.on_time: list[Callable[[int, float], None]] = []
        self.on_idle: list[Callable[[], None]] = []
        self.busy_threads = 0
        self.deadlocked: Callable[[], str] = str
        self.failure: BaseException | None = None

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
        self.iteration += 1
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        # One descriptor is the loop's wake-up pipe.
        has_sockets = len(self._real.get_map() or ()) > 1
        ready = self._real.select(0 if timeout == 0 or not has_sockets else _SOCKET_GRACE)
        if ready or timeout == 0:
            return ready
        if self.busy_threads:
            # A thread works in real time: virtual time must not run past it.
            return self._real.select(_DEADLOCK_TIMEOUT)
        if timeout is None:
            ready = self._real.select(_DEADLOCK_TIMEOUT if has_sockets else 0)
            if not ready:
                raise DeadlockError(self.deadlocked())
            return ready
        self.move(max(timeout, 0.0))
        return []

    def move(self, seconds: float) -> None:
        """Move the time."""
        if seconds > _IDLE_SECONDS:
            for observe_idle in self.on_idle:
                observe_idle()
        self.skipped += seconds
        for observe in self.on_time:
            observe(self.iteration, self.skipped)


class _ShuffledHandles(deque[asyncio.Handle]):
    """The ready callbacks of a loop. Tasks that are ready one after the other run in any order.

    Other callbacks keep their places: transports rely on the order of theirs. Nothing documents an order of tasks.
    Which of some tasks comes first depends on the seed, on when they were created, and on how often they ran, and not
    on their places: a group cancels its tasks in the order of a set, which differs from process to process.

    Args:
        seed: of the order.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed
        self._created = 0
        self._turns: WeakKeyDictionary[asyncio.Task[Any], tuple[int, int]] = WeakKeyDictionary()

    def add_task(self, task: asyncio.Task[Any]) -> None:
        """Note a new task."""
        self._created += 1
        self._turns[task] = (self._created, 0)

    def popleft(self) -> asyncio.Handle:
        tasks = list(self._tasks_in_front())
        if not tasks:
            return super().popleft()
        turns = [self._turns.get(task, (0, 0)) for task in tasks]
        index = min(range(len(tasks)), key=lambda index: hash((self._seed, *turns[index])))
        number, steps = turns[index]
        self._turns[tasks[index]] = (number, steps + 1)
        handle = self[index]
        del self[index]
        return handle

    def _tasks_in_front(self) -> Iterator[asyncio.Task[Any]]:
        for handle in self:
            owner = owner_of(handle)
            if owner is None:
                return
            yield owner


class VirtualLoop(RepeatableLoop):
    """A selector loop in virtual time. Its time starts at zero, its wall clock at 2026-01-01 by default.

    Args:
        seed: of `random`. The same seed, the same run.
        epoch: the wall clock's start, in UTC.
        order: the seed of the order in which tasks run that are ready at once; None for first in, first out.

    Attributes:
        random: every random number that opsdk draws on this loop, see `opsdk.aio.randomness`.

    >>> async def main():
    ...     await asyncio.sleep(86_400)
    ...     return asyncio.get_running_loop().time()
    >>> with asyncio.Runner(loop_factory=VirtualLoop) as runner:
    ...     runner.run(main())
    86400.0
    """

    is_virtual = True
    """Its time stands still while threads work."""

    def __init__(self, seed: int = 0, *, epoch: datetime = VIRTUAL_EPOCH, order: int | None = None) -> None:
        self._epoch = epoch
        self._wall = (0.0, epoch)
        self.random: random.Random = seeded(seed)
        self._jumping = self._make_selector()
        super().__init__(self._jumping)
        self._shuffled = None if order is None else _ShuffledHandles(order)
        if self._shuffled is not None:
            self._ready = self._shuffled
            self._puts_first = False
        self._jumping.deadlocked = self._describe

    def _make_selector(self) -> JumpingSelector:
        """Return the selector that moves the time."""
        return JumpingSelector()

    @property
    def iteration(self) -> int:
        """The number of the loop's iteration: all callbacks that were ready together have the same one."""
        return self._jumping.iteration

    @property
    def on_idle(self) -> list[Callable[[], None]]:
        """Functions that are called before the time moves by more than some microseconds, when all tasks wait."""
        return self._jumping.on_idle

    @property
    def on_time(self) -> list[Callable[[int, float], None]]:
        """Functions that are called with iteration and time after the time has moved."""
        return self._jumping.on_time

    @property
    def _clock_resolution(self) -> float:
        # The base class runs timers early by this much without moving the clock, so a loop that waits for the last
        # nanosecond before a deadline would never end. The smallest float step keeps the time moving.
        return 2 * math.ulp(self._jumping.skipped + 1.0)

    @_clock_resolution.setter
    def _clock_resolution(self, value: float) -> None:
        """Ignore the base class's value."""

    def time(self) -> float:
        """Return virtual seconds since the loop was created."""
        return self._jumping.skipped

    def wall(self) -> datetime:
        """Return the virtual UTC time."""
        seconds, wall = self._wall
        if seconds != self._jumping.skipped:
            seconds = self._jumping.skipped
            wall = self._epoch + timedelta(seconds=seconds)
            self._wall = (seconds, wall)
        return wall

    @property
    def wall_origin(self) -> int:
        """The UTC time at time 0 of the loop, in microseconds since 1970."""
        return (self._epoch - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)

    @property
    def has_ready(self) -> bool:
        """Whether more callbacks are ready than the one that runs: if not, only time can bring something new."""
        return bool(self._ready)  # the base class keeps them there

    def create_task(self, *args: Any, **kwargs: Any) -> asyncio.Task[Any]:
        """See `asyncio.loop.create_task`."""
        task = super().create_task(*args, **kwargs)
        if self._shuffled is not None:
            self._shuffled.add_task(task)
        return task

    def block(self, seconds: float) -> None:
        """Let time pass before any timer or task runs, as a callback does that blocks the loop."""
        self._jumping.move(seconds)

    def fail(self, error: BaseException) -> None:
        """Raise `error` from the loop's next iteration: the running test fails and its tasks are cancelled."""
        self._jumping.failure = error

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """See `asyncio.loop.run_in_executor`. Virtual time does not advance while the thread runs."""
        self._jumping.busy_threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._thread_done)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """See asyncio. Virtual time does not advance meanwhile."""
        self._jumping.busy_threads += 1
        try:
            await super().shutdown_default_executor()
        finally:
            self._jumping.busy_threads -= 1

    def _thread_done(self, _: asyncio.Future[Any]) -> None:
        self._jumping.busy_threads -= 1

    def _describe(self) -> str:
        waiting = "\n".join(f"  {task.get_name()}: {task.get_coro()!r}" for task in asyncio.all_tasks(self))
        return f"deadlock: every task waits and no timer is set; tasks waiting:\n{waiting}"
