"""Disconnects clients that stop reading: what they have not read holds objects that were replaced long ago."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final

from opsdk.aio.clock import monotonic

STALL_SECONDS: Final = 60.0
"""Seconds without room for the next part of a response. kube-apiserver ends a list after 60 s in all."""


class _Stall:
    """A stream without data has no timer."""

    __slots__ = ("_cut", "_since", "_timer")

    def __init__(self, cut: Callable[[], None]) -> None:
        self._cut = cut
        self._since = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """A part is being sent."""
        self._since = monotonic()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(STALL_SECONDS, self._check)

    def end(self) -> None:
        """The part is sent."""
        self._since = math.inf

    def close(self) -> None:
        """The stream has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._timer = None
        remaining = self._since + STALL_SECONDS - monotonic()
        if remaining <= 0:
            self._cut()
        elif remaining < math.inf:
            self._timer = asyncio.get_running_loop().call_later(remaining, self._check)


async def until_stalled(
    chunks: AsyncGenerator[bytes, None], cut: Callable[[], None] | None
) -> AsyncGenerator[bytes, None]:
    """Yield the chunks, and call `cut` if the client takes longer than `STALL_SECONDS` for one of them."""
    stall = None if cut is None else _Stall(cut)
    try:
        async with aclosing(chunks):
            async for chunk in chunks:
                if stall is not None:
                    stall.begin()
                yield chunk
                if stall is not None:
                    stall.end()
    finally:
        if stall is not None:
            stall.close()
