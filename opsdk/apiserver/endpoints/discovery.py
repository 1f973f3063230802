"""Discovery documents of the installed resources.

Upstream: k8s.io/apiserver/pkg/endpoints/discovery (v1.36).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Sequence

import msgspec

from opsdk.apiserver.endpoints.negotiation import JSON, AcceptedMediaType, clauses
from opsdk.apiserver.resources import InstalledResource, group_version
from opsdk.structured_merge.value import JsonObject

_AGGREGATED = ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2")
"""The kind, group and version that request aggregated discovery."""


class RemoteDocuments(msgspec.Struct, frozen=True, kw_only=True):
    """The discovery and OpenAPI documents of a version that an aggregated server serves.

    Attributes:
        document: its ``APIVersionDiscovery``.
        digest: the hash of its OpenAPI v3 document; empty without one.
        swagger: its OpenAPI v2 document.
    """

    document: JsonObject
    digest: str = ""
    swagger: JsonObject | None = None


class ServedVersion(msgspec.Struct, frozen=True):
    """One version of a group and its resources, main ones before their subresources."""

    version: str
    resources: Sequence[InstalledResource]
    remote_documents: RemoteDocuments | None = None


class ServedGroup(msgspec.Struct, frozen=True):
    """A group with its versions, the preferred one first."""

    group: str
    versions: Sequence[ServedVersion]


# ------------------------------------------------------------------ legacy
def api_versions(address: str) -> JsonObject:
    """Return the APIVersions document of ``/api``."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def api_group(served: ServedGroup, *, alone: bool = True) -> JsonObject:
    """Return the APIGroup document of ``/apis/<group>``; without kind inside a list."""
    versions = [{"groupVersion": group_version(served.group, v.version), "version": v.version} for v in served.versions]
    head: JsonObject = {"kind": "APIGroup", "apiVersion": "v1"} if alone else {}
    return {**head, "name": served.group, "versions": versions, "preferredVersion": versions[0]}


def api_group_list(groups: Iterable[ServedGroup]) -> JsonObject:
    """Return the APIGroupList document of ``/apis``."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [api_group(g, alone=False) for g in groups]}


def api_resource_list(group: str, served: ServedVersion) -> JsonObject:
    """Return the APIResourceList document of a group version."""
    resources = sorted(served.resources, key=_sort_key(served.resources))
    entries = [_api_resource(r) for r in resources]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version(group, served.version),
        "resources": entries,
    }


_CUSTOM_ORDER = ("", "status", "scale")


def _sort_key(resources: Sequence[InstalledResource]) -> Callable[[InstalledResource], tuple[str, int, str]]:
    """Return a sort key: by name and subresource. Subresources of custom resources have a fixed order."""
    custom = {r.info.resource for r in resources if not r.model.typed}

    def place(served: InstalledResource) -> tuple[str, int, str]:
        info = served.info
        if info.resource in custom and info.subresource in _CUSTOM_ORDER:
            return info.resource, _CUSTOM_ORDER.index(info.subresource), ""
        return info.resource, 0, info.subresource

    return place


def _api_resource(served: InstalledResource) -> JsonObject:
    """Return a resource's entry in an APIResourceList."""
    info = served.info
    entry: JsonObject = {
        "name": info.path,
        "singularName": "" if info.subresource else info.singular,
        "namespaced": info.namespaced,
    }
    if info.kind_group is not None:
        entry |= {"group": info.kind_group, "version": info.kind_version or info.version}
        entry = {k: v for k, v in entry.items() if v or k != "group"}
    entry |= {"kind": info.kind, "verbs": list(served.verbs)}
    if info.short_names and not info.subresource:
        entry["shortNames"] = list(info.short_names)
    if info.categories and not info.subresource:
        entry["categories"] = list(info.categories)
    if not info.subresource and "get" in served.verbs and "list" in served.verbs:
        stored = f"{info.group}/{served.storage_version or info.version}/{info.kind}"
        entry["storageVersionHash"] = base64.b64encode(hashlib.sha256(stored.encode()).digest()[:8]).decode()
    return entry


# ------------------------------------------------------------------ aggregated
def aggregated_clause(header: str) -> AcceptedMediaType | None:
    """Return the clause of an Accept header that requests aggregated discovery, or None."""
    for clause in clauses(header):
        if clause.media in (JSON, "*/*") and (clause.kind, clause.group, clause.version) == _AGGREGATED:
            return AcceptedMediaType(JSON, clause.params)
    return None


def aggregated(groups: Iterable[ServedGroup]) -> JsonObject:
    """Return the APIGroupDiscoveryList document of ``/api`` or ``/apis``."""
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": served.group} if served.group else {},
                "versions": [_version(served.group, version) for version in served.versions],
            }
            for served in groups
        ],
    }


def _version(group: str, served: ServedVersion) -> JsonObject:
    if served.remote_documents is not None:
        return served.remote_documents.document
    main = sorted((r for r in served.resources if not r.info.subresource), key=lambda r: r.info.resource)
    by_parent: dict[str, list[InstalledResource]] = {}
    for installed in served.resources:
        if installed.info.subresource:
            by_parent.setdefault(installed.info.resource, []).append(installed)
    resources = [_resource(group, r, by_parent.get(r.info.resource, [])) for r in main]
    return {"version": served.version, "resources": resources, "freshness": "Current"}


def _response_kind(served: InstalledResource, group: str) -> JsonObject:
    info = served.info
    if info.kind_group is not None:
        return {"group": info.kind_group, "version": info.kind_version or info.version, "kind": info.kind}
    # For a built-in kind of the same group and version, group and version are empty.
    if served.model.typed:
        return {"group": "", "version": "", "kind": info.kind}
    return {"group": group, "version": info.version, "kind": info.kind}


def _resource(group: str, served: InstalledResource, subresources: Sequence[InstalledResource]) -> JsonObject:
    """Return a resource's entry in aggregated discovery, with its subresources."""
    info = served.info
    entry: JsonObject = {
        "resource": info.resource,
        "responseKind": _response_kind(served, group),
        "scope": "Namespaced" if info.namespaced else "Cluster",
        "singularResource": info.singular,
        "verbs": list(served.verbs),
    }
    if info.short_names:
        entry["shortNames"] = list(info.short_names)
    if info.categories:
        entry["categories"] = list(info.categories)
    if subresources:
        entry["subresources"] = [
            {
                "subresource": s.info.subresource,
                "responseKind": _response_kind(s, group),
                "verbs": list(s.verbs),
            }
            for s in sorted(subresources, key=_sort_key([served]))
        ]
    return entry
