"""Samples the debug pages, and keeps what the console shows while they cannot be reached."""

from __future__ import annotations

from collections.abc import Callable

from opsdk.aio.clock import monotonic
from opsdk.cli.top.client import DebugClient
from opsdk.cli.top.problems import TopProblem, problems_of
from opsdk.cli.top.state import PAGES, Sample, TopState, top_state
from opsdk.errors import OpsdkError


class Monitor:
    """The last state of an operator.

    Args:
        client: reads the pages.
        now: the clock.

    Attributes:
        state: the last state; None before the first.
        problems: those of the last state.
        lost_since: when the pages could not be read for the first time, by the clock; None while they can.
        error: why they cannot be read now.
    """

    def __init__(self, client: DebugClient, *, now: Callable[[], float] = monotonic) -> None:
        self.client = client
        self.now = now
        self.state: TopState | None = None
        self.problems: list[TopProblem] = []
        self.lost_since: float | None = None
        self.error = ""
        self._sample: Sample | None = None

    async def refresh(self) -> bool:
        """Read the pages. Returns False if they cannot be read; the state before is kept then."""
        begins_at = self.now()
        try:
            await self.refresh_or_raise()
        except OpsdkError as error:
            self.error = str(error)
            if self.lost_since is None:
                self.lost_since = begins_at
            return False
        return True

    async def refresh_or_raise(self) -> None:
        """Read the pages. Raises `OpsdkError` if they cannot be read."""
        pages = await self.client.pages(PAGES)
        self.lost_since, self.error = None, ""
        sample = Sample(taken_at=self.now(), pages=pages)
        self.state = top_state(sample, self._sample)
        self.problems = problems_of(self.state)
        self._sample = sample

    @property
    def lost_seconds(self) -> float | None:
        """Seconds since the pages could be read last; None while they can."""
        return None if self.lost_since is None else self.now() - self.lost_since

    def __repr__(self) -> str:
        return f"<Monitor of {self.client!r}>"
