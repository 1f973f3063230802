"""The generic store of a storage in this process, with synchronous reads for controllers and admission."""

from __future__ import annotations

from collections.abc import Sequence

from opsdk.apiserver.registry.store import GenericStore
from opsdk.apiserver.storage.ports import LocalStorage
from opsdk.structured_merge.value import JsonObject


class LocalStore(GenericStore):
    """A `GenericStore` on a `LocalStorage`."""

    storage: LocalStorage

    def list_now(self, namespace: str = "") -> Sequence[JsonObject]:
        """Return the objects of a namespace (empty: of all) in their storage version."""
        return [value for _, value in self.storage.list_now(self.key_prefix(namespace)).items]
