"""`Aggregator`: the first server of the delegation chain. It proxies remote groups and delegates the others.

Upstream: k8s.io/kube-aggregator/pkg/apiserver/apiserver.go (v1.36).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from opsdk.aio.closing import Closing
from opsdk.apiserver.aggregator.api_services import Availability, RemoteService, judged, remote_of
from opsdk.apiserver.aggregator.availability import SLICE_OF, Network, unavailable_reason
from opsdk.apiserver.aggregator.available_condition_controller import AvailableConditionController
from opsdk.apiserver.aggregator.group_priorities import GroupPriorities
from opsdk.apiserver.aggregator.probe import Probe, stale
from opsdk.apiserver.aggregator.proxy import AggregatorProxy
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.endpoints.discovery import RemoteDocuments, ServedGroup, ServedVersion
from opsdk.apiserver.fieldmanager.field_manager import FieldManager
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.local_store import LocalStore
from opsdk.apiserver.resources import InstalledResource
from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.apiserver.server import Delegate
from opsdk.apiserver.storage.ports import ChangeType, KeyNotFoundError, Remove, StorageChange
from opsdk.apiserver.webhook_client.client import Resolve
from opsdk.apiserver.webhook_client.connection_pools import ConnectionPools
from opsdk.http.server.response import HttpResponse
from opsdk.structured_merge.value import JsonObject

_LOG = logging.getLogger("opsdk.apiserver")
_OPENAPI = "/openapi/v3"
GroupVersion = tuple[str, str]


class AggregatorDependencies(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the cluster that the aggregator reads.

    Attributes:
        network: returns the objects of a Service, by namespace and name.
        resolve: resolves a Service to an address.
        watched: the storage prefixes of Services, EndpointSlices and Endpoints.
    """

    network: Callable[[str, str], Network]
    resolve: Resolve
    watched: Sequence[str]


