"""The protocol of fault effects. `envtest.testing.effects` has the effects."""

from __future__ import annotations

from random import Random
from typing import Protocol

from opsdk.apiserver.endpoints.call import Call, Handler
from opsdk.http.server.response import HttpResponse


class FaultScope(Protocol):
    """The protocol of the environment, as fault effects use it."""

    @property
    def rng(self) -> Random:
        """The random number generator of the fault rules."""
        ...

    @property
    def revision(self) -> int:
        """The revision of the storage."""
        ...


class Effect(Protocol):
    """The protocol of a fault effect."""

    async def apply(self, call: Call, handler: Handler, scope: FaultScope) -> HttpResponse:
        """Return a response; `handler` executes the request."""
        ...
