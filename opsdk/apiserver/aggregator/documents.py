"""Reads the discovery documents of aggregated servers. Pure.

Other servers' documents become parts of this server's own. A document with a field of another type is left out, so that
it does not make the documents of all groups unreadable.

Upstream: k8s.io/apiserver/pkg/endpoints/discovery/aggregated (v1.36).
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from opsdk.apiserver.aggregator.api_services import RemoteService
from opsdk.apiserver.endpoints.openapi.merge import filter_spec_by_paths
from opsdk.structured_merge.value import JsonObject

Document = TypeVar("Document")


class _Kind(msgspec.Struct, omit_defaults=True, rename="camel"):
    group: str = ""
    version: str = ""
    kind: str = ""


class _Subresource(msgspec.Struct, omit_defaults=True, rename="camel"):
    subresource: str = ""
    response_kind: _Kind | None = None
    verbs: list[str] | None = None


class _Resource(msgspec.Struct, omit_defaults=True, rename="camel"):
    resource: str = ""
    response_kind: _Kind | None = None
    scope: str = ""
    singular_resource: str = ""
    verbs: list[str] | None = None
    short_names: list[str] | None = None
    categories: list[str] | None = None
    subresources: list[_Subresource] | None = None


class _Version(msgspec.Struct, omit_defaults=True, rename="camel"):
    version: str = ""
    resources: list[_Resource] | None = None


class _Metadata(msgspec.Struct):
    name: str = ""


class _Group(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    versions: list[_Version] | None = None


class _GroupList(msgspec.Struct):
    items: list[_Group] | None = None


class _ApiResource(msgspec.Struct, rename="camel"):
    name: str = ""
    singular_name: str = ""
    namespaced: bool = False
    group: str = ""
    version: str = ""
    kind: str = ""
    verbs: list[str] | None = None
    short_names: list[str] | None = None
    categories: list[str] | None = None


class _ApiResourceList(msgspec.Struct):
    resources: list[_ApiResource] | None = None


class _IndexEntry(msgspec.Struct):
    server_relative_url: str = msgspec.field(name="serverRelativeURL", default="")


class _Index(msgspec.Struct):
    paths: dict[str, _IndexEntry] | None = None


class _Swagger(msgspec.Struct):
    paths: dict[str, dict[str, Any]] | None = None
    definitions: dict[str, dict[str, Any]] | None = None


def _read(raw: bytes, kind: type[Document]) -> Document:
    """Decode a document; without content if it has not this type."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return kind()


def find_version(raw: bytes, remote: RemoteService) -> JsonObject | None:
    """Return the version's part of an ``APIGroupDiscoveryList``, or None."""
    for group in _read(raw, _GroupList).items or ():
        if group.metadata.name == remote.group:
            for version in group.versions or ():
                if version.version == remote.version:
                    return {**msgspec.to_builtins(version), "freshness": "Current"}
    return None


def find_digest(raw: bytes, remote: RemoteService) -> str:
    """Return the hash of the version's OpenAPI v3 document in the index of all documents, or empty."""
    entry = (_read(raw, _Index).paths or {}).get(remote.root.removeprefix("/"))
    return "" if entry is None else entry.server_relative_url.partition("hash=")[2]


def read_swagger(raw: bytes, remote: RemoteService) -> JsonObject | None:
    """Return the version's part of an OpenAPI v2 document; None if it is invalid, or nested too deeply."""
    swagger = _read(raw, _Swagger)
    if swagger.paths is None:
        return None
    try:
        return filter_spec_by_paths({"paths": swagger.paths, "definitions": swagger.definitions}, remote.root)
    except RecursionError:
        return None


def from_resource_list(raw: bytes, remote: RemoteService) -> JsonObject:
    """Build the version's part of aggregated discovery from an ``APIResourceList``."""
    main: dict[str, JsonObject] = {}
    for resource in _read(raw, _ApiResourceList).resources or ():
        name, _, subresource = resource.name.partition("/")
        kind = {
            "group": resource.group or remote.group,
            "version": resource.version or remote.version,
            "kind": resource.kind,
        }
        verbs = resource.verbs or []
        if subresource:
            part = {"subresource": subresource, "responseKind": kind, "verbs": verbs}
            main.setdefault(name, {"resource": name}).setdefault("subresources", []).append(part)
            continue
        more = {"shortNames": resource.short_names, "categories": resource.categories}
        main[name] = {
            "resource": name,
            "responseKind": kind,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "singularResource": resource.singular_name,
            "verbs": verbs,
            **{key: value for key, value in more.items() if value},
            **{key: value for key, value in main.get(name, {}).items() if key == "subresources"},
        }
    return {"version": remote.version, "resources": list(main.values()), "freshness": "Current"}
