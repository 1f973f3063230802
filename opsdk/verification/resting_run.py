"""A run whose next action waits until the operator is at rest."""

from __future__ import annotations

import asyncio
from abc import ABC
from contextlib import suppress
from typing import Final

from opsdk.engine.world.declaration import SimulatedOperator
from opsdk.engine.world.disturber import Disturber
from opsdk.engine.world.exchange import Exchange
from opsdk.engine.world.rest import Rest
from opsdk.engine.world.rest_state import is_retrying
from opsdk.engine.world.run import WorldRun

__all__ = ["RestingRun"]

_QUIET: Final = 60.0
"""Virtual seconds without a write, after which the operator is at rest: it may wait for its next retry."""
_SHORTEST: Final = 0.01
"""Virtual seconds between two looks: the rest of a difference of times may be too small to move the clock."""
_LONGEST: Final = 1100.0
"""Virtual seconds after which the next action does not wait any longer: a retry comes after 1000 seconds at most."""


class RestingRun(WorldRun, ABC):
    """A run of which disturbers can wait for the next rest, or end the present one: see `WorldRun`.

    Attributes:
        hurry: set to end the present rest: the next action comes at once.
        restless: method and path of the writes that went on when the operator should have come to rest.
    """

    subject = "the verification"

    def __init__(
        self, declared: SimulatedOperator, *, seed: int, order: int | None, disturber: Disturber, with_senders: bool
    ) -> None:
        super().__init__(declared, seed=seed, order=order, disturber=disturber, with_senders=with_senders)
        self.hurry = asyncio.Event()
        self.restless: dict[str, None] = {}
        self._rest = Rest(quiet=_QUIET, longest=_LONGEST)

    def on_write(self, exchange: Exchange) -> None:
        """Let the quiet time start anew, too."""
        super().on_write(exchange)
        self._rest.note_write(exchange.time)

    async def rest(self, *, fails: bool = False) -> None:
        """Wait until the operator wrote nothing for a while, or until the next action comes early.

        An operator that has failed for long waits for minutes before its next attempt, which may write.

        Args:
            fails: its attempts may fail for ever: then nothing waits for the next one.
        """
        loop, rest = asyncio.get_running_loop(), self._rest
        rest.begin(loop.time())
        while not self.hurry.is_set() and not rest.is_overdue(now := loop.time()):
            if rest.is_reached(now) and (fails or not is_retrying(self.cluster.records)):
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(max(rest.due(now) - now, _SHORTEST)):
                    await self.hurry.wait()
        if not rest.is_reached(loop.time()) and not self.hurry.is_set():
            began = rest.last_write - _QUIET
            self.note_restless(*(each for each in self.writes if each.time >= began))

    def note_restless(self, *writes: Exchange) -> None:
        """Note writes that went on."""
        self.restless.update(dict.fromkeys(f"{each.method} {each.path}" for each in writes))
