"""Reads from informers.

Upstream: sigs.k8s.io/controller-runtime/pkg/cache/internal/cache_reader.go
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any

from opsdk.aio.slicer import Slicer
from opsdk.apimachinery.codec import decode, undecodable
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.meta import ListMeta
from opsdk.apimachinery.object import AnyObject, ObjectList, Undecodable
from opsdk.apimachinery.rest_mapper import RestMapper
from opsdk.apimachinery.scheme import Scheme
from opsdk.apimachinery.watch import WatchEvent
from opsdk.cache.cache import Cache
from opsdk.cache.cached_kind import CachedKind
from opsdk.cache.entry import StoreEntry
from opsdk.client.activity import current_activity
from opsdk.client.operations import Get, List, Operation, Watch
from opsdk.client.options import ListOptions
from opsdk.client.ports import RemovalObserver
from opsdk.errors import DecodeError, Details, NotFoundError, RequestInfo, StaleCacheError, UsageError

CONTINUE_NOT_SUPPORTED = "continue-not-supported"
"""Continue token of a list that `limit` truncated. A cache has no pages."""

# Entries that are filtered before other tasks run.
_SLICE_ENTRIES = 2_000


class CachedReader:
    """An executor of `Get` and `List` that reads from the cache.

    The first read of a kind starts its informer and waits for the initial list, at most `CacheOptions.sync_timeout`.
    Where the server denies the list, the read fails at once with its message; the informer continues. A read shows at
    least the last write through the same cluster. Every returned object belongs to the caller.
    """

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.scheme: Scheme = cache.scheme
        self.mapper: RestMapper = cache.mapper

    # Not async: `_get` and `_list` have the coroutines.
    def execute(self, operation: Operation) -> Coroutine[Any, Any, Any]:
        """Execute a read. Raises `UsageError` for other operations."""
        if isinstance(operation, Get):
            return self._get(operation)
        if isinstance(operation, List):
            return self._list(operation)
        raise UsageError(f"a cached reader cannot {type(operation).__name__.lower()}")

    def observe_removals(self, kind: Kind[Any], observer: RemovalObserver) -> bool:
        cached = self.cache.existing(kind)
        if cached is None:
            return False
        cached.observe_removals(observer)
        return True

    def watch(self, operation: Watch) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[Any]]]:
        """Raise `UsageError`: use handlers to watch informers."""
        raise UsageError(f"a cached reader cannot watch {operation.kind.name}: add a handler to the cache's informer")

    async def _synced_kind(self, operation: Get | List, namespace: str) -> CachedKind:
        limit = operation.options.max_staleness
        if limit is None and (synced := self.cache.synced(operation.kind)) is not None:
            return synced
        self.cache.check_running()
        cached = self.cache.existing(operation.kind) or await self.cache.informer_for(operation.kind, implicitly=True)
        if not cached.has_synced:
            # Not for other namespaces: the server may deny their lists forever.
            await cached.wait_synced(self.cache.options.sync_timeout, fail_fast=True, namespace=namespace)
        if limit is not None:
            for health in cached.health():
                if health.seconds_since_contact is None or health.seconds_since_contact > limit:
                    raise StaleCacheError(f"the cache is older than {limit:g} s: {health}") from health.last_error
        return cached

    async def _get(self, operation: Get) -> AnyObject:
        """Return an object from the cache. A key with an unknown own write is read from the server first."""
        kind, key, options = operation.kind, operation.key, operation.options
        cached = self.cache.synced(kind)
        if cached is None or options.max_staleness is not None:
            cached = await self._synced_kind(operation, key.namespace)
        if key.namespace and not cached.mapping.namespaced:
            key = ObjectKey("", key.name)
        namespace, own_writes = key.namespace, options.read_own_writes
        for informer in cached.select(namespace):
            store = informer.store
            if own_writes and (key in store.own.unknown or store.own.unknown_list is not None):
                await informer.unknown_reads.read(key)
            if (entry := store.get(key, own_writes=own_writes)) is not None:
                data = entry.data
                obj: AnyObject = decode(data, kind)
                if (activity := current_activity()) is not None:
                    activity.record_read(kind.gvk, key, entry.resource_version, cached=True, data=data)
                return obj
        _record_read(kind, key, "", None)
        resource = cached.mapping.resource
        request = RequestInfo(
            verb="get",
            group=resource.group,
            version=resource.version,
            resource=resource.resource,
            namespace=key.namespace,
            name=key.name,
            cached=True,
        )
        is_selected = not cached.follows_namespaces or cached.informers_of(namespace)
        reason = "" if is_selected else f": the namespace_selector of the cache does not match namespace {namespace}"
        raise NotFoundError(
            f'{resource.group_resource} "{key.name}" not found{reason}',
            details=Details(name=key.name, group=resource.group, kind=resource.resource),
            request=request,
        )

    async def _list(self, operation: List) -> ObjectList[AnyObject]:
        """Return the objects from the cache that match, in slices; undecodable ones are in the list's `undecodable`."""
        options = operation.options
        if options.continue_token:
            raise UsageError("continue list option is not supported by the cache: leave it out, or pass uncached=True")
        cached = await self._synced_kind(operation, options.namespace)
        # Wait for indices that are being built, and read what own writes left unknown.
        for informer in cached.select(options.namespace if cached.mapping.namespaced else ""):
            for requirement in options.field_selector.requirements:
                await informer.indices.wait(requirement.field)
            own = informer.store.own
            if options.read_own_writes and (own.unknown or own.unknown_list is not None):
                await informer.unknown_reads.read()
        items: list[AnyObject] = []
        bad: list[Undecodable] = []
        more = ""
        slicer = Slicer()
        for entry in await _select(cached, options):
            if slicer.add(entry.size):
                await asyncio.sleep(0)
            if options.limit is not None and len(items) >= options.limit:
                more = CONTINUE_NOT_SUPPORTED
                break
            data = entry.data
            _record_read(operation.kind, entry.key, entry.resource_version, data)
            try:
                items.append(decode(data, operation.kind))
            except DecodeError as error:
                bad.append(undecodable(data, operation.kind.gvk, error))
        if not items and not bad and not (options.exclude or options.owner_uid):
            # That there is none may decide. Lists of children look for what is too much.
            _record_read(operation.kind, ObjectKey(options.namespace, "*"), "", None)
        versions = [i.reflector.resource_version for i in cached.informers.values()]
        # Several informers have several resource versions, and the list has none.
        version = versions[0] if len(versions) == 1 else ""
        return ObjectList(items, ListMeta(resource_version=version, continue_token=more), bad)


