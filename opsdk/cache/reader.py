"""Reads from informers.

Upstream: sigs.k8s.io/controller-runtime/pkg/cache/internal/cache_reader.go
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any

from opsdk.apimachinery.codec import decode, undecodable
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.meta import ListMeta
from opsdk.apimachinery.object import AnyObject, ObjectList, Undecodable
from opsdk.apimachinery.rest_mapper import RestMapper
from opsdk.apimachinery.scheme import Scheme
from opsdk.apimachinery.watch import WatchEvent
from opsdk.cache.cache import Cache, CachedKind
from opsdk.cache.store import StoreEntry
from opsdk.client.operations import Get, List, Operation, Watch
from opsdk.client.options import ListOptions
from opsdk.errors import DecodeError, Details, NotFoundError, UsageError

CONTINUE_NOT_SUPPORTED = "continue-not-supported"
"""Continue token of a list that `limit` truncated. A cache has no pages."""


class CachedReader:
    """An executor of `Get` and `List` that reads from the cache.

    The first read of a kind starts its informer and waits for the initial list. Put a timeout around the call to limit
    the wait; the informer continues. Every returned object belongs to the caller.
    """

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.scheme: Scheme = cache.scheme
        self.mapper: RestMapper = cache.mapper

    async def execute(self, operation: Operation) -> Any:
        """Execute a read. Raises `UsageError` for other operations."""
        match operation:
            case Get():
                return await self._get(operation)
            case List():
                return await self._list(operation)
            case _:
                raise UsageError(f"a cached reader cannot {type(operation).__name__.lower()}")

    def watch(self, operation: Watch) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[Any]]]:
        """Raise `UsageError`: use handlers to watch informers."""
        raise UsageError(f"a cached reader cannot watch {operation.kind.name}: add a handler to the cache's informer")

    async def _synced(self, kind: Kind[AnyObject]) -> CachedKind:
        self.cache.check_running()
        cached = await self.cache.informer_for(kind, implicitly=True)
        if not cached.has_synced:
            await cached.wait_synced()
        return cached

    async def _get(self, operation: Get) -> AnyObject:
        cached = await self._synced(operation.kind)
        namespace = operation.key.namespace if cached.mapping.namespaced else ""
        key = operation.key._replace(namespace=namespace)
        for store in cached.stores(namespace):
            if (entry := store.get(key)) is not None:
                obj: AnyObject = decode(entry.data, operation.kind)
                return obj
        resource = cached.mapping.resource.group_resource
        raise NotFoundError(
            f'{resource} "{key.name}" not found',
            details=Details(name=key.name, group=resource.group, kind=resource.resource),
        )

    async def _list(self, operation: List) -> ObjectList[AnyObject]:
        options = operation.options
        if options.continue_token:
            raise UsageError("continue list option is not supported by the cache: leave it out, or pass uncached=True")
        cached = await self._synced(operation.kind)
        items: list[AnyObject] = []
        bad: list[Undecodable] = []
        more = ""
        for entry in _select(cached, options):
            if options.limit is not None and len(items) >= options.limit:
                more = CONTINUE_NOT_SUPPORTED
                break
            try:
                items.append(decode(entry.data, operation.kind))
            except DecodeError as error:
                bad.append(undecodable(entry.data, operation.kind.gvk, error))
        versions = [i.reflector.resource_version for i in cached.informers.values()]
        # Several informers have several resource versions, and the list has none.
        version = versions[0] if len(versions) == 1 else ""
        return ObjectList(items, ListMeta(resource_version=version, continue_token=more), bad)


def _select(cached: CachedKind, options: ListOptions) -> Iterable[StoreEntry]:
    """Return the entries that `options` select, ordered by namespace and name, as a server does."""
    namespace = options.namespace if cached.mapping.namespaced else ""
    exact = {r.field: r.value for r in options.field_selector.requirements}
    if any(r.negated for r in options.field_selector.requirements):
        raise UsageError(
            "non-exact field matches are not supported by the cache: filter the result, or pass uncached=True"
        )
    name = exact.pop("metadata.name", None)
    pinned = exact.pop("metadata.namespace", None)
    entries: list[StoreEntry] = []
    for store in cached.stores(namespace or pinned or ""):
        chosen: Iterable[StoreEntry] = store.entries(namespace)
        for position, (field, value) in enumerate(exact.items()):
            matching = store.by_index(field, value, namespace)
            if position == 0:
                chosen = matching
            else:
                keys = {e.key for e in matching}
                chosen = [e for e in chosen if e.key in keys]
        entries += [
            e
            for e in chosen
            if options.label_selector.matches(e.labels)
            and (name is None or e.key.name == name)
            and (pinned is None or e.key.namespace == pinned)
        ]
    return sorted(entries, key=lambda e: e.key)
