"""Records when the event loop sees what functions in threads do."""

from __future__ import annotations

from collections.abc import Callable

from opsdk.recording.loop import RecordingLoop
from opsdk.recording.records import Record, ThreadArrived

__all__ = ["ThreadRecorder"]


class ThreadRecorder:
    """A `ThreadOrder` that notes each arrival. Those of an iteration come before its other callbacks.

    Args:
        add: called with each record, in order.
        loop: the running loop.

    Attributes:
        calls: functions that were called so far.
    """

    def __init__(self, add: Callable[[Record], None], loop: RecordingLoop) -> None:
        self._add, self._loop = add, loop
        self.calls = 0

    def next_call(self) -> int:
        """See `ThreadOrder`."""
        self.calls += 1
        return self.calls - 1

    def arrive(self, call: int, callback: Callable[[], None]) -> None:
        """See `ThreadOrder`."""

        def seen() -> None:
            self._add(ThreadArrived(self._loop.iteration, call))
            callback()

        self._loop.call_first(seen)

    def __repr__(self) -> str:
        return f"<ThreadRecorder on {self._loop!r}>"
