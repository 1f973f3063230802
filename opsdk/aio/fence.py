"""The fence: refuses writes of a replica that no longer leads.

The manager sets `FENCE` for the tasks that need leadership. Tasks and ``asyncio.to_thread`` threads inherit it,
including a reconcile that survives its cancellation. `opsdk.rest.transport.Transport` checks it before each write.

Upstream: controller-runtime has no fence; it exits the process when the lease is lost.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol, runtime_checkable

__all__ = ["check_fence"]


@runtime_checkable
class Fence(Protocol):
    """Decides whether this replica may still write. Must not block, and must work from any thread."""

    def check(self, action: str) -> None:
        """Return if `action` is allowed now. Raises `LeaderElectionLostError`, which names `action`."""
        ...


@runtime_checkable
class TermFence(Fence, Protocol):
    """A fence that knows the leader's term."""

    @property
    def is_term_new(self) -> bool:
        """Whether another replica may have led a moment ago: the caches may not show yet what it wrote."""
        ...


FENCE: ContextVar[Fence | None] = ContextVar("opsdk_fence", default=None)
"""The fence of the running task; None allows everything."""


def check_fence(action: str) -> None:
    """Check the fence of the running task. Call it right before a write that does not go through opsdk.

    Args:
        action: what is about to happen, for the message: ``the upload of a backup``.

    Raises:
        LeaderElectionLostError: this replica no longer leads.
    """
    fence = FENCE.get()
    if fence is not None:
        fence.check(action)


def follows_another_leader() -> bool:
    """Return whether another replica may have written what the caches of the running task do not show yet."""
    fence = FENCE.get()
    return isinstance(fence, TermFence) and fence.is_term_new
