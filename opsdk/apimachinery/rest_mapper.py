"""RESTMapper: maps kinds to resources, with lazy discovery.

The first lookup sends two discovery requests; later lookups send none. An unknown kind triggers one refresh, which all
waiting callers share, so a CRD created later is found. A failing aggregated API does not hide the other groups.

Upstream: sigs.k8s.io/controller-runtime/pkg/client/apiutil/restmapper.go,
k8s.io/apimachinery/pkg/api/meta/restmapper.go
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol

import msgspec
from cachetools import TTLCache

from opsdk.aio.clock import monotonic
from opsdk.apimachinery.gvk import GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource
from opsdk.errors import NoMatchError

_SUBRESOURCE_SECONDS = 60.0
"""Seconds for which a subresource counts as known to exist, when the server does not find it."""


class RestMapping(msgspec.Struct, frozen=True, kw_only=True):
    """The resource of a kind.

    Attributes:
        gvk: the kind.
        resource: the resource that serves it.
        namespaced: whether the scope is a namespace.
        singular: the singular name of the resource.
        verbs: the verbs that the resource supports.
        short_names: short names for kubectl.
        categories: groups of resources for kubectl, such as ``all``.
        subresources: their names, such as ``status`` and ``scale``.
    """

    gvk: GroupVersionKind
    resource: GroupVersionResource
    namespaced: bool
    singular: str = ""
    verbs: frozenset[str] = frozenset()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()


class ServedResource(msgspec.Struct, frozen=True, kw_only=True):
    """The result of discovery.

    Attributes:
        mappings: in the server's order of preference.
        failures: group versions whose discovery failed, with the error.
    """

    mappings: Sequence[RestMapping] = ()
    failures: Mapping[GroupVersion, str] = msgspec.field(default_factory=dict)

    def failure_of(self, group: str, version: str = "") -> str:
        """Return why the discovery of a group (or one version) failed; empty if it succeeded."""
        for gv, reason in self.failures.items():
            if gv.group == group and version in ("", gv.version):
                return f"discovery of {gv} failed: {reason}"
        return ""


class DiscoverySource(Protocol):
    """Source of discovery for the mapper."""

    async def fetch(self) -> ServedResource:
        """Run discovery. Raises `ApiError` or `TransportError` if the server does not respond."""
        ...


class RestMapper:
    """Maps kinds to resources. Tasks can share it.

    Args:
        source: runs discovery when a kind or resource is unknown.
        refresh_interval: least seconds between two refreshes for the same unknown kind. It keeps a reconciler that
            retries a missing kind from sending a stream of discovery requests.
    """

    def __init__(self, source: DiscoverySource, *, refresh_interval: float = 1.0) -> None:
        self._source = source
        self._served = ServedResource()
        self._by_kind: dict[GroupVersionKind, RestMapping] = {}
        self._missed: TTLCache[Hashable, bool] = TTLCache(1024, refresh_interval, timer=monotonic)
        self._subresources: TTLCache[Hashable, bool] = TTLCache(1024, _SUBRESOURCE_SECONDS, timer=monotonic)
        self._refreshing: asyncio.Future[bool] | None = None

    def known_mapping(self, gvk: GroupVersionKind) -> RestMapping | None:
        """Return the mapping of a kind if `mapping_for` would return it at once; else None."""
        return self._by_kind.get(gvk)

    async def mapping_for(self, gvk: GroupVersionKind) -> RestMapping:
        """Return the mapping of a kind.

        Raises:
            NoMatchError: the server does not serve the kind, or the discovery of its group failed.
            ApiError: discovery failed.
            TransportError: the server did not respond.
        """
        if (mapping := self._by_kind.get(gvk)) is not None:
            return mapping
        await self._refresh_for(gvk)
        if (mapping := self._by_kind.get(gvk)) is not None:
            return mapping
        if failure := self._served.failure_of(gvk.group, gvk.version):
            raise NoMatchError(f"cannot determine whether {gvk} is served: {failure}")
        versions = [m.gvk.version for m in self._served.mappings if m.gvk.group_kind == gvk.group_kind]
        if versions:
            raise NoMatchError(f"the server does not serve {gvk}, but versions {', '.join(versions)} of it")
        raise NoMatchError(f"the server does not serve {gvk}: install its CRD, or correct group, version or kind")

    async def has_subresource(self, gvk: GroupVersionKind, name: str) -> bool:
        """Whether the definition of a kind has a subresource. A definition that lost it is seen after a minute at most.

        Raises:
            OpsdkError: as `mapping_for`.
        """
        mapping = await self.mapping_for(gvk)
        checked = self._subresources if name in mapping.subresources else self._missed
        if (gvk, name) not in checked:
            await self.refresh()
            checked[gvk, name] = True
        return name in (await self.mapping_for(gvk)).subresources

    async def mappings_for(self, kind: GroupKind) -> list[RestMapping]:
        """Return every served version of a kind, the server's preferred version first. Empty if none is served."""
        mappings = [m for m in self._served.mappings if m.gvk.group_kind == kind]
        if not mappings:
            await self._refresh_for(kind)
            mappings = [m for m in self._served.mappings if m.gvk.group_kind == kind]
        return mappings

    async def kind_for(self, resource: GroupResource | GroupVersionResource | str) -> RestMapping:
        """Return the mapping of a resource, given its plural, singular or short name.

        A string may name the group after the first dot, or how it begins: ``deployments.apps``,
        ``storageclasses.storage``. Of several matches the server's preferred one is returned. Raises `NoMatchError`.
        """
        return (await self._matches(resource))[0]

    async def _matches(self, resource: GroupResource | GroupVersionResource | str) -> list[RestMapping]:
        """Return the mappings of all resources that a name may mean. Raises `NoMatchError`."""
        group: str | None
        version: str | None = None
        if isinstance(resource, str):
            name, dot, group = resource.partition(".")
            group = group if dot else None
        else:
            group, name = resource.group, resource.resource
            version = resource.version if isinstance(resource, GroupVersionResource) else None
        for attempt in range(2):
            matching = [each for each in self._served.mappings if _has_name(each, name.lower(), version)]
            if group is not None:
                exact = [each for each in matching if each.resource.group == group]
                prefixed = [each for each in matching if each.resource.group.startswith(group)] if group else []
                matching = exact or (prefixed if version is None else [])
            if matching:
                return matching
            if attempt == 0:
                await self._refresh_for(resource)
        raise NoMatchError(f"the server serves no resource {resource}: install its CRD or correct the name")

    async def refresh(self) -> None:
        """Run discovery now. Concurrent callers share one request."""
        while self._refreshing is not None:
            if await asyncio.shield(self._refreshing):
                return
            # The task that ran discovery was cancelled; this one runs it again.
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._refreshing = future
        try:
            served = await self._source.fetch()
            failed = dict(served.failures)
            # A group whose discovery failed keeps its previous mappings.
            previous = [m for m in self._served.mappings if m.gvk.group_version in failed]
            served_kinds = {m.gvk for m in served.mappings}
            mappings = [*served.mappings, *(m for m in previous if m.gvk not in served_kinds)]
            self._served = ServedResource(mappings=mappings, failures=failed)
            self._by_kind = {m.gvk: m for m in reversed(mappings)}
        except Exception as error:
            future.set_exception(error)
            future.exception()  # marks it as retrieved: there may be no other waiter
            raise
        else:
            future.set_result(True)
        finally:
            self._refreshing = None
            if not future.done():
                future.set_result(False)

    async def _refresh_for(self, missing: Hashable) -> None:
        """Refresh, unless a refresh for the same name ran less than `refresh_interval` ago."""
        if missing not in self._missed or self._refreshing is not None:
            await self.refresh()
            self._missed[missing] = True

    def __repr__(self) -> str:
        return f"<RestMapper of {len(self._by_kind)} kinds>"


def _has_name(mapping: RestMapping, name: str, version: str | None) -> bool:
    resource = mapping.resource
    return version in (None, resource.version) and name in (resource.resource, mapping.singular, *mapping.short_names)


class StaticMapper(RestMapper):
    """A RestMapper with fixed mappings, for tests and for clients of a single kind."""

    def __init__(self, mappings: Sequence[RestMapping]) -> None:
        super().__init__(_StaticSource(ServedResource(mappings=mappings, failures={})))

    async def has_subresource(self, gvk: GroupVersionKind, name: str) -> bool:
        """Return True: fixed mappings say nothing about subresources."""
        return True


class _StaticSource:
    def __init__(self, served: ServedResource) -> None:
        self._served = served

    async def fetch(self) -> ServedResource:
        return self._served
