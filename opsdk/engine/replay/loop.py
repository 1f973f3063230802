"""An event loop that runs in the times of a recording: idle iterations are skipped, the others keep their numbers."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from typing import Any

from opsdk.aio.virtual_loop import JumpingSelector, VirtualLoop
from opsdk.engine.replay.timeline import Timeline
from opsdk.recording.loop import EPOCH

__all__ = ["RecordingEnd", "ReplayLoop"]


class RecordingEnd(BaseException):
    """The recording has no more iterations. It ends the loop, whatever the operator catches."""


class _ReplayingSelector(JumpingSelector):
    """Gives each iteration its recorded time, and wakes tasks one iteration before they saw something.

    A socket's callback sets a future in one iteration, and its task runs in the next one. A replay does the same, so
    tasks that are ready at once keep their order.
    """

    def __init__(self, timeline: Timeline) -> None:
        super().__init__()
        self.timeline = timeline
        self.end: int | None = None
        """The iteration at which the replay ends; None for the end of the recording."""
        self.is_over = False
        self.waiting: list[tuple[int, int, int, Callable[[], object]]] = []

    def select(self, timeout: float | None = None) -> list[Any]:
        if self.is_over:
            return super().select(timeout)
        ready = super().select(0)
        if self.busy_threads and timeout != 0 and not ready:
            return super().select(timeout)
        if timeout != 0 and not ready:
            self._jump(None if timeout is None else self.skipped + timeout)
        if self.end is not None and self.iteration > self.end:
            raise RecordingEnd
        self.skipped = max(self.skipped, self.timeline.time_of(self.iteration))
        self._wake()
        return ready

    def _jump(self, due: float | None) -> None:
        """Go to the next iteration in which something happens."""
        wakes = [self.waiting[0][0]] if self.waiting else []
        timer = None if due is None else self.timeline.iteration_at(due)
        targets = [*wakes, *([timer] if timer is not None else [])]
        if not targets:
            raise RecordingEnd
        self.iteration = max(self.iteration, min(targets))

    def _wake(self) -> None:
        loop = asyncio.get_running_loop()
        while self.waiting and self.waiting[0][0] <= self.iteration:
            *_, callback = heapq.heappop(self.waiting)
            loop.call_soon(callback)


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
        super().__init__(timeline.began.seed, epoch=EPOCH + timedelta(microseconds=timeline.began.wall))

    def wall(self) -> datetime:
        """Return the UTC time of the recording."""
        return EPOCH + timedelta(microseconds=self._timeline.wall_of(self.iteration), seconds=self.time())

    def _make_selector(self) -> JumpingSelector:
        self._replaying = _ReplayingSelector(self._timeline)
        return self._replaying

    @property
    def _clock_resolution(self) -> float:
        # That of the recorded loop, so that the same timers are ready in the same iterations.
        return super()._clock_resolution if self._timeline.began.is_virtual else 1e-9

    @_clock_resolution.setter
    def _clock_resolution(self, value: float) -> None:
        """Ignore the base class's value."""

    def end_at(self, iteration: int) -> None:
        """End the replay after an iteration."""
        self._replaying.end = iteration

    def call_in(self, iteration: int, callback: Callable[[], object]) -> None:
        """Call a function in an iteration, as a socket's callback is called."""
        heapq.heappush(self._replaying.waiting, (iteration, 0, next(self._numbers), callback))

    @property
    def is_over(self) -> bool:
        """Whether the replay has ended: what is left runs in virtual time."""
        return self._replaying.is_over

    def leave_recording(self) -> None:
        """Let what is left end in virtual time."""
        self._replaying.is_over = True

    async def wait_until(self, iteration: int, place: int = 0) -> None:
        """Wait until an iteration. Returns at once if it is over.

        Args:
            iteration: its number.
            place: order of those that wait for the same iteration.
        """
        if iteration == self.iteration + 1:
            await asyncio.sleep(0)
        elif iteration > self.iteration:
            future = self.create_future()
            heapq.heappush(self._replaying.waiting, (iteration - 1, place, next(self._numbers), partial(_finish, future)))
            await future
