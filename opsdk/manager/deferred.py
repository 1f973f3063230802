"""A runnable that may wait until the program has started."""

from __future__ import annotations

from collections.abc import Callable

from opsdk.aio.clock import LOOP_CLOCK, Clock
from opsdk.runnable import Runnable


class DeferredRunnable:
    """Makes and starts a runnable some time after the start, so that it does not delay the first reconciles.

    It runs on every replica, and is ready at once.

    Args:
        make: returns the runnable; called after the delay.
        delay: seconds; the default is longer than a start takes.
        clock: source of time.
    """

    def __init__(self, make: Callable[[], Runnable], *, delay: float = 1.0, clock: Clock = LOOP_CLOCK) -> None:
        self._make = make
        self._delay = delay
        self._clock = clock

    def needs_leader_election(self) -> bool:
        """Return False: every replica runs it."""
        return False

    async def start(self) -> None:
        """Wait, then run. Raises what the runnable raises."""
        await self._clock.sleep(self._delay)
        await self._make().start()

    def __repr__(self) -> str:
        return f"<DeferredRunnable after {self._delay:g} s>"
