"""The schemas of a live cluster, read again when CustomResourceDefinitions or APIServices change.

Upstream: github.com/rancher/steve/pkg/controllers/schema/schemas.go
Deviates: schemas are read at once after an event, and again two seconds later; steve waits two seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Self

import msgspec

from opsdk.aio.closing import Closing
from opsdk.aio.large_work import compute
from opsdk.aio.tasks import TaskOwner
from opsdk.apimachinery.kinds import unstructured
from opsdk.cache.cached_kind import CachedKind, KindRegistration
from opsdk.cache.store import Delta
from opsdk.cluster.cluster import Cluster
from opsdk.errors import OpsdkError
from opsdk.norman.collections.broadcast import Broadcaster
from opsdk.norman.steve.cluster_schemas import SteveSchema, cluster_schemas
from opsdk.rest.discovery import Discovery

log = logging.getLogger(__name__)

_DEFINITIONS = unstructured("apiextensions.k8s.io/v1", "CustomResourceDefinition")
_API_SERVICES = unstructured("apiregistration.k8s.io/v1", "APIService")
# Seconds after which discovery is read again: a server may serve a new kind some time after the event.
_SECOND_REFRESH_SECONDS = 2.0


class SchemaCatalog(Closing):
    """The schemas of a cluster, for all users. An async context manager over a running cache.

    Args:
        cluster: a started cluster, whose user may list CustomResourceDefinitions and APIServices.
        customize: changes each schema when it is read; see `SchemaTemplate`.

    Attributes:
        schemas: by id.
        changes: the schemas after each change.
    """

    def __init__(self, cluster: Cluster, customize: Callable[[SteveSchema], SteveSchema]) -> None:
        self.schemas: Mapping[str, SteveSchema] = {}
        self._cluster = cluster
        self._customize = customize
        self._changed = asyncio.Event()
        self._definitions: CachedKind | None = None
        self._registrations: list[KindRegistration] = []
        self.changes: Broadcaster[Mapping[str, SteveSchema]] = Broadcaster(log_size=1)
        self._tasks = TaskOwner("steve schemas")

    async def __aenter__(self) -> Self:
        """Read the schemas. Raises `OpsdkError` if the cluster cannot be read."""
        for kind in (_DEFINITIONS, _API_SERVICES):
            cached = await self._cluster.cache.informer_for(kind)
            self._definitions = self._definitions or cached
            self._registrations.append(registration := cached.add_handler(self._on_delta))
            await cached.wait_synced(fail_fast=True)
            await registration.wait_synced()
        await self.refresh()
        self._tasks.start(self._follow(), name="refresh")
        return self

    def _on_delta(self, delta: Delta) -> None:
        if not delta.initial:
            self._changed.set()

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._try_refresh()
            await asyncio.sleep(_SECOND_REFRESH_SECONDS)
            await self._try_refresh()

    async def _try_refresh(self) -> None:
        try:
            await self.refresh()
        except OpsdkError as error:
            log.warning("discovery failed, keeping the previous schemas: %s", error)
            self._changed.set()

    async def refresh(self) -> None:
        """Read discovery now. Schemas of groups that do not respond are kept."""
        discovered = await Discovery(self._cluster.transport).fetch()
        entries = self._definitions.entries() if self._definitions is not None else ()
        definitions = [await compute(len(data := entry.data), msgspec.json.decode, data) for entry in entries]
        read = cluster_schemas(discovered.resources, definitions)
        schemas = {identity: self._customize(schema) for identity, schema in read.items()}
        for identity, schema in self.schemas.items():
            if f"{schema.group}/{schema.version}".removeprefix("/") in discovered.failures:
                schemas.setdefault(identity, schema)
        if schemas != self.schemas:
            self.schemas = schemas
            self.changes.publish(schemas)

    async def aclose(self) -> None:
        """Stop following the cluster. Idempotent."""
        for registration in self._registrations:
            registration.remove()
        await self._tasks.aclose()

    def __repr__(self) -> str:
        return f"<SchemaCatalog of {len(self.schemas)} schemas>"
