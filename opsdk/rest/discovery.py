"""API discovery: aggregated in two requests, or one request for each group version on older servers.

Upstream: k8s.io/client-go/discovery (v1.36)
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from opsdk.errors import DecodeError, NotFoundError, OpsdkError, ServiceUnavailableError
from opsdk.rest.request import RestRequest
from opsdk.rest.response import RestResponse, raise_for_status
from opsdk.structured_merge.value import JSON_ERRORS

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
# Legacy discovery of a cluster with many CRDs takes a hundred requests. This is the number in parallel.
_CONCURRENCY = 16
# Seconds for one request, as client-go's discovery client: a hung one must not keep a controller waiting forever.
_TIMEOUT = 32.0


# ------------------------------------------------------------------ results
class ApiSubresource(msgspec.Struct, frozen=True, kw_only=True):
    """A subresource such as ``status``. `group`, `version` and `kind` name its request and response kind."""

    name: str
    group: str
    version: str
    kind: str
    verbs: Sequence[str] = ()


class ApiResource(msgspec.Struct, frozen=True, kw_only=True):
    """A resource, identified by `group`, `version` and `plural`. `kind` is the kind of its objects."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str = ""
    namespaced: bool = True
    verbs: Sequence[str] = ()
    short_names: Sequence[str] = ()
    categories: Sequence[str] = ()
    subresources: Mapping[str, ApiSubresource] = msgspec.field(default_factory=dict)


class ApiGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group and its versions, the preferred one first."""

    name: str
    versions: Sequence[str]

    @property
    def preferred(self) -> str:
        """The version that the server prefers."""
        return self.versions[0]


class DiscoveredGroups(msgspec.Struct, frozen=True, kw_only=True):
    """All served groups and resources in the server's order, the preferred version of each group first.

    `failures` has the group versions (``metrics.k8s.io/v1beta1``) that are announced but do not respond. Their
    resources are missing here, although they may exist.
    """

    groups: Sequence[ApiGroup] = ()
    resources: Sequence[ApiResource] = ()
    failures: Mapping[str, OpsdkError] = msgspec.field(default_factory=dict)


# ------------------------------------------------------------------ the wire: absent and null are the same everywhere
class _TypeMeta(msgspec.Struct, rename="camel"):
    kind: str = ""


class _GroupVersionKind(msgspec.Struct):
    group: str = ""
    version: str = ""
    kind: str = ""


class _SubresourceDiscovery(msgspec.Struct, rename="camel"):
    subresource: str
    response_kind: _GroupVersionKind | None = None
    verbs: list[str] | None = None


class _ResourceDiscovery(msgspec.Struct, rename="camel"):
    resource: str
    response_kind: _GroupVersionKind | None = None
    scope: str = ""
    singular_resource: str = ""
    verbs: list[str] | None = None
    short_names: list[str] | None = None
    categories: list[str] | None = None
    subresources: list[_SubresourceDiscovery] | None = None


class _VersionDiscovery(msgspec.Struct):
    version: str
    freshness: str = ""
    resources: list[_ResourceDiscovery] | None = None


class _ObjectMeta(msgspec.Struct):
    name: str = ""


class _GroupDiscovery(msgspec.Struct):
    metadata: _ObjectMeta = msgspec.field(default_factory=_ObjectMeta)
    versions: list[_VersionDiscovery] | None = None


class _GroupDiscoveryList(msgspec.Struct):
    items: list[_GroupDiscovery] | None = None


class _ApiVersions(msgspec.Struct):
    versions: list[str] | None = None


class _GroupVersion(msgspec.Struct, rename="camel"):
    version: str
    group_version: str = ""


class _Group(msgspec.Struct, rename="camel"):
    name: str
    versions: list[_GroupVersion] | None = None
    preferred_version: _GroupVersion | None = None


class _GroupList(msgspec.Struct):
    groups: list[_Group] | None = None


class _Resource(msgspec.Struct, rename="camel"):
    name: str
    kind: str
    singular_name: str = ""
    namespaced: bool = False
    group: str = ""
    version: str = ""
    verbs: list[str] | None = None
    short_names: list[str] | None = None
    categories: list[str] | None = None


class _ResourceList(msgspec.Struct):
    resources: list[_Resource] | None = None


_T = TypeVar("_T")


def _decode(response: RestResponse, kind: type[_T], path: str) -> _T:
    try:
        return msgspec.json.decode(response.body, type=kind)
    except JSON_ERRORS as error:
        raise DecodeError(f"discovery of {path}: {error}: {response.body[:80]!r}") from error


# ------------------------------------------------------------------ pure: documents to results
def from_aggregated(response: RestResponse, path: str) -> DiscoveredGroups:
    """Decode an ``APIGroupDiscoveryList``."""
    groups, resources, failures = [], [], {}
    for item in _decode(response, _GroupDiscoveryList, path).items or ():
        name, versions = item.metadata.name, item.versions or []
        if not versions:
            continue
        groups.append(ApiGroup(name=name, versions=tuple(v.version for v in versions)))
        for version in versions:
            if version.freshness == "Stale":
                label = _group_version_text(name, version.version)
                failures[label] = ServiceUnavailableError(f"the discovery of {label} is stale: its server is down")
                continue
            resources += [_resource_of(name, version.version, resource) for resource in version.resources or ()]
    return DiscoveredGroups(groups=groups, resources=resources, failures=failures)


def _resource_of(group: str, version: str, found: _ResourceDiscovery) -> ApiResource:
    """Return a resource of an aggregated discovery document."""
    subresources = {}
    for sub in found.subresources or ():
        gvk = sub.response_kind or _GroupVersionKind()
        subresources[sub.subresource] = ApiSubresource(
            name=sub.subresource,
            group=gvk.group if gvk.version else group,
            version=gvk.version or version,
            kind=gvk.kind,
            verbs=tuple(sub.verbs or ()),
        )
    return ApiResource(
        group=group,
        version=version,
        kind=found.response_kind.kind if found.response_kind else "",
        plural=found.resource,
        singular=found.singular_resource,
        namespaced=found.scope == "Namespaced",
        verbs=tuple(found.verbs or ()),
        short_names=tuple(found.short_names or ()),
        categories=tuple(found.categories or ()),
        subresources=subresources,
    )


def from_resource_list(response: RestResponse, group: str, version: str) -> list[ApiResource]:
    """Decode an ``APIResourceList``. ``pods/status`` becomes a subresource of ``pods``."""
    listed = _decode(response, _ResourceList, _group_version_text(group, version)).resources or []
    subresources: dict[str, dict[str, ApiSubresource]] = {}
    for resource in listed:
        parent, slash, name = resource.name.partition("/")
        if slash:
            subresources.setdefault(parent, {})[name] = ApiSubresource(
                name=name,
                group=resource.group if resource.version else group,
                version=resource.version or version,
                kind=resource.kind,
                verbs=tuple(resource.verbs or ()),
            )
    return [
        ApiResource(
            group=group,
            version=version,
            kind=resource.kind,
            plural=resource.name,
            singular=resource.singular_name,
            namespaced=resource.namespaced,
            verbs=tuple(resource.verbs or ()),
            short_names=tuple(resource.short_names or ()),
            categories=tuple(resource.categories or ()),
            subresources=subresources.get(resource.name, {}),
        )
        for resource in listed
        if "/" not in resource.name
    ]


def _group_version_text(group: str, version: str) -> str:
    return f"{group}/{version}" if group else version


def _preferred_first(group: _Group) -> tuple[str, ...]:
    versions = [v.version for v in group.versions or ()]
    first = group.preferred_version.version if group.preferred_version else ""
    return tuple(sorted(versions, key=lambda version: version != first))


def join(parts: Iterable[DiscoveredGroups]) -> DiscoveredGroups:
    """Combine several results, in order."""
    groups: list[ApiGroup] = []
    resources: list[ApiResource] = []
    failures: dict[str, OpsdkError] = {}
    for part in parts:
        groups += part.groups
        resources += part.resources
        failures |= part.failures
    return DiscoveredGroups(groups=tuple(groups), resources=tuple(resources), failures=failures)


# ------------------------------------------------------------------ requests
class DiscoveryTransport(Protocol):
    """The method of a transport that discovery uses."""

    async def send(self, request: RestRequest, *, timeout: float | None = None) -> RestResponse:
        """Return the response, whatever its status. See `opsdk.rest.transport.Transport.send`."""
        ...


class Discovery:
    """Runs discovery. Keeps no result."""

    def __init__(self, transport: DiscoveryTransport) -> None:
        self._transport = transport
        self._semaphore = asyncio.Semaphore(_CONCURRENCY)

    async def fetch(self) -> DiscoveredGroups:
        """Return everything served. A failing group is recorded in ``failures``.

        Raises `ApiError` or `TransportError` if the server does not respond.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                core = tasks.create_task(self._fetch_root("/api"), name="discovery/api")
                groups = tasks.create_task(self._fetch_root("/apis"), name="discovery/apis")
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None  # callers expect the plain error
        return join((core.result(), groups.result()))

    async def _fetch_root(self, path: str) -> DiscoveredGroups:
        """Fetch one of the two roots, in either format."""
        request = RestRequest("GET", path, headers={"Accept": _AGGREGATED})
        response = await self._transport.send(request, timeout=_TIMEOUT)
        if response.status == 404:
            # A server may serve only one of the two roots.
            return DiscoveredGroups()
        raise_for_status(response, request)
        if _decode(response, _TypeMeta, path).kind == "APIGroupDiscoveryList":
            return from_aggregated(response, path)
        if path == "/api":
            versions = tuple(_decode(response, _ApiVersions, path).versions or ())
            groups = [ApiGroup(name="", versions=versions)] if versions else []
        else:
            listed = _decode(response, _GroupList, path).groups or []
            groups = [ApiGroup(name=g.name, versions=_preferred_first(g)) for g in listed if g.versions]
        async with asyncio.TaskGroup() as tasks:
            tasks_by_version = [
                tasks.create_task(
                    self._fetch_group_version(group.name, version), name=f"discovery/{group.name}/{version}"
                )
                for group in groups
                for version in group.versions
            ]
        discovered = join(task.result() for task in tasks_by_version)
        return replace(discovered, groups=tuple(groups))

    async def _fetch_group_version(self, group: str, version: str) -> DiscoveredGroups:
        """Return the resources of one group version, or its failure."""
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        request = RestRequest("GET", path, headers={"Accept": "application/json"})
        try:
            async with self._semaphore:
                response = await self._transport.send(request, timeout=_TIMEOUT)
            raise_for_status(response, request)
            return DiscoveredGroups(resources=from_resource_list(response, group, version))
        except NotFoundError:
            # A CRD was deleted since the group list was read.
            return DiscoveredGroups()
        except OpsdkError as error:
            return DiscoveredGroups(failures={_group_version_text(group, version): error})
