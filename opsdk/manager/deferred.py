"""A runnable that starts after a delay."""

from __future__ import annotations

from collections.abc import Callable

from opsdk.aio.named_sleep import named_sleep
from opsdk.base.runnable import Runnable


class DeferredRunnable:
    """Creates and starts a runnable after a delay, so that it does not delay the first reconciles.

    It runs on every replica, and is ready immediately.

    Args:
        make: returns the runnable; called after the delay.
        delay: seconds; the default is longer than a typical start.
    """

    def __init__(self, make: Callable[[], Runnable], *, delay: float = 1.0) -> None:
        self._make = make
        self._delay = delay

    def needs_leader_election(self) -> bool:
        """Return False: every replica runs it."""
        return False

    async def start(self) -> None:
        """Wait, then run. Raises the error of the runnable."""
        await named_sleep("deferred", self._delay)
        await self._make().start()

    def __repr__(self) -> str:
        return f"<DeferredRunnable after {self._delay:g} s>"
