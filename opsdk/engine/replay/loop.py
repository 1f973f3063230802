"""An event loop that runs in the times of a recording: idle iterations are skipped, the others keep their numbers."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from operator import itemgetter
from typing import Any, Final

from opsdk.aio.repeatable_loop import owner_of, running_task
from opsdk.aio.virtual_loop import JumpingSelector, VirtualLoop
from opsdk.engine.replay.timeline import BEFORE_CHECKPOINT, Timeline
from opsdk.recording.loop import CLOCK_RESOLUTION, EPOCH

__all__ = ["TIMER_TOLERANCE", "RecordingEnd", "ReplayLoop"]

TIMER_TOLERANCE: Final = 2e-6


class RecordingEnd(BaseException):
    """Ends the loop's run, whatever the operator catches.

    Attributes:
        is_pause: the recording goes on, and the loop may run again.
    """

    def __init__(self, *, is_pause: bool) -> None:
        super().__init__()
        self.is_pause = is_pause


class _ReplayingSelector(JumpingSelector):
    """Gives each iteration its recorded time, and skips those in which nothing happens.

    Attributes:
        timeline: of the recording.
        resolution: seconds by which timers are early on the recorded loop.
        pause: the iteration after which the loop's run ends; None for none.
        is_over: the recording has been left: this is a selector in virtual time.
        waiting: functions, each with the iteration whose callbacks it makes ready, and its order there.
    """

    def __init__(self, timeline: Timeline) -> None:
        super().__init__()
        self.timeline = timeline
        self.resolution = _resolution(timeline) or 0.0
        self.pause: int | None = None
        self.is_over = False
        if timeline.checkpoint is not None:
            self.iteration = BEFORE_CHECKPOINT
        self.waiting: list[tuple[int, int, int, Callable[[], object]]] = []

    def select(self, timeout: float | None = None) -> list[Any]:
        if self.is_over:
            return super().select(timeout)
        if self.pause is not None and self.iteration >= self.pause:
            self.pause = None
            raise RecordingEnd(is_pause=True)
        ready = super().select(timeout if self.busy_threads else 0)
        if timeout != 0 and not ready:
            self._jump(None if timeout is None else self.skipped + timeout)
        if self.timeline.end is not None and self.iteration > self.timeline.end:
            raise RecordingEnd(is_pause=False)
        self.skipped = max(self.skipped, self.timeline.time_of(self.iteration))
        return ready

    def _jump(self, due: float | None) -> None:
        """Go to the next iteration in which something happens."""
        timer = None
        if due is not None:
            # The loop has computed the timeout from the timer's time, and `due` from the timeout: both round.
            early = max(self.resolution, 4 * math.ulp(due))
            timer = self.timeline.iteration_at(due - early, after=self.iteration - 1)
        targets = [] if timer is None else [timer]
        if self.waiting:
            targets.append(self.waiting[0][0])
        if not targets:
            raise RecordingEnd(is_pause=False)
        target = max(self.iteration, min(targets))
        if self.pause is not None and target > self.pause:
            # The iteration counts when it begins: this one has not begun.
            self.iteration = max(self.pause, self.iteration - 1)
            self.pause = None
            raise RecordingEnd(is_pause=True)
        self.iteration = target


def _resolution(timeline: Timeline) -> float | None:
    """Return the seconds by which timers are early; None for the smallest difference of floats, as in virtual time."""
    if not timeline.began.is_virtual:
        return CLOCK_RESOLUTION
    # After a checkpoint, timers are computed from another time, and wall clocks have microseconds.
    return None if timeline.checkpoint is None else TIMER_TOLERANCE


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class ReplayLoop(VirtualLoop):
    """The event loop of a replay.

    Args:
        timeline: of the recording.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._numbers = count()
        self._places: dict[asyncio.Task[Any], int] = {}
        """Of tasks in `wait_until`."""
        super().__init__(timeline.began.seed, epoch=EPOCH + timedelta(microseconds=timeline.start_wall))

    def wall(self) -> datetime:
        """Return the UTC time of the recording."""
        return EPOCH + timedelta(microseconds=self._timeline.wall_of(self.iteration), seconds=self.time())

    def _make_selector(self) -> JumpingSelector:
        self._replaying = _ReplayingSelector(self._timeline)
        return self._replaying

    @property
    def _clock_resolution(self) -> float:
        # That of the recorded loop, so that the same timers are ready in the same iterations.
        return _resolution(self._timeline) or super()._clock_resolution

    @_clock_resolution.setter
    def _clock_resolution(self, value: float) -> None:
        """Ignore the base class's value."""

    def pause_at(self, iteration: int | None) -> None:
        """End the loop's run after an iteration. It may run again."""
        self._replaying.pause = iteration

    def call_in(self, iteration: int, callback: Callable[[], object], *, place: int = 0) -> None:
        """Call a function in an iteration, before what the recording has at later places.

        Args:
            iteration: its number.
            callback: the function.
            place: order of those that are called in the same iteration.
        """
        self.make_ready_in(iteration, partial(self.call_soon, self._arrive, callback), place=place)

    def make_ready_in(self, iteration: int, make_ready: Callable[[], object], *, place: int) -> None:
        """Call a function between the selector of an iteration and its callbacks. Those that it adds come first.

        Args:
            iteration: its number.
            make_ready: starts a task, finishes a future, or adds a callback.
            place: order of those that are called in the same iteration.
        """
        heapq.heappush(self._replaying.waiting, (iteration, place, next(self._numbers), make_ready))

    def _order_ready(self) -> None:
        """Put first what the recording has in this iteration, in the order of its places.

        Tasks that wait for the recording are among it, also if they are ready for another reason: a cancellation.
        """
        if self.is_over:
            super()._order_ready()
            return
        ready: deque[asyncio.Handle] = self._ready
        first: list[tuple[int, asyncio.Handle]] = []
        for _ in range(len(ready) if self._places else 0):
            handle = ready.popleft()
            task = owner_of(handle)
            if task in self._places:
                first.append((self._places[task], handle))
            else:
                ready.append(handle)
        waiting = self._replaying.waiting
        while waiting and waiting[0][0] <= self.iteration:
            _, place, _, make_ready = heapq.heappop(waiting)
            others = len(ready)
            make_ready()
            first += [(place, ready.pop()) for _ in range(len(ready) - others)]
        first.sort(key=itemgetter(0))
        ready.extendleft(handle for _, handle in reversed(first))

    @property
    def is_over(self) -> bool:
        """Whether the recording has been left: what remains runs in virtual time."""
        return self._replaying.is_over

    def leave_recording(self) -> None:
        """Let what remains end in virtual time."""
        self._replaying.is_over = True

    async def wait_until(self, iteration: int, place: int = 0) -> None:
        """Wait until an iteration. Returns at once if it is over.

        Args:
            iteration: its number.
            place: order of those that wait for the same iteration.
        """
        if iteration <= self.iteration:
            return
        future: asyncio.Future[None] = self.create_future()
        self.make_ready_in(iteration, partial(_finish, future), place=place)
        task = running_task()
        self._places[task] = place
        try:
            await future
        finally:
            del self._places[task]
