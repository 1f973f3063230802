"""Holds functions in threads back until the iterations in which the recorded event loop saw them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count

from opsdk.engine.replay.loop import ReplayLoop
from opsdk.engine.replay.timeline import Timeline

__all__ = ["ReplayedThreads"]


class ReplayedThreads:
    """A `ThreadOrder` whose arrivals come in their recorded iterations.

    The loop of a replay waits for each thread, so a thread is never later than in the recording. A recording in virtual
    time has no arrivals: there, the loop waited for its threads too.

    Args:
        timeline: of the recording.
        loop: of the replay.
    """

    def __init__(self, timeline: Timeline, loop: ReplayLoop) -> None:
        self._arrivals, self._loop = timeline.arrivals, loop
        self._holds = bool(timeline.arrivals) and timeline.checkpoint is None
        self._numbers = count()
        self._held: dict[int, Callable[[], None]] = {}
        self._holding = count()

    def next_call(self) -> int:
        """See `ThreadOrder`."""
        return next(self._numbers)

    def arrive(self, call: int, callback: Callable[[], None]) -> None:
        """See `ThreadOrder`. An arrival that the recording does not have waits for the end of the replay."""
        if not self._holds:
            self._loop.call_soon_threadsafe(callback)
            return
        number = next(self._holding)
        self._held[number] = callback
        if recorded := self._arrivals.get(call):
            # The loop waits meanwhile, see `BlockingCall.take_turns`.
            place, iteration = recorded.popleft()
            self._loop.call_in(iteration, partial(self._go_on, number), place=place)

    def _go_on(self, number: int) -> None:
        self._held.pop(number)()

    def continue_after(self, calls: int) -> None:
        """Hold threads back from now on: the operator is in the state of a checkpoint.

        Args:
            calls: functions that the recorded operator had called in threads.
        """
        self._holds, self._numbers = bool(self._arrivals), count(calls)

    def release(self) -> None:
        """Hold nothing back any more: the recording has been left."""
        self._holds = False
        while self._held:
            self._loop.call_soon(self._held.pop(next(iter(self._held))))

    def __repr__(self) -> str:
        return f"<ReplayedThreads, {len(self._held)} held>"
