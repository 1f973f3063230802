"""The namespaces whose labels a selector matches, as they come and go."""

from __future__ import annotations

import asyncio

from opsdk.cache.health import InformerHealth
from opsdk.cache.informer import Informer
from opsdk.cache.store import Delta


class NamespaceSelection:
    """Follows the Namespaces that an informer with a label selector stores.

    Args:
        informer: of the Namespaces, metadata only. The selection starts and closes it.
    """

    def __init__(self, informer: Informer) -> None:
        self.informer = informer
        self._changed = asyncio.Event()

    async def start(self, timeout: float) -> None:
        """Return when the namespaces are listed.

        Raises:
            CacheSyncError: the server denies the list, or has not answered for `timeout` seconds.
        """
        self.informer.add_handler(self._on_delta)
        self.informer.start()
        await self.informer.wait_synced(timeout, fail_fast=True)

    @property
    def names(self) -> frozenset[str]:
        """The selected namespaces."""
        return frozenset(entry.key.name for entry in self.informer.store.entries(own_writes=False))

    async def wait_changed(self) -> None:
        """Return when namespaces have come or gone since the last call."""
        await self._changed.wait()
        self._changed.clear()

    def health(self) -> InformerHealth:
        """Return the health of the informer of Namespaces."""
        return self.informer.health()

    async def aclose(self) -> None:
        """Close the informer. Idempotent."""
        await self.informer.aclose()

    def __repr__(self) -> str:
        return f"<NamespaceSelection of {len(self.names)} namespaces>"

    def _on_delta(self, delta: Delta) -> None:
        if delta.old is None or delta.new is None:  # an update changes no name
            self._changed.set()
