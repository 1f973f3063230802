"""The stores of subresources that change one part of another store's objects.

Upstream: StatusREST of k8s.io/kubernetes/pkg/registry (v1.36).
"""

from __future__ import annotations

from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.rest import Transform, Validate, accept
from opsdk.apiserver.registry.store import GenericStore
from opsdk.apiserver.registry.strategy import StatusStrategy, Strategy
from opsdk.structured_merge.value import JsonObject


class UpdateStore:
    """Updates objects of another store by the subresource's own strategy (``namespaces/finalize``)."""

    def __init__(self, main: GenericStore, strategy: Strategy) -> None:
        self.strategy = strategy
        self._store = GenericStore(main.storage, main.info, strategy, prefix=main.prefix, codec=main.codec)

    async def update(
        self,
        context: Context,
        name: str,
        transform: Transform,
        validate: Validate = accept,
        *,
        force_create: bool = False,
        uid: str = "",
    ) -> tuple[JsonObject, bool]:
        """See `Updater`; never creates."""
        return await self._store.update(context, name, transform, validate, uid=uid)


class ReadableStore(UpdateStore):
    """An `UpdateStore` that also returns the whole object (``pods/ephemeralcontainers``, ``pods/resize``)."""

    async def get(self, context: Context, name: str) -> JsonObject:
        return await self._store.get(context, name)


class StatusStore(ReadableStore):
    """Gets and updates the status of another store's objects."""

    def __init__(self, main: GenericStore, strategy: StatusStrategy | None = None) -> None:
        super().__init__(main, strategy or StatusStrategy(main.strategy))
