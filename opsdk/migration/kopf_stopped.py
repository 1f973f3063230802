"""Tells daemons of kopf that they should end.

Upstream: kopf/_core/intents/stoppers.py (1.45)
"""

from __future__ import annotations

import asyncio

from opsdk.aio.blocking import current_call

__all__ = ["BlockingStopped", "Stopped"]


class Stopped:
    """Tells an async daemon that it should end: true from its cancellation on."""

    def __init__(self) -> None:
        self._is_set = False

    def __bool__(self) -> bool:
        return self._is_set

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait until the daemon should end, at most for `seconds`. Returns whether it should."""
        try:
            await (asyncio.Event().wait() if seconds is None else asyncio.sleep(seconds))
        except asyncio.CancelledError:
            self._is_set = True
        return self._is_set


class BlockingStopped:
    """Tells a daemon in a thread that it should end. Each use is a point at which it can be cancelled."""

    def __init__(self) -> None:
        self._is_set = False

    def __bool__(self) -> bool:
        return self._is_set or self.wait(0)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the daemon should end, at most for `seconds`. Returns whether it should."""
        try:
            current_call().wait(_sleep(seconds))
        except asyncio.CancelledError:
            self._is_set = True
        return self._is_set


async def _sleep(seconds: float | None) -> None:
    await (asyncio.Event().wait() if seconds is None else asyncio.sleep(seconds))
