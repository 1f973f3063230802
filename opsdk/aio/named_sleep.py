"""Sleeps with names, of what repeats or happens later: a checkpoint of a recorded operator has the ends of all."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Final

import msgspec

__all__ = ["SLEEPS", "NamedSleeps", "named_sleep"]


class _Sleep(msgspec.Struct, eq=False):
    name: str
    woken: asyncio.Future[None]
    timer: asyncio.TimerHandle


class NamedSleeps:
    """The named sleeps of an operator whose run is recorded or replayed.

    >>> NamedSleeps().ends()
    []
    """

    def __init__(self) -> None:
        self._sleeping: dict[_Sleep, None] = {}

    async def sleep(self, name: str, seconds: float) -> None:
        """Sleep, unless `move` sets another end in the meantime."""
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        sleep = _Sleep(name, woken, loop.call_later(max(seconds, 0.0), _finish, woken))
        self._sleeping[sleep] = None
        try:
            await woken
        finally:
            del self._sleeping[sleep]
            sleep.timer.cancel()

    def ends(self) -> list[tuple[str, float]]:
        """Return the names of the sleeps with the times of their ends, in the order in which they began."""
        return [(sleep.name, sleep.timer.when()) for sleep in self._sleeping]

    def move(self, ends: Iterable[tuple[str, float]]) -> None:
        """Set the ends of all sleeps. Of several with the same name, the first gets the first end.

        Those without an end do not end: what they wait for has happened.
        """
        loop = asyncio.get_running_loop()
        unmoved = list(self._sleeping)
        for sleep in unmoved:
            sleep.timer.cancel()
        for name, end in ends:
            first = next((sleep for sleep in unmoved if sleep.name == name), None)
            if first is not None:
                unmoved.remove(first)
                first.timer = loop.call_at(end, _finish, first.woken)


SLEEPS: Final[ContextVar[NamedSleeps | None]] = ContextVar("opsdk_named_sleeps", default=None)
"""The named sleeps of a recorded or replayed operator; None for others."""


async def named_sleep(name: str, seconds: float) -> None:
    """Sleep, as `asyncio.sleep` does.

    Args:
        name: of what comes next, the same one in each run of the operator.
        seconds: at most 0 for the next iteration of the event loop.
    """
    sleeps = SLEEPS.get()
    if sleeps is None:
        await asyncio.sleep(seconds)
    else:
        await sleeps.sleep(name, seconds)


def _finish(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
