"""Callbacks that run when this replica becomes the leader.

Upstream: github.com/rancher/wrangler/pkg/leader (Manager.OnLeader)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from opsdk.errors import UsageError
from opsdk.event.handlers import is_async
from opsdk.manager.manager import Manager

LeaderCallback = Callable[[], Awaitable[None]]


class _OnLeader:
    """Runs one callback when the LEADER group starts, which happens once in a process."""

    def __init__(self, callback: LeaderCallback) -> None:
        self._callback = callback

    async def start(self) -> None:
        """Call the callback, and return."""
        await self._callback()

    def __repr__(self) -> str:
        return f"<on_leader {getattr(self._callback, '__qualname__', self._callback)}>"


def on_leader(manager: Manager, *callbacks: LeaderCallback) -> None:
    """Call async functions once when this replica becomes the leader; without an election, when the caches are ready.

    They run concurrently with each other and with the controllers. An exception stops the manager. The loss of the
    lease cancels running functions, and then the process ends, so each process leads at most once.

    Raises `UsageError` for a function that is not async.
    """
    for callback in callbacks:
        if not is_async(callback):
            raise UsageError(f"{callback!r} is not async: declare it with `async def`")
        manager.add(_OnLeader(callback))
