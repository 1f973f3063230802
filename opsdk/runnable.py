"""What the manager runs: three small Protocols, so that nothing it runs has to know it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Runnable(Protocol):
    """Something with a life: it works until it is done or cancelled."""

    async def start(self) -> None:
        """Run until the work ends; returning early is fine, raising stops the whole manager.

        Cancellation is the signal to stop: clean up and let ``CancelledError`` pass.
        """
        ...


@runtime_checkable
class NeedsLeaderElection(Protocol):
    """Says whether a runnable may only run on the elected replica. Without this Protocol it must be elected."""

    def needs_leader_election(self) -> bool:
        """True: start after winning the election. False: run on every replica."""
        ...


@runtime_checkable
class Ready(Protocol):
    """Something that takes time until it can be relied on, e.g. a cache."""

    async def wait_ready(self) -> None:
        """Return when ready; raise the reason if it never will be."""
        ...
