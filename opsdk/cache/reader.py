"""Reads answered from informers."""

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
"""The token of a list that `limit` cut short: there is more, but a cache has no pages."""


class CachedReader:
    """A executor of `Get` and `List` that asks no server.

    The first read of a kind starts its informer and waits for the initial list; a caller that does not want to wait
    puts a timeout around the call, and the informer goes on for the next one. Every object returned is the
    caller's own.
    """

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.scheme: Scheme = cache.scheme
        self.mapper: RestMapper = cache.mapper

    async def execute(self, operation: Operation) -> Any:
        """Answer a read; anything else is a `UsageError`."""
        match operation:
            case Get():
                return await self._get(operation)
            case List():
                return await self._list(operation)
            case _:
                raise UsageError(f"a cached reader cannot {type(operation).__name__.lower()}")

    def watch(self, operation: Watch) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[Any]]]:
        """Always a `UsageError`: informers are watched through handlers."""
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
            raise UsageError("continue list option is not supported by the cache: leave it out, or read live")
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
        # Several informers have several revisions: none of them is the list's.
        version = versions[0] if len(versions) == 1 else ""
        return ObjectList(items, ListMeta(resource_version=version, continue_token=more), bad)


def _select(cached: CachedKind, options: ListOptions) -> Iterable[StoreEntry]:
    """The entries that options select, ordered by namespace and name, as a server would."""
    namespace = options.namespace if cached.mapping.namespaced else ""
    exact = {r.field: r.value for r in options.field_selector.requirements}
    if any(r.negated for r in options.field_selector.requirements):
        raise UsageError("non-exact field matches are not supported by the cache: filter the result, or read live")
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
