"""Cluster: the clients and the cache of one API server.

Upstream: sigs.k8s.io/controller-runtime/pkg/cluster/cluster.go
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload
from weakref import WeakSet

from opsdk.aio.closing import Closing
from opsdk.aio.waiting import finish
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.kinds import Kind, KindLike, kind_of, kind_of_object
from opsdk.apimachinery.object import AnyObject, PartialObjectMetadata, TypedObject, Unstructured, key_of
from opsdk.apimachinery.rest_mapper import RestMapper, RestMapping
from opsdk.apimachinery.scheme import Scheme
from opsdk.cache.cache import Cache
from opsdk.cache.list_watch import ListerWatcher, RestListerWatcher
from opsdk.cache.options import CacheOptions, CacheScope
from opsdk.cache.reader import CachedReader
from opsdk.cache.write_recorder import WriteRecorder
from opsdk.children.drift import Drift
from opsdk.children.readiness import Ready
from opsdk.client.activity import current_activity
from opsdk.client.client import Client, as_key
from opsdk.client.decorators.activity import RecordRequests
from opsdk.client.decorators.dry_run import DryRun
from opsdk.client.decorators.field_owner import FieldOwner, FieldValidating
from opsdk.client.direct import DirectClient, WarningHandler
from opsdk.client.ports import OperationExecutor
from opsdk.client.scheme import default_scheme
from opsdk.cluster.delegating import Delegating
from opsdk.cluster.options import ClusterOptions
from opsdk.cluster.referenced_objects import ReferencedObjects
from opsdk.cluster.waiting import parse_until, wait_for
from opsdk.errors import UsageError
from opsdk.rest.config import RestConfig
from opsdk.rest.discovery import Discovery
from opsdk.rest.discovery_mapper import RestDiscoverySource
from opsdk.rest.transport import Transport
from opsdk.telemetry.records import TelemetryHook

if TYPE_CHECKING:  # start-up time: see the properties that import them
    import httpx

    from opsdk.children.applier import Applier
    from opsdk.children.explanation import Explanation
    from opsdk.children.field_applier import FieldApplier
    from opsdk.children.other_process import OtherProcess
    from opsdk.client.recorder.recorder import EventRecorder
    from opsdk.pods.client import PodClient


__all__ = ["Cluster", "ClusterOptions"]

T = TypeVar("T", bound=AnyObject)
K = TypeVar("K", bound=TypedObject | Unstructured)

# The server rejects a longer field manager.
_MAX_FIELD_OWNER = 128


class Cluster(Closing):
    """Transport, mapper, cache, clients and recorder of one API server. A Runnable, and an async context manager.

    Args:
        config: address and credentials.
        options: see `ClusterOptions`.
        scheme: the registry of kinds; default: all built-in kinds.
        on_warning: called for each warning of the server; by default, each is logged once for each resource.
        hook: receives `Requested` and `Contended` records.

    Attributes:
        client: reads from the cache, writes to the server.
        uncached: reads from and writes to the server; works without a started cache (``GetAPIReader``).
        cache: the shared informers.
        mapper: maps kinds to resources.
        transport: the HTTP transport.
        referenced: whole objects of kinds that are cached as metadata, see `opsdk.event.references`.
        has_one_process: appliers warn of another process with the same field manager. Set it before the first one.
    """

    def __init__(
        self,
        config: RestConfig,
        options: ClusterOptions | None = None,
        *,
        scheme: Scheme | None = None,
        on_warning: WarningHandler | None = None,
        hook: TelemetryHook | None = None,
    ) -> None:
        self.config = config
        self.options = options or ClusterOptions()
        self.scheme = scheme or default_scheme()
        self._hook = hook
        self.transport = Transport(config, hook=hook)
        self.mapper = RestMapper(RestDiscoverySource(Discovery(self.transport)))
        self.cache = Cache(self._list_watch, scheme=self.scheme, mapper=self.mapper, options=self.options.cache)
        self._other_caches: WeakSet[Cache] = WeakSet()
        unrecorded = DirectClient(
            self.transport,
            scheme=self.scheme,
            mapper=self.mapper,
            on_warning=on_warning,
            observer=WriteRecorder(self.cache),
            hook=hook,
        )
        direct = RecordRequests(unrecorded)
        self.uncached = Client(self._decorate(direct))
        cached = CachedReader(self.cache)
        self.referenced = ReferencedObjects(self.cache)
        # The decorators change writes only, so cached reads do not pass through them.
        self.client = Client(
            Delegating(
                cached,
                self.uncached.executor,
                disable_cache_for=self.options.disable_cache_for,
                bypass=self.referenced.bypasses,
                referenced=self.referenced,
            )
        )
        self._unrecorded_executor = unrecorded
        self._appliers: dict[tuple[Drift, str], Applier] = {}
        self.has_one_process = False
        self._running = asyncio.Event()
        self._closed = False
        self._context: contextvars.Context | None = None

    def _decorate(self, executor: OperationExecutor) -> OperationExecutor:
        """Add the decorators that the options select."""
        o = self.options
        if o.dry_run:
            executor = DryRun(executor)
        if o.field_owner:
            executor = FieldOwner(executor, o.field_owner)
        if o.field_validation is not None:
            executor = FieldValidating(executor, o.field_validation)
        return executor

    def _list_watch(self, mapping: RestMapping, scope: CacheScope) -> ListerWatcher:
        form = PartialObjectMetadata if scope.metadata_only else Unstructured
        return RestListerWatcher(
            self.transport,
            mapping,
            Kind(scope.gvk, form),
            namespace=scope.namespace,
            label_selector=scope.label_selector,
            field_selector=scope.field_selector,
            shard=scope.shard,
            drop_managed_fields=scope.drops_managed_fields,
        )

    @cached_property
    def recorder(self) -> EventRecorder:
        """Writes Events. It is created on first use: most operators write no Events, and need no modules for them."""
        from opsdk.client.recorder.recorder import EventRecorder  # noqa: PLC0415 - start-up time: brings all core kinds

        recorder = EventRecorder(Client(self._unrecorded_executor), self.options.name, dry_run=self.options.dry_run)
        if self._closed:
            recorder.refuse()
        elif self._context is not None:
            # Its tasks belong to the cluster, not to the reconcile that writes the first Event.
            self._context.run(recorder.open)
        return recorder

    @property
    def has_recorder(self) -> bool:
        """Whether `recorder` was used."""
        return "recorder" in vars(self)

    @cached_property
    def http(self) -> httpx.AsyncClient:
        """An httpx client for requests of your own, with this server's address, credentials and connections.

        >>> async def version(cluster: Cluster) -> str:
        ...     return (await cluster.http.get("/version")).json()["gitVersion"]

        Requests are not retried. Connection errors are `opsdk.errors.TransportError`. `aclose` closes the client.
        """
        # Imported here for start-up time: httpx takes longer to import than the rest of the client.
        from opsdk.rest.httpx_client import httpx_client  # noqa: PLC0415

        return httpx_client(self.transport)

    @cached_property
    def pods(self) -> PodClient:
        """Logs, commands, files and ports of running Pods.

        >>> async def is_healthy(cluster: Cluster) -> bool:
        ...     return "ready" in [line async for line in cluster.pods.logs("default/web", tail=1)]
        """
        # Imported here for start-up time: few operators look into Pods.
        from opsdk.pods.client import PodClient  # noqa: PLC0415

        return PodClient(self.transport, dry_run=self.options.dry_run)

    def new_cache(self, options: CacheOptions) -> Cache:
        """Return another cache of this API server, with informers of its own. Its owner starts and closes it."""
        cache = Cache(self._list_watch, scheme=self.scheme, mapper=self.mapper, options=options)
        self._other_caches.add(cache)
        return cache

    @overload
    async def wait_for(  # type: ignore[overload-overlap] # the literal is one of all strings
        self, target: KindLike[T], key: ObjectKey | str, /, *, until: Literal["delete"], within: float = ...
    ) -> None: ...
    @overload
    async def wait_for(
        self, target: KindLike[T], key: ObjectKey | str, /, *, until: Ready = ..., within: float = ...
    ) -> T: ...
    @overload
    async def wait_for(  # type: ignore[overload-overlap] # as above
        self, target: K, /, *, until: Literal["delete"], within: float = ...
    ) -> None: ...
    @overload
    async def wait_for(self, target: K, /, *, until: Ready = ..., within: float = ...) -> K: ...
    async def wait_for(
        self,
        target: Any,
        key: ObjectKey | str | None = None,
        /,
        *,
        until: Ready = True,
        within: float = 60.0,
    ) -> Any:
        """Wait until an object is as it should be, and return it. It has a watch of its own, which survives gaps.

        For programs and tests. A reconciler ends instead, and goes on with an event: see `Context.require`.

        >>> async def install(cluster: Cluster) -> None:
        ...     web = await cluster.wait_for(Deployment, "default/web", until="condition=Available", within=120)
        ...     await cluster.client.delete(web)
        ...     await cluster.wait_for(web, until="delete")

        Args:
            target: an object, or a kind with `key`. The object need not exist.
            key: ``namespace/name``, or the name of an object without namespace.
            until: ``create``, ``delete``, ``condition=TYPE`` or ``condition=TYPE=STATUS`` as ``kubectl wait`` reads
                them. Or as `ready` of `Context.apply`: True, a CEL expression over ``self``, or a function of the
                object; an object that is being deleted or whose controller has not observed its newest spec waits.
            within: seconds.

        Raises:
            DeadlineError: the time has passed; the message says what the object lacks.
            NoMatchError: the server does not serve the kind.
            ForbiddenError: the user may not list and watch the kind there.
            UsageError: `until` cannot work.
        """
        if isinstance(target, type | Kind):
            if key is None:
                raise UsageError("wait_for needs an object, or a kind and a key")
            kind, where = kind_of(target), as_key(key)
        else:
            kind, where = kind_of_object(target), key_of(target)
        condition = parse_until(until, f"{kind.gvk.kind} {where}")
        return await wait_for(self.new_cache, kind, where, condition, within)

    def caches(self) -> list[Cache]:
        """Return the caches of this API server that run: `cache` first, then those of `new_cache`."""
        return [self.cache, *(cache for cache in self._other_caches if cache.running)]

    def applier(self, drift: Drift = Drift.REPAIR, *, controller: str = "") -> Applier:
        """Return the `Applier` of children; each `drift` and each controller has its own.

        Its field manager is the cluster's field owner, and for a controller ``<field owner>/<controller>``: what one
        controller no longer applies must not take fields from another one. Children that the field owner applied
        before are taken over. The journal of reconciles gets the reason of each write.
        """
        if (drift, controller) not in self._appliers:
            from opsdk.children.applier import Applier  # noqa: PLC0415 - start-up time: not all operators have children

            owner = self.options.field_owner or self.options.name
            self._appliers[drift, controller] = Applier(
                self.client,
                field_owner=f"{owner}/{controller}"[:_MAX_FIELD_OWNER] if controller else owner,
                drift=drift,
                on_write=_explain_in_journal,
                former_field_owners=self.options.former_field_owners,
                former_applier=owner if controller else "",
                hook=self._hook,
                other_process=self._other_process if self.has_one_process else None,
            )
        return self._appliers[drift, controller]

    @cached_property
    def _other_process(self) -> OtherProcess:
        from opsdk.children.other_process import OtherProcess  # noqa: PLC0415 - start-up time: as above

        return OtherProcess()

    @cached_property
    def field_applier(self) -> FieldApplier:
        """Applies fields of objects of other owners, under the field manager that the caller names."""
        from opsdk.children.field_applier import FieldApplier  # noqa: PLC0415 - start-up time: as above

        owner = self.options.field_owner or self.options.name
        return FieldApplier(self.client, field_owner=owner, on_write=_explain_in_journal, hook=self._hook)

    def debug_pages(self) -> Mapping[str, Callable[[], Iterable[object]]]:
        return {"informers": lambda: [{"cluster": self.name, **health.as_json()} for health in self.cache.health()]}

    # -------------------------------------------------------------- life cycle
    def needs_leader_election(self) -> bool:
        """Return False: every replica keeps its cache up to date."""
        return False

    async def start(self) -> None:
        """Run the cache and the recorder until cancelled.

        Connections stay open until `aclose`, so that the caller can still send requests, for example to release a
        lease.

        Raises:
            UsageError: it was started before. A running cluster keeps running.
        """
        if self._running.is_set():
            raise UsageError(f"{self!r} was already started: add it to one manager, or create a new one")
        self._context = contextvars.copy_context()
        if "recorder" in self.__dict__:
            self.recorder.open()
        self._running.set()
        try:
            await self.cache.start()
        finally:
            await finish(self._stop(), name=f"{self!r}/stop")

    async def _stop(self) -> None:
        self._closed = True
        try:
            if "recorder" in self.__dict__:
                await self.recorder.aclose()
        finally:
            await self.cache.aclose()

    async def wait_ready(self) -> None:
        """Return when the existing informers have synced."""
        await self._running.wait()
        await self.cache.wait_ready()

    async def aclose(self) -> None:
        """Write pending Events, stop the informers, close the connections. Idempotent."""
        try:
            await finish(self._stop(), name=f"{self!r}/stop")
        finally:
            if "http" in self.__dict__:
                await self.http.aclose()
            await self.transport.aclose()

    @property
    def name(self) -> str:
        """The cluster's name among several; empty for an operator of one cluster."""
        return self.options.cluster_name

    def __repr__(self) -> str:
        return f"<Cluster {self.name or self.config.host}>"


def _explain_in_journal(explanation: Explanation) -> None:
    if (activity := current_activity()) is not None:
        activity.explain(str(explanation))