class Aggregator(Closing):
    """Proxies the groups of available APIServices, and passes all other requests to `delegate`.

    Args:
        services: the installed resource ``apiservices``.
        delegate: serves all other requests.
        connection_pools: connections to the aggregated servers; closed with this.
    """

    def __init__(
        self,
        services: InstalledResource,
        delegate: Delegate,
        dependencies: AggregatorDependencies,
        connection_pools: ConnectionPools,
    ) -> None:
        store = services.storage
        assert isinstance(store, LocalStore)
        self._store = store
        self._model = services.model
        self._delegate = delegate
        self._around = dependencies
        self._watched = (store.prefix, *dependencies.watched)
        self._lines = connection_pools
        self._remotes: dict[str, RemoteService] = {}
        self._by_version: dict[GroupVersion, RemoteService] = {}
        self._known: dict[str, RemoteDocuments] = {}
        self._ranks = GroupPriorities()
        self._proxy = AggregatorProxy(
            connection_pools, dependencies.resolve, lambda remote: self._keeper.touch(remote.name)
        )
        self._probe = Probe(self._proxy)
        self._keeper = AvailableConditionController(
            find=self._remotes.get, judge=self._judge, write=self._write_condition, on_error=_report
        )

    def __repr__(self) -> str:
        return f"<Aggregator of {', '.join(sorted(self._remotes)) or 'nothing'}>"

    def start(self) -> None:
        """Load the stored ``APIService`` objects and follow their changes."""
        for key, value in self._store.storage.list_now(self._store.prefix).items:
            self._take(StorageChange.of(key, value))
        self._store.storage.subscribe(self._take, *self._watched)

    async def aclose(self) -> None:
        """Stop the checks and close all connections; idempotent."""
        self._store.storage.unsubscribe(self._take)
        await self._keeper.aclose()
        await self._lines.aclose()

    # -------------------------------------------------------------- storage changes
    def _take(self, change: StorageChange) -> None:
        """Handle a write to storage; it must not fail for any stored object."""
        key = change.key
        if not key.startswith(self._watched):
            return
        if key.startswith(self._store.prefix):
            name = key.removeprefix(self._store.prefix)
            service = change.value if change.kind is ChangeType.PUT else None
            self._ranks.put(name, service)
            new, old = None if service is None else remote_of(service), self._remotes.get(name)
            if new is None:
                if old is not None:
                    self._remove(old)
            else:
                if old is not None and (old.group, old.version) != (new.group, new.version):
                    self._remove(old)
                self._remotes[name] = self._by_version[new.group, new.version] = new
                if old is None or replace(old, available=new.available) != new:
                    self._keeper.touch(name)
        elif self._remotes:
            value = change.value or change.previous or {}
            meta = value.get("metadata") or {}
            names = {meta.get("name"), (meta.get("labels") or {}).get(SLICE_OF)}
            for remote in list(self._remotes.values()):
                if remote.namespace == meta.get("namespace") and remote.service in names:
                    self._keeper.touch(remote.name)

    def _remove(self, old: RemoteService) -> None:
        del self._remotes[old.name]
        del self._by_version[old.group, old.version]
        self._known.pop(old.name, None)
        self._keeper.touch(old.name)

    # -------------------------------------------------------------- availability
    async def _judge(self, remote: RemoteService) -> tuple[Availability, bool]:
        verdict = None
        if not self._lines.inside(f"{remote.host}:{remote.port}"):
            verdict = unavailable_reason(remote, self._around.network(remote.namespace, remote.service))
        if verdict is not None:
            self._learn(remote, None)
            return verdict, False
        verdict, documents = await self._probe.check(remote)
        self._learn(remote, documents)
        return verdict, True

    def _learn(self, remote: RemoteService, documents: RemoteDocuments | None) -> None:
        if remote.name in self._remotes:
            self._known[remote.name] = documents or stale(remote.version, self._known.get(remote.name))

    async def _write_condition(self, remote: RemoteService, verdict: Availability) -> None:
        now = Context().timestamp()
        owners = FieldManager(shape=self._model.shape, api_version=self._store.info.api_version, subresource="status")

        async def put(current: JsonObject | None) -> JsonObject | Remove:
            if current is None:
                raise KeyNotFoundError(remote.name)
            old = current.get("status") or {}
            status = judged(old, verdict, now)
            if status == old:
                return current
            desired: JsonObject = copy_tree({**current, "status": status})
            return owners.update(current, desired, manager="kube-apiserver", now=now)

        try:
            await self._store.storage.guaranteed_update(self._store.key("", remote.name), put)
        except KeyNotFoundError:
            return

    # -------------------------------------------------------------- serving
    async def handle(self, call: Call) -> HttpResponse:
        info, remote = call.info, None
        if info.is_resource:
            remote = self._by_version.get((info.group, info.version))
        elif self._remotes:
            match info.path.removeprefix(_OPENAPI).strip("/").split("/"):
                case ["apis", group, version]:
                    remote = self._by_version.get((group, version))
                case ["api", version]:
                    remote = self._by_version.get(("", version))
        return await (self._delegate.handle(call) if remote is None else self._proxy.pass_on(call, remote))

    def groups(self) -> Sequence[ServedGroup]:
        """See `Delegate`; remote versions are sorted by priority among the local ones."""
        groups = {served.group: list(served.versions) for served in self._delegate.groups()}
        for remote in self._remotes.values():
            versions = [v for v in groups.get(remote.group, ()) if v.version != remote.version]
            documents = self._known.get(remote.name) or stale(remote.version, None)
            versions.append(ServedVersion(remote.version, (), documents))
            groups[remote.group] = self._ranks.sorted(remote.group, versions)
        return [ServedGroup(group, groups[group]) for group in sorted(groups, key=self._ranks.sort_key)]


def _report(name: str, error: BaseException) -> None:
    _LOG.error("%s ended", name, exc_info=error)
