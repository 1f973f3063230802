"""The protocol of fault effects. `envtest.testing.effects` has the effects."""

from __future__ import annotations

from random import Random
from typing import Protocol

from opsdk.apiserver.endpoints.call import Call, Handler
from opsdk.http.server.response import HttpResponse


class FaultScope(Protocol):
    """What an effect may know of the environment."""

    @property
    def rng(self) -> Random:
        """Where chances come from."""
        ...

    @property
    def revision(self) -> int:
        """The storage's."""
        ...


class Effect(Protocol):
    """What happens."""

    async def apply(self, call: Call, handler: Handler, scope: FaultScope) -> HttpResponse:
        """Answer, with or without the help of `handler`."""
        ...
