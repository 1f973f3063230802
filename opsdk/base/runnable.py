"""Protocols of the objects that a manager runs.

A runnable implements them without importing the manager.

Upstream: sigs.k8s.io/controller-runtime/pkg/manager/manager.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class Runnable(Protocol):
    """A long-running component: a controller, a cache, a server."""

    async def start(self) -> None:
        """Run until the work ends or the task is cancelled.

        Return early when there is nothing left to do. An exception stops the whole manager. On cancellation, release
        resources and let ``CancelledError`` propagate.
        """
        ...


@runtime_checkable
class NeedsLeaderElection(Protocol):
    """Tells the manager whether a runnable needs leader election. A runnable without this method needs it."""

    def needs_leader_election(self) -> bool:
        """Return True to start after this replica wins the election, False to run on every replica."""
        ...


@runtime_checkable
class Ready(Protocol):
    """A runnable that needs time before other runnables can use it, such as a cache."""

    async def wait_ready(self) -> None:
        """Return when the runnable is ready. Raise the reason if it can never become ready."""
        ...


@runtime_checkable
class Warmup(Protocol):
    """A runnable that can fill its caches and queues on a replica that does not lead yet.

    The manager calls `warmup` before this replica leads, and ``start`` when it leads, also while `warmup` still runs.
    Without leader election, `warmup` is not called. Writes during a warm-up raise `LeaderElectionLostError`.
    """

    async def warmup(self) -> None:
        """Return when the runnable is warm; it may take any time. An exception stops the whole manager.

        A cancellation ends the warm-up: the manager stops.
        """
        ...


@runtime_checkable
class ServesWebhooks(Protocol):
    """A runnable that serves webhooks. It starts before the caches: they may need its conversions."""

    def webhook_paths(self) -> Sequence[str]:
        """Return the paths that are served."""
        ...


@runtime_checkable
class Debuggable(Protocol):
    """A runnable that shows its state on the manager's debug pages."""

    def debug_pages(self) -> Mapping[str, Callable[[], Iterable[object]]]:
        """Return functions that return the rows of pages, such as ``{"informers": ...}``.

        A row has a JSON form, and contains no secrets and no objects. Several runnables may add rows to a page.
        """
        ...


@runtime_checkable
class Enqueues(Protocol):
    """A runnable with controllers whose requests can be queued by hand."""

    def enqueue_now(self, controller: str, namespace: str, name: str) -> str:
        """Queue a request before all others, without the delay of its retry.

        Returns:
            The outcome in words; empty if the runnable has no controller of this name.

        Raises:
            UsageError: the controller does not run here, or its requests are not keys of objects.
        """
        ...
