"""Getters and updates for `opsdk.testing.eventually.eventually`, after controller-runtime's komega.

::

    k = Komega(cluster.uncached)
    await env.eventually(k.get(Deployment, "default/web"), lambda d: d.status.ready_replicas == 3)
    await env.eventually(k.update(ConfigMap, "default/a", lambda cm: cm.data.update(x="1")))

Upstream: sigs.k8s.io/controller-runtime/pkg/envtest/komega
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.kinds import KindLike
from opsdk.apimachinery.object import AnyObject, ObjectList
from opsdk.client.client import Client

__all__ = ["Komega"]

T = TypeVar("T", bound=AnyObject)


class Komega:
    """Creates functions without arguments that read or change objects, for `Environment.eventually`.

    A change reads the object first, so after a `ConflictError` the next call succeeds.
    """

    def __init__(self, client: Client, *, namespace: str = "") -> None:
        self._client = client
        self._namespace = namespace

    def __repr__(self) -> str:
        return f"<Komega of {self._client!r}>"

    def get(self, kind: KindLike[T], key: ObjectKey | str) -> Callable[[], Awaitable[T]]:
        """Return the object."""

        async def get() -> T:
            return await self._client.get(kind, key, namespace=self._namespace)

        return get

    def list(self, kind: KindLike[T], *, namespace: str = "") -> Callable[[], Awaitable[ObjectList[T]]]:
        """List the objects of one namespace, or of all namespaces."""

        async def listed() -> ObjectList[T]:
            return await self._client.list(kind, namespace=namespace or self._namespace)

        return listed

    def update(
        self, kind: KindLike[T], key: ObjectKey | str, change: Callable[[T], object]
    ) -> Callable[[], Awaitable[T]]:
        """Apply `change` to the object and update it."""

        async def update() -> T:
            obj = await self._client.get(kind, key, namespace=self._namespace)
            change(obj)
            return await self._client.update(obj)

        return update

    def update_status(
        self, kind: KindLike[T], key: ObjectKey | str, change: Callable[[T], object]
    ) -> Callable[[], Awaitable[T]]:
        """Apply `change` to the object and update its status."""

        async def update_status() -> T:
            obj = await self._client.get(kind, key, namespace=self._namespace)
            change(obj)
            return await self._client.status().update(obj)

        return update_status
