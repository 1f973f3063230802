"""Namespaces that are deleted lose their content, and then go; new ones get their default account."""

from __future__ import annotations

from envtest.controllers.cluster import Cluster, deleting
from opsdk.apiserver.registry.ports import ListQuery
from opsdk.apiserver.storage.ports import Change, Kind, Tree
from opsdk.errors import AlreadyExistsError, NotFoundError

_NAMESPACES = "/namespaces"
_ACCOUNTS = "/serviceaccounts"


class NamespaceController:
    """See the module."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def handle(self, change: Change) -> None:
        """One change anywhere."""
        namespaces = self._cluster.store(_NAMESPACES)
        obj = change.value
        if obj is None:
            return
        if change.key.startswith(namespaces.prefix):
            name = obj["metadata"]["name"]
        elif change.kind is Kind.DELETE:
            name = obj["metadata"].get("namespace", "")
        else:
            return
        namespace = self._cluster.get(_NAMESPACES, "", name) if name else None
        if namespace is None:
            return
        if deleting(namespace):
            await self._empty(namespace)
        else:
            await self._account(namespace)

    async def start(self) -> None:
        """Accounts for the namespaces that are there."""
        for namespace in self._cluster.list(_NAMESPACES):
            await self._account(namespace)

    async def _account(self, namespace: Tree) -> None:
        name = namespace["metadata"]["name"]
        if self._cluster.get(_ACCOUNTS, name, "default") is not None:
            return
        account = {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "default"}}
        try:
            await self._cluster.create(_ACCOUNTS, name, account)
        except (AlreadyExistsError, NotFoundError):
            return

    async def _empty(self, namespace: Tree) -> None:
        name = namespace["metadata"]["name"]
        left = 0
        for store in list(self._cluster.stores()):
            if not store.strategy.namespaced:
                continue
            for obj in store.list_now(name, ListQuery()).items:
                if not deleting(obj):
                    await self._cluster.delete(store, obj)
                key = store.key(name, obj["metadata"]["name"])
                left += self._cluster.at(key) is not None
        if not left:
            await self._cluster.change(self._cluster.store(_NAMESPACES), namespace, _finalize)


def _finalize(namespace: Tree) -> None:
    namespace["spec"] = {k: v for k, v in (namespace.get("spec") or {}).items() if k != "finalizers"}
