"""Subresources that update one part of an object."""

from __future__ import annotations

from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.rest import Transform, Validate, accept
from opsdk.apiserver.registry.store import GenericStore
from opsdk.apiserver.registry.strategy import Strategy
from opsdk.structured_merge.value import JsonObject

SUCCESS: JsonObject = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
"""The answer of subresources that only do something."""


class UpdateStore:
    """Only updates, by rules of its own (``namespaces/finalize``)."""

    def __init__(self, main: GenericStore, strategy: Strategy) -> None:
        self._store = GenericStore(main.storage, main.info, strategy, prefix=main.prefix)
        self.strategy = strategy

    async def update(
        self,
        context: Context,
        name: str,
        transform: Transform,
        validate: Validate = accept,
        *,
        force_create: bool = False,  # noqa: ARG002 - the shape of Updater; nothing is created here
        uid: str = "",
    ) -> tuple[JsonObject, bool]:
        """See `Updater`."""
        return await self._store.update(context, name, transform, validate, uid=uid)


class ReadableStore(UpdateStore):
    """The whole object can be read here too (``pods/ephemeralcontainers``, ``pods/resize``)."""

    async def get(self, context: Context, name: str) -> JsonObject:
        """See `Getter`."""
        return await self._store.get(context, name)