def _record_read(kind: Kind[Any], key: ObjectKey, version: str, data: bytes | None) -> None:
    """Add the object to the journal entry of the running reconcile."""
    if (activity := current_activity()) is not None:
        activity.record_read(kind.gvk, key, version, cached=True, data=data)


async def _select(cached: CachedKind, options: ListOptions) -> list[StoreEntry]:
    """Return the entries that `options` select, from one snapshot, ordered by namespace and name, as a server does."""
    candidates = _candidates(cached, options)
    # Filtered and sorted in slices: ten thousand objects would hold the loop for 30 ms.
    pinned = options.field_selector.exact("metadata.namespace")
    name, owner, excluded = options.field_selector.exact("metadata.name"), options.owner_uid, options.exclude
    selected: list[StoreEntry] = []
    for start in range(0, len(candidates), _SLICE_ENTRIES):
        if start:
            await asyncio.sleep(0)
        selected += [
            e
            for e in candidates[start : start + _SLICE_ENTRIES]
            if e.key not in excluded
            and options.label_selector.matches(e.labels)
            and (name is None or e.key.name == name)
            and (pinned is None or e.key.namespace == pinned)
            and (not owner or any(reference.uid == owner for reference in e.owners))
        ]
    large = len(candidates) > _SLICE_ENTRIES
    if large:
        await asyncio.sleep(0)
    selected.sort(key=lambda e: e.key)
    if large:
        await asyncio.sleep(0)  # the sort of ten thousand takes as long as a slice
    return selected


def _candidates(cached: CachedKind, options: ListOptions) -> list[StoreEntry]:
    """Return the entries of the namespace, the index values and the owner; of the owner, perhaps others too."""
    if any(r.negated for r in options.field_selector.requirements):
        raise UsageError(
            "non-exact field matches are not supported by the cache: filter the result, or pass uncached=True"
        )
    if options.field_selector.nothing or options.label_selector.nothing:
        return []
    exact = {r.field: r.value for r in options.field_selector.requirements if r.field != "metadata.name"}
    namespace = options.namespace if cached.mapping.namespaced else ""
    pinned = exact.pop("metadata.namespace", "")
    own_writes = options.read_own_writes
    candidates: list[StoreEntry] = []
    for informer in cached.select(namespace or pinned):
        store = informer.store
        chosen: list[StoreEntry] | None = None
        if not exact and options.owner_uid:
            # Each reconcile prunes: looking at all children of a namespace would cost a millisecond per thousand.
            chosen = list(store.by_owner(options.owner_uid, namespace, own_writes=own_writes))
        elif not exact:
            chosen = list(store.entries(namespace, own_writes=own_writes))
        for field, value in exact.items():
            matching = list(store.by_index(field, value, namespace, own_writes=own_writes))
            keys = {entry.key for entry in matching}
            chosen = matching if chosen is None else [entry for entry in chosen if entry.key in keys]
        candidates += chosen or ()
    return candidates
