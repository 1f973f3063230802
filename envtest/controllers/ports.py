"""The interface between an environment and its simulated controllers."""

from __future__ import annotations

from typing import Protocol

NONE = "none"
"""No controllers: a bare API server."""


class SimulatedControllers(Protocol):
    """The protocol of the simulated controllers."""

    async def start(self) -> None:
        """Start the informers and the controllers."""
        ...

    def restored(self) -> None:
        """Resynchronize after the storage went back to an earlier state."""
        ...

    async def aclose(self) -> None:
        """Stop; idempotent."""
        ...


class NoControllers:
    """A bare API server: no controllers run, and their modules are not imported."""

    def __repr__(self) -> str:
        return "<NoControllers>"

    async def start(self) -> None: ...

    def restored(self) -> None: ...

    async def aclose(self) -> None: ...
