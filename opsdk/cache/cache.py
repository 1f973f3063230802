"""The cache: informers by kind and scope, created on demand and shared. `opsdk.cache.reader` serves the reads.

Upstream: sigs.k8s.io/controller-runtime/pkg/cache/cache.go, informer_cache.go
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import TypeVar
from weakref import WeakValueDictionary

from msgspec.structs import replace

from opsdk.aio.waiting import finish
from opsdk.apimachinery.codec import decode
from opsdk.apimachinery.decoders import decoder_steps
from opsdk.apimachinery.gvk import GroupVersionKind, GroupVersionResource
from opsdk.apimachinery.kinds import Kind, KindLike, kind_of
from opsdk.apimachinery.object import AnyObject, PartialObjectMetadata, TypedObject
from opsdk.apimachinery.rest_mapper import RestMapper, RestMapping
from opsdk.apimachinery.scheme import Scheme
from opsdk.apimachinery.selectors import FieldSelector
from opsdk.cache.cached_kind import CachedKind
from opsdk.cache.entry import Indexer
from opsdk.cache.health import InformerHealth
from opsdk.cache.informer import Informer, InformerOptions
from opsdk.cache.list_watch import ListerWatcher
from opsdk.cache.namespace_selection import NamespaceSelection
from opsdk.cache.options import ByObject, CacheOptions, CacheScope, follows_namespaces, no_namespaces, scopes
from opsdk.errors import CacheError, CacheNotStartedError, NotCachedError, UsageError
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

T = TypeVar("T", bound=AnyObject)

# The kind of the objects in a watch of metadata.
_METADATA_GVK = GroupVersionKind("meta.k8s.io", "v1", "PartialObjectMetadata")
_NAMESPACES = RestMapping(
    gvk=GroupVersionKind("", "v1", "Namespace"),
    resource=GroupVersionResource("", "v1", "namespaces"),
    namespaced=False,
)

ListWatchFactory = Callable[[RestMapping, CacheScope], ListerWatcher]


class CacheState(Enum):
    """State of a cache."""

    NEW = "not started"
    STARTING = "starting"
    """The namespaces of `CacheOptions.namespace_selector` are listed."""
    RUNNING = "running"
    """Reads work."""
    STOPPED = "stopped"


class Cache:
    """The informers of all cached kinds. A Runnable: add it to a manager, or start it.

    Each kind is cached once; typed, unstructured and metadata reads use the same entries. A kind that is only requested
    as metadata is listed and watched as metadata.

    Args:
        source: creates the `ListerWatcher` of an informer.
        scheme: the registry of kinds.
        mapper: maps kinds to resources.
        options: see `CacheOptions`.

    Raises:
        UsageError: the options name namespaces for a cluster-scoped kind. For a kind without a class in `scheme`, whose
            scope only the server knows, `informer_for` raises it.
    """

    def __init__(
        self, source: ListWatchFactory, *, scheme: Scheme, mapper: RestMapper, options: CacheOptions | None = None
    ) -> None:
        self.scheme = scheme
        self.mapper = mapper
        self.options = options or CacheOptions()
        for gvk, own in self.options.by_gvk().items():
            if own.namespaces and scheme.recognizes(gvk) and not scheme.type_for(gvk).namespaced:
                raise no_namespaces(gvk)
        self._new_lister_watcher = source
        self._kinds: dict[tuple[GroupVersionKind, bool], CachedKind] = {}
        self._indexers: dict[GroupVersionKind, dict[str, Indexer]] = {}
        # Weak: a kind that is not being added needs no lock.
        self._locks: WeakValueDictionary[tuple[GroupVersionKind, bool], asyncio.Lock] = WeakValueDictionary()
        self._metadata_only_warned: set[GroupVersionKind] = set()
        self._built_decoders: set[type] = set()
        self.generation = 0
        """Changes with the set of informers."""
        self._synced: dict[tuple[GroupVersionKind, type], CachedKind] = {}
        """What `synced` has found. It holds for a generation: an informer that has its initial list keeps it."""
        self._selection = self._new_selection()
        self._selected: frozenset[str] = frozenset()
        self._state = CacheState.NEW
        self._start_error: CacheError | None = None
        self._started = asyncio.Event()

    # -------------------------------------------------------------- life cycle
    def needs_leader_election(self) -> bool:
        """Return False: every replica keeps its cache up to date."""
        return False

    @property
    def running(self) -> bool:
        """Whether the cache is started, so that reads work."""
        return self._state is CacheState.RUNNING

    async def start(self) -> None:
        """Run every informer until cancelled. Informers that are added later start at once."""
        if self._state is not CacheState.NEW:
            raise UsageError("the cache is already started: create one cache for each manager")
        self._state = CacheState.STARTING
        try:
            if self._selection is not None:
                await self._selection.start(self.options.sync_timeout)
                await self._select_namespaces(self._selection.names)
            self._state = CacheState.RUNNING
            self._started.set()
            for kind in self._kinds.values():
                _start(kind)
            if self._selection is None:
                await asyncio.get_running_loop().create_future()
            else:
                await self._follow_namespaces(self._selection)
        except CacheError as error:
            self._start_error = error
            raise
        finally:
            await self.aclose()

    async def _follow_namespaces(self, selection: NamespaceSelection) -> None:
        while True:
            await selection.wait_changed()
            await self._select_namespaces(selection.names)

    async def _select_namespaces(self, names: frozenset[str]) -> None:
        """Start the informers of namespaces that came, and stop those of namespaces that are gone."""
        came, gone = sorted(names - self._selected), sorted(self._selected - names)
        if came or gone:
            selector = self.options.namespace_selector
            log.info("namespaces of the cache (%s): added %s, removed %s", selector, came, gone)
            await self._replan(self.options, names, self._kinds.values())

    async def wait_ready(self) -> None:
        """Return when the cache runs and every existing informer has its initial list, or is denied it.

        A kind that cannot be listed does not delay the others: its health and its readers report the reason.
        """
        await self._started.wait()
        if self._start_error is not None:
            raise self._start_error
        self.check_running()
        for kind in tuple(self._kinds.values()):
            try:
                await kind.wait_synced(self.options.sync_timeout, fail_fast=True)
            except CacheError as error:
                log.error("the cache starts without %s: %s", kind.gvk, error)
            self.check_running()

    async def aclose(self) -> None:
        """Stop every informer. Idempotent."""
        self._state = CacheState.STOPPED
        self._started.set()  # wakes wait_ready, which then raises
        kinds, self._kinds = self._kinds, {}
        self._on_change()
        informers = [informer for kind in kinds.values() for informer in kind.informers.values()]
        selection = [self._selection] if self._selection is not None else []
        await finish(_close([*selection, *informers]), name="cache/close informers")

    # -------------------------------------------------------------- kinds
    async def informer_for(
        self, kind: KindLike[AnyObject], *, implicitly: bool = False, pin: bool = True
    ) -> CachedKind:
        """Return the informers of a kind, created on first use. Does not wait for the initial list.

        Args:
            kind: the kind.
            implicitly: the call comes from a read; see `CacheOptions.reader_fail_on_missing_informer`.
            pin: keep informers that this call creates until `remove_informer`; else until `release` finds no handler.

        Raises:
            NoMatchError: the server does not serve the kind.
            NotCachedError: implicit informers are disabled.
            UsageError: the class of the kind cannot be decoded.
        """
        token = kind_of(kind)
        await self._build_decoder(token.representation)
        metadata_only = token.representation is PartialObjectMetadata
        if (cached := self._lookup(token.gvk, metadata_only=metadata_only)) is not None:
            return cached
        if implicitly and self.options.reader_fail_on_missing_informer:
            raise NotCachedError(f"{token.gvk} is not cached: watch it, or call cache.informer_for() first")
        lock = self._locks.setdefault((token.gvk, metadata_only), asyncio.Lock())
        async with lock:
            if (cached := self._lookup(token.gvk, metadata_only=metadata_only)) is not None:
                return cached
            mapping = await self.mapper.mapping_for(token.gvk)
            cached_kind = self._build_kind(mapping, metadata_only=metadata_only)
            cached_kind.pinned = pin
            self._kinds[token.gvk, metadata_only] = cached_kind
            self._on_change()
        if implicitly:
            log.info(
                "a read starts an informer for %s in %s", token.gvk, sorted(cached_kind.informers) or "all namespaces"
            )
        if self.running:
            _start(cached_kind)
        return cached_kind

    def existing(self, kind: Kind[AnyObject]) -> CachedKind | None:
        """Return the informers of a kind if `informer_for` would return them at once; else None."""
        if kind.representation not in self._built_decoders:
            return None
        return self._lookup(kind.gvk, metadata_only=kind.representation is PartialObjectMetadata)

    def synced(self, kind: Kind[AnyObject]) -> CachedKind | None:
        """Return the informers of a kind if a read need not wait; else None."""
        cached = self._synced.get((kind.gvk, kind.representation))
        return cached if cached is not None else self._find_synced(kind)

    def _find_synced(self, kind: Kind[AnyObject]) -> CachedKind | None:
        if not self.running or kind.representation not in self._built_decoders:
            return None
        cached = self._lookup(kind.gvk, metadata_only=kind.representation is PartialObjectMetadata)
        if cached is None or not cached.has_synced:
            return None
        self._synced[kind.gvk, kind.representation] = cached
        return cached

    def _on_change(self) -> None:
        """The set of informers has changed."""
        self.generation += 1
        self._synced.clear()

    async def _build_decoder(self, form: type[AnyObject]) -> None:
        """Build the decoder before the first object arrives, in slices. Each cache does so, so that runs repeat."""
        if form not in self._built_decoders and issubclass(form, TypedObject):
            for _ in decoder_steps(form):
                await asyncio.sleep(0)
        self._built_decoders.add(form)

    def _lookup(self, gvk: GroupVersionKind, *, metadata_only: bool) -> CachedKind | None:
        full = self._kinds.get((gvk, False))
        if full is not None or not metadata_only:
            return full
        return self._kinds.get((gvk, True))

    def holds_only_metadata(self, kind: Kind[AnyObject]) -> bool:
        """Whether a read of whole objects would start a second informer, besides one of metadata.

        A metadata watch saves memory, so such reads go to the server. To cache whole objects too, watch them, or call
        `informer_for`.
        """
        if kind.representation is PartialObjectMetadata or (kind.gvk, False) in self._kinds:
            return False
        if (kind.gvk, True) not in self._kinds:
            return False
        if kind.gvk not in self._metadata_only_warned:
            self._metadata_only_warned.add(kind.gvk)
            log.warning("%s is cached as metadata only: reads of whole objects go to the server", kind.gvk)
        return True

    async def remove_informer(self, kind: KindLike[AnyObject]) -> None:
        """Stop caching a kind; the next read starts it again. Does nothing if the kind is not cached."""
        token = kind_of(kind)
        removed = self._kinds.pop((token.gvk, token.representation is PartialObjectMetadata), None)
        self._on_change()
        for informer in removed.informers.values() if removed else ():
            await informer.aclose()

    async def configure(self, kind: KindLike[AnyObject], options: ByObject) -> None:
        """Change the options of a kind, even while the cache runs.

        Informers whose scope stays continue; others start and stop. Handlers get the objects that leave the cache as
        DELETED and those that enter it as ADDED. Raises `UsageError` for options that contradict the kind.
        """
        gvk = kind_of(kind).gvk
        planned = replace(self.options, by_kind={**self.options.by_gvk(), gvk: options})
        await self._replan(planned, self._selected, [cached for cached in self._kinds.values() if cached.gvk == gvk])

    async def _replan(self, options: CacheOptions, selected: frozenset[str], kinds: Iterable[CachedKind]) -> None:
        """Change the options, and the informers of some kinds to match. Informers whose scope stays continue."""

        def planned(cached: CachedKind, options: CacheOptions, selected: frozenset[str]) -> dict[str, CacheScope]:
            return scopes(options, cached.mapping, metadata_only=cached.metadata_only, selected=selected)

        former = (self.options, self._selected)
        plans = [(cached, planned(cached, *former), planned(cached, options, selected)) for cached in kinds]
        # Without an await until all is changed: a kind that is added in the meantime has the new options.
        self.options, self._selected = options, selected
        old: list[Informer | None] = []
        for cached, before, after in plans:
            cached.follows_namespaces = follows_namespaces(options, cached.mapping)
            for namespace in [name for name in before | after if before.get(name) != after.get(name)]:
                scope = after.get(namespace)
                informer = self._build_informer(cached.mapping, scope) if scope is not None else None
                old.append(cached.replace_informer(namespace, informer))
                self._on_change()
            if self.running:
                _start(cached)
        await _close(informer for informer in old if informer is not None)

    async def release(self, kind: CachedKind) -> None:
        """Stop the informers of a kind if they are neither pinned nor have handlers."""
        if not kind.used and self._kinds.get((kind.gvk, kind.metadata_only)) is kind:
            del self._kinds[kind.gvk, kind.metadata_only]
            self._on_change()
            log.info("the last handler of %s is removed: its informer stops", kind.gvk)
            await _close(kind.informers.values())

    def health(self) -> list[InformerHealth]:
        """Return the health of every informer now."""
        selection = [self._selection.health()] if self._selection is not None else []
        return [*selection, *(health for kind in self._kinds.values() for health in kind.health())]

    def kinds(self) -> list[CachedKind]:
        """Return everything that is cached now."""
        return list(self._kinds.values())

    def informers(self) -> Iterator[Informer]:
        """Yield the informers: of all kinds, and of the namespaces that are selected."""
        if self._selection is not None:
            yield self._selection.informer
        for kind in self._kinds.values():
            yield from kind.informers.values()

    def _build_kind(self, mapping: RestMapping, *, metadata_only: bool) -> CachedKind:
        planned = scopes(self.options, mapping, metadata_only=metadata_only, selected=self._selected)
        informers = {namespace: self._build_informer(mapping, scope) for namespace, scope in planned.items()}
        follows = follows_namespaces(self.options, mapping)
        return CachedKind(mapping, informers, metadata_only=metadata_only, follows_namespaces=follows)

    def _new_selection(self) -> NamespaceSelection | None:
        """Return what follows the selected namespaces; None without a selector."""
        if (selector := self.options.namespace_selector) is None:
            return None
        scope = CacheScope(
            gvk=_NAMESPACES.gvk,
            namespace="",
            label_selector=selector,
            field_selector=FieldSelector(),
            metadata_only=True,
            transform=None,
            resync=0.0,
        )
        return NamespaceSelection(self._build_informer(_NAMESPACES, scope))

    def _build_informer(self, mapping: RestMapping, scope: CacheScope) -> Informer:
        """Return a new informer for one scope, with the index functions that the kind has."""
        o = self.options
        options = InformerOptions(
            page_size=o.page_size,
            list_bytes=o.list_bytes,
            watch_list=o.watch_list,
            resync=scope.resync,
            stale_after=o.stale_after,
            lag_interval=o.lag_interval,
            expected=_METADATA_GVK if scope.metadata_only else scope.gvk,
            transform=scope.transform,
            namespace=scope.namespace,
            label_selector=scope.label_selector,
            field_selector=scope.field_selector,
            shard=scope.shard,
        )
        informer = Informer(self._new_lister_watcher(mapping, scope), options)
        # Index functions read whole objects.
        for name, indexer in self._indexers.get(mapping.gvk, {}).items() if not scope.metadata_only else ():
            informer.indices.add(name, indexer)
        return informer

    # -------------------------------------------------------------- indices
    def index_field(self, kind: KindLike[T], field_name: str, values: Callable[[T], Iterable[str]]) -> None:
        """Add an index, so that lists of `kind` support `field_name` in a field selector.

        `values` returns an object's values for the index. It gets its own copy of the object, in the representation of
        `kind`. Call it before or after the cache starts. Raises `UsageError` if the index exists. ::

            cache.index_field(Pod, "spec.nodeName", lambda pod: [pod.spec.node_name or ""])
            pods = await client.list(Pod, field_selector={"spec.nodeName": "node-1"})
        """
        token: Kind[T] = kind_of(kind)
        if token.representation is PartialObjectMetadata:
            raise UsageError("an index needs whole objects: pass a typed class or unstructured_kind(...)")
        indexers = self._indexers.setdefault(token.gvk, {})
        if field_name in indexers:
            raise UsageError(f"{token.gvk} already has an index {field_name!r}: use it, or choose another name")

        def indexer(data: bytes) -> Iterable[str]:
            return values(decode(data, token))

        indexers[field_name] = indexer
        if (cached := self._kinds.get((token.gvk, False))) is not None:
            for informer in cached.informers.values():
                informer.indices.add(field_name, indexer)

    def check_running(self) -> None:
        """Raise `CacheNotStartedError` unless the cache is started."""
        if not self.running:
            raise CacheNotStartedError("the cache is not started, can not read objects: start the manager first")

    def __repr__(self) -> str:
        kinds = ", ".join(str(kind.gvk.group_kind) for kind in self._kinds.values())
        return f"<Cache {self._state.value}: {kinds or 'no kinds'}>"


async def _close(informers: Iterable[Informer | NamespaceSelection]) -> None:
    async with asyncio.TaskGroup() as group:
        for informer in informers:
            group.create_task(informer.aclose(), name=f"close {informer!r}")


def _start(kind: CachedKind) -> None:
    for informer in kind.informers.values():
        if not informer.started:
            informer.start()
