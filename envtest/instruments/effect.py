"""The protocol of fault effects. `envtest.testing.effects` has the effects."""

from __future__ import annotations

from random import Random
from typing import Protocol

import msgspec

from opsdk.apiserver.endpoints.call import Call, Handler
from opsdk.apiserver.storage.ports import LocalStorage
from opsdk.http.server.response import HttpResponse


class FaultScope(msgspec.Struct, frozen=True, kw_only=True):
    """What fault effects read of the environment.

    Attributes:
        rng: the random number generator of the fault rules.
        storage: the storage of all objects.
    """

    rng: Random
    storage: LocalStorage

    @property
    def revision(self) -> int:
        """The current revision of the storage."""
        return self.storage.current_rv


class Effect(Protocol):
    """The protocol of a fault effect."""

    async def apply(self, call: Call, handler: Handler, scope: FaultScope) -> HttpResponse:
        """Return a response; `handler` executes the request."""
        ...
