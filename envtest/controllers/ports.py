"""The interface between an environment and its simulated controllers."""

from __future__ import annotations

from typing import Protocol

NONE = "none"
"""No controllers: a bare API server."""


class Simulation(Protocol):
    """Simulated controllers, to be started and stopped."""

    async def start(self) -> None:
        """Take in what is there, then follow."""
        ...

    def restored(self) -> None:
        """The objects went back to an earlier state."""
        ...

    async def aclose(self) -> None:
        """Stop; idempotent."""
        ...


class NoControllers:
    """A bare API server: nothing runs, and the code of controllers is not loaded."""

    def __repr__(self) -> str:
        return "<NoControllers>"

    async def start(self) -> None:
        """See `Simulation`."""

    def restored(self) -> None:
        """See `Simulation`."""

    async def aclose(self) -> None:
        """See `Simulation`."""
