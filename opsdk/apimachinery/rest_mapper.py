"""The RESTMapper: which resource serves a kind, asked of the server lazily and remembered.

Two requests the first time, none after; a kind that is not known causes one refresh, shared by all who ask
meanwhile, so a CRD created later is found. A group whose own server fails does not hide the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cachetools import TTLCache

from opsdk.aio.clock import LOOP_CLOCK, Clock
from opsdk.apimachinery.gvk import GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource
from opsdk.errors import NoMatchError


@dataclass(frozen=True, slots=True, kw_only=True)
class RestMapping:
    """How a kind is reached.

    Attributes:
        subresources: their names, e.g. ``status`` and ``scale``.
        verbs: what the server does with the resource.
    """

    gvk: GroupVersionKind
    resource: GroupVersionResource
    namespaced: bool
    singular: str = ""
    verbs: frozenset[str] = frozenset()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedResource:
    """Everything a server serves, in its order of preference, and which group versions could not be asked."""

    mappings: Sequence[RestMapping] = ()
    failures: Mapping[GroupVersion, str] = field(default_factory=dict)

    def failure_of(self, group: str, version: str = "") -> str:
        """Why a group (or one version of it) could not be asked; empty if it could."""
        for gv, reason in self.failures.items():
            if gv.group == group and version in ("", gv.version):
                return f"discovery of {gv} failed: {reason}"
        return ""


class DiscoverySource(Protocol):
    """Where the mapper learns what is served."""

    async def fetch(self) -> ServedResource:
        """Ask the server; raises ApiError or TransportError if it does not answer at all."""
        ...


class RestMapper:
    """Maps kinds to resources. Safe to share between tasks.

    Args:
        source: asked when something is not known.
        clock: for `refresh_interval`.
        refresh_interval: seconds between two refreshes caused by the same unknown kind, so that a reconciler
            retrying a kind that is not installed does not turn into a stream of discovery requests.
    """

    def __init__(self, source: DiscoverySource, *, clock: Clock = LOOP_CLOCK, refresh_interval: float = 1.0) -> None:
        self._source = source
        self._served = ServedResource()
        self._by_kind: dict[GroupVersionKind, RestMapping] = {}
        self._missed: TTLCache[Hashable, bool] = TTLCache(1024, refresh_interval, timer=clock.now)
        self._refreshing: asyncio.Future[bool] | None = None

    async def mapping_for(self, gvk: GroupVersionKind) -> RestMapping:
        """The mapping of a kind; `NoMatchError` says what is missing, also if its group could not be asked."""
        if (mapping := self._by_kind.get(gvk)) is not None:
            return mapping
        await self._refresh_for(gvk)
        if (mapping := self._by_kind.get(gvk)) is not None:
            return mapping
        raise NoMatchError(self._explain(gvk))

    async def mappings_for(self, kind: GroupKind) -> list[RestMapping]:
        """Every served version of a kind, the server's preferred first; empty if none is served."""
        mappings = [m for m in self._served.mappings if m.gvk.group_kind == kind]
        if not mappings:
            await self._refresh_for(kind)
            mappings = [m for m in self._served.mappings if m.gvk.group_kind == kind]
        return mappings

    async def kind_for(self, resource: GroupResource | GroupVersionResource | str) -> RestMapping:
        """The mapping of a resource: plural, singular or short name, with or without its group.

        A plain text may carry a group after the first dot: ``deployments.apps``.
        """
        query = _wanted(resource)
        for attempt in range(2):
            for mapping in self._served.mappings:
                if _answers(mapping, query):
                    return mapping
            if attempt == 0:
                await self._refresh_for(resource)
        raise NoMatchError(f"the server serves no resource {resource}: install its CRD or correct the name")

    async def refresh(self) -> None:
        """Ask the server now; at most one such request is in flight, later callers share it."""
        while self._refreshing is not None:
            if await asyncio.shield(self._refreshing):
                return
            # Whoever asked was cancelled: that is not our end, so ask again.
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._refreshing = future
        try:
            self._merge_served(await self._source.fetch())
        except Exception as error:
            future.set_exception(error)
            future.exception()  # nobody may be waiting: that is fine
            raise
        else:
            future.set_result(True)
        finally:
            self._refreshing = None
            if not future.done():
                future.set_result(False)

    async def _refresh_for(self, missing: Hashable) -> None:
        """Refresh, unless that was done for the same name a moment ago."""
        if missing not in self._missed or self._refreshing is not None:
            await self.refresh()
            self._missed[missing] = True

    def _merge_served(self, served: ServedResource) -> None:
        failed = dict(served.failures)
        # A group that could not be asked this time keeps what was known of it.
        previous = [m for m in self._served.mappings if m.gvk.group_version in failed]
        served_kinds = {m.gvk for m in served.mappings}
        mappings = [*served.mappings, *(m for m in previous if m.gvk not in served_kinds)]
        self._served = ServedResource(mappings=mappings, failures=failed)
        self._by_kind = {m.gvk: m for m in reversed(mappings)}

    def _explain(self, gvk: GroupVersionKind) -> str:
        if failure := self._served.failure_of(gvk.group, gvk.version):
            return f"cannot find out whether {gvk} is served: {failure}"
        others = [m.gvk.version for m in self._served.mappings if m.gvk.group_kind == gvk.group_kind]
        if others:
            return f"the server does not serve {gvk}, but versions {', '.join(others)} of it"
        return f"the server does not serve {gvk}: install its CRD, or correct group, version or kind"

    def __repr__(self) -> str:
        return f"<RestMapper of {len(self._by_kind)} kinds>"


def _wanted(resource: GroupResource | GroupVersionResource | str) -> tuple[str | None, str | None, str]:
    """Group, version and name, each None where any will do."""
    if isinstance(resource, str):
        name, dot, group = resource.partition(".")
        return (group if dot else None), None, name.lower()
    if isinstance(resource, GroupVersionResource):
        return resource.group, resource.version, resource.resource.lower()
    return resource.group, None, resource.resource.lower()


def _answers(mapping: RestMapping, wanted: tuple[str | None, str | None, str]) -> bool:
    group, version, name = wanted
    gvr = mapping.resource
    if (group is not None and group != gvr.group) or (version is not None and version != gvr.version):
        return False
    return name in (gvr.resource, mapping.singular, *mapping.short_names)


class StaticMapper(RestMapper):
    """A RESTMapper that knows a fixed set of mappings; for fakes and tests."""

    def __init__(self, mappings: Sequence[RestMapping]) -> None:
        super().__init__(_Fixed(ServedResource(mappings=mappings, failures={})))


class _Fixed:
    def __init__(self, served: ServedResource) -> None:
        self._served = served

    async def fetch(self) -> ServedResource:
        return self._served
