"""An event loop whose run can be repeated: what comes from outside is first in an iteration, and timers have an order.

A repeated run has neither sockets nor servers. It knows in which iteration a task saw something from outside, and in
which order tasks did. So these tasks run before all others that are ready in an iteration. The rest has the order of
the operator's own code. Otherwise a socket's callbacks would decide which task comes first.

Upstream: CPython 3.11, Lib/asyncio/base_events.py (`_run_once`, `call_at`)
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from contextvars import Context
from functools import partial
from typing import Any, TypeVarTuple

__all__ = ["RepeatableLoop", "owner_of", "running_task"]

Ts = TypeVarTuple("Ts")
AnyTask = asyncio.Task[Any]


class _Timer(asyncio.TimerHandle):
    """A timer with a number: those of one time end in the order in which they began.

    A heap alone gives them any order, which the timers of connections decide too.
    """

    __slots__ = ("number",)

    number: int

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, _Timer):
            return NotImplemented
        when, other_when = self.when(), other.when()
        return when < other_when or (when == other_when and self.number < other.number)

    def woken(self) -> Iterator[AnyTask]:
        """Yield the tasks that the timer wakes, as far as they are known: those that sleep, or have a time limit."""
        callback, args = self._callback, self._args  # type: ignore[attr-defined] # the base class keeps them there
        owner = getattr(callback, "__self__", None)
        if isinstance(owner, asyncio.Timeout) and isinstance(task := getattr(owner, "_task", None), asyncio.Task):
            yield task
        for argument in args or ():
            if isinstance(argument, asyncio.Future):
                for waiting, _ in getattr(argument, "_callbacks", None) or ():
                    if isinstance(task := getattr(waiting, "__self__", None), asyncio.Task):
                        yield task

    def _run(self) -> None:
        loop = self._loop  # type: ignore[attr-defined] # the base class keeps it there
        assert isinstance(loop, RepeatableLoop)
        loop.note_timer(self)
        super()._run()


class _Outside(AbstractContextManager[None]):
    """Marks the running task in a dict, with a count: waits may be nested."""

    __slots__ = ("_task", "_tasks")

    def __init__(self, tasks: dict[AnyTask, int]) -> None:
        self._tasks, self._task = tasks, running_task()

    def __enter__(self) -> None:
        self._tasks[self._task] = self._tasks.get(self._task, 0) + 1

    def __exit__(self, *_: object) -> None:
        depth = self._tasks.pop(self._task) - 1
        if depth:
            self._tasks[self._task] = depth


class RepeatableLoop(asyncio.SelectorEventLoop):
    """A base class of loops in which a run is recorded or repeated. Its subclasses count iterations."""

    def __init__(self, selector: Any = None) -> None:
        self._puts_first = True
        """Whether tasks that waited for something outside run first. Not if a seed decides the order."""
        self._outside: dict[AnyTask, int] = {}
        self._arrivals: deque[Callable[[], None]] = deque()
        self._timers = 0
        self._timed: dict[AnyTask, float] = {}
        """What timers woke in this iteration, with the times of the timers. It runs in the next one."""
        self._timed_before: dict[AnyTask, float] = {}
        self._last: tuple[int, AnyTask | None, Callable[[], str]] = (-1, None, str)
        """The iteration of the last event, the task that saw it, and what describes it."""
        super().__init__(selector)

    @property
    def iteration(self) -> int:
        """The number of the loop's iteration: all callbacks that were ready together have the same one."""
        raise NotImplementedError

    @property
    def wall_origin(self) -> int:
        """The UTC time at time 0 of the loop, in microseconds since 1970."""
        raise NotImplementedError

    # -------------------------------------------------------------- what comes from outside
    def outside(self) -> AbstractContextManager[None]:
        """Return a context manager for an await of something outside. Its task runs first when it goes on."""
        return _Outside(self._outside) if self._puts_first else nullcontext()

    def call_first(self, callback: Callable[[], None]) -> None:
        """Call a function in the next iteration, before all other callbacks. For threads and signals.

        `call_soon_threadsafe` would call it anywhere among them, and a replay could not know where.

        Raises:
            RuntimeError: the loop is closed.
        """
        self._arrivals.append(callback)
        self.call_soon_threadsafe(_nothing)

    def _process_events(self, event_list: list[Any]) -> None:
        """Order what is ready, in each iteration after the selector and before timers."""
        if self._timed or self._timed_before:
            self._timed_before, self._timed = self._timed, {}
        self._order_ready()
        super()._process_events(event_list)  # type: ignore[misc] # `_run_once` calls it

    def _order_ready(self) -> None:
        """Put arrivals first, then tasks that wait for something outside, each in their order."""
        ready: deque[asyncio.Handle] = self._ready  # type: ignore[attr-defined] # the base class keeps them there
        first: list[asyncio.Handle] = []
        while self._arrivals:
            callback = self._arrivals.popleft()
            first.append(asyncio.Handle(partial(self._arrive, callback), (), self))
        if self._outside and len(ready) + len(first) > 1:
            # Another thread may append meanwhile: what is appended stays, and an iterator would fail.
            for _ in range(len(ready)):
                handle = ready.popleft()
                (first if owner_of(handle) in self._outside else ready).append(handle)
        ready.extendleft(reversed(first))

    def _arrive(self, callback: Callable[[], object]) -> None:
        self.note_event(lambda: "a thread or a signal", None)
        callback()

    # -------------------------------------------------------------- timers
    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """See `asyncio.loop.call_at`. Timers of the same time end in the order in which they began."""
        self._check_closed()  # type: ignore[attr-defined] # as the base class does
        timer = _Timer(when, callback, args, self, context)
        timer.number = self._timers
        self._timers += 1
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined] # the base class keeps them there
        timer._scheduled = True  # type: ignore[attr-defined] # noqa: SLF001 - a cancellation is counted then
        return timer

    # -------------------------------------------------------------- what woke a task
    def note_timer(self, timer: _Timer) -> None:
        """Note that a timer is due."""
        when = timer.when()
        for task in timer.woken():
            self._timed[task] = when
        self.note_event(lambda: _timer_text(when), None)

    def note_event(self, describe: Callable[[], str], task: AnyTask | None) -> None:
        """Note that something happened.

        Args:
            describe: returns what.
            task: that saw it; None if others may go on because of it.
        """
        self._last = (self.iteration, task, describe)

    def wake_of(self, task: AnyTask) -> str:
        """Return what let the running task go on: a timer, something from outside, or another task after it."""
        iteration, seen_by, describe = self._last
        if seen_by is task and iteration == self.iteration:
            return describe()
        if (when := self._timed_before.get(task)) is not None:
            return _timer_text(when)
        return f"another task, after {describe()}" if iteration >= 0 else "the start"


def running_task() -> AnyTask:
    """Return the task that runs. Call it in coroutines only."""
    task = asyncio.current_task()
    assert task is not None
    return task


def owner_of(handle: asyncio.Handle) -> AnyTask | None:
    """Return the task whose next step a handle is; None for another callback."""
    # A task's callback is found as asyncio itself finds it for its messages.
    owner = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined] # noqa: SLF001
    return owner if isinstance(owner, asyncio.Task) else None


def _timer_text(when: float) -> str:
    return f"the timer of {when:.6f} s"


def _nothing() -> None:
    """Wake a loop."""
