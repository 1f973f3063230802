"""OpenAPI 3 paths and operations of a resource. Pure.

Upstream: k8s.io/kube-openapi/pkg/builder3/openapi.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from opsdk.apiserver.endpoints.handlers.patch import patch_types
from opsdk.apiserver.endpoints.negotiation import JSON, PROTOBUF, YAML
from opsdk.apiserver.resources import InstalledResource
from opsdk.structured_merge.value import JsonObject

REF = "#/components/schemas/"
META = "io.k8s.apimachinery.pkg.apis.meta.v1"
STATUS, DELETE_OPTIONS, PATCH = f"{META}.Status", f"{META}.DeleteOptions", f"{META}.Patch"
_MANY = ("list", "create", "deletecollection")
_WRITTEN = ("dryRun", "fieldManager", "fieldValidation")
_LISTED = (
    "allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion",
    "resourceVersionMatch", "sendInitialEvents", "timeoutSeconds",
)  # fmt: skip
_DELETED = (
    "dryRun", "gracePeriodSeconds", "ignoreStoreReadErrorWithClusterBreakingPotential", "orphanDependents",
    "propagationPolicy",
)  # fmt: skip
_BOOLEANS = frozenset(
    {
        "allowWatchBookmarks",
        "watch",
        "force",
        "orphanDependents",
        "sendInitialEvents",
        "ignoreStoreReadErrorWithClusterBreakingPotential",
    }
)
_NUMBERS = frozenset({"limit", "timeoutSeconds", "gracePeriodSeconds"})


class _Verb(msgspec.Struct, frozen=True):
    method: str
    word: str
    """The prefix of operation IDs."""
    action: str
    query: tuple[str, ...] = ()
    codes: tuple[str, ...] = ("200",)


_VERBS = {
    "get": _Verb("get", "read", "get", ("resourceVersion",)),
    "list": _Verb("get", "list", "list", (*_LISTED, "watch")),
    "create": _Verb("post", "create", "post", _WRITTEN, ("200", "201", "202")),
    "update": _Verb("put", "replace", "put", _WRITTEN, ("200", "201")),
    "patch": _Verb("patch", "patch", "patch", (*_WRITTEN, "force")),
    "delete": _Verb("delete", "delete", "delete", _DELETED, ("200", "202")),
    "deletecollection": _Verb("delete", "delete", "deletecollection", (*_LISTED, *_DELETED)),
}


class OperationNames(msgspec.Struct, frozen=True, kw_only=True):
    """The schemas of a resource's operations.

    Attributes:
        body: the schema name of request and response bodies.
        list_body: the schema name of the list.
        kind: the kind of the main resource, also for subresources.
    """

    body: str | None
    list_body: str | None
    kind: str


def referring(name: str | None) -> JsonObject:
    """Return a reference to a schema."""
    return {"$ref": f"{REF}{name}"} if name else {"type": "object"}


def paths_of(group: str, installed: InstalledResource, names: OperationNames) -> Iterator[tuple[str, JsonObject]]:
    """Yield each path with its operations and parameters."""
    for path, verbs in _routes(group, installed):
        item: JsonObject = {
            _VERBS[verb].method: _operation(group, installed, verb, names, all_namespaces="{namespace}" not in path)
            for verb in verbs
        }
        placed = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}}
            for name in ("name", "namespace")
            if f"{{{name}}}" in path
        ]
        item["parameters"] = [*placed, _parameter("pretty")]
        yield path, item


def _routes(group: str, installed: InstalledResource) -> Iterator[tuple[str, list[str]]]:
    """Yield the paths of a resource with their verbs."""
    info = installed.info
    root = f"/apis/{group}/{info.version}" if group else f"/api/{info.version}"
    verbs = [verb for verb in installed.verbs if verb in _VERBS]
    scoped = f"{root}/namespaces/{{namespace}}/{info.resource}" if info.namespaced else f"{root}/{info.resource}"
    if info.subresource:
        yield f"{scoped}/{{name}}/{info.subresource}", verbs
        return
    many = [verb for verb in verbs if verb in _MANY]
    one = [verb for verb in verbs if verb not in many]
    if many:
        yield scoped, many
    if one:
        yield f"{scoped}/{{name}}", one
    if info.namespaced and "list" in verbs:
        yield f"{root}/{info.resource}", ["list"]


def _operation(
    group: str, installed: InstalledResource, verb: str, names: OperationNames, *, all_namespaces: bool
) -> JsonObject:
    """Return the OpenAPI v3 operation of a verb."""
    info, verb_info = installed.info, _VERBS[verb]
    answers = {"list": names.list_body, "delete": STATUS, "deletecollection": STATUS}
    content = _content(
        (JSON, YAML) if installed.custom or not installed.model.typed else (JSON, PROTOBUF, YAML),
        answers.get(verb, names.body),
    )
    responses: JsonObject = {code: {"description": _DESCRIBED[code], "content": content} for code in verb_info.codes}
    # Subresources of custom resources have the kind of the main resource.
    gvk = {"group": group, "version": info.version, "kind": names.kind}
    if not installed.custom:
        kind_group = info.group if info.kind_group is None else info.kind_group
        gvk = {"group": kind_group, "version": info.kind_version or info.version, "kind": info.kind}
    operation: JsonObject = {
        "tags": [f"{_group_word(group, first=str.lower)}_{info.version}"],
        "operationId": _operation_id(
            group, installed, verb, names.kind, all_namespaces=all_namespaces and info.namespaced
        ),
        "parameters": [_parameter(name) for name in verb_info.query],
        "responses": {**responses, "401": {"description": _DESCRIBED["401"]}},
        "x-kubernetes-action": verb_info.action,
        "x-kubernetes-group-version-kind": gvk,
    }
    bodies = _bodies(installed, verb, names)
    return {**operation, "requestBody": bodies} if bodies else operation


def _content(media: Iterable[str], name: str | None) -> JsonObject:
    return {one: {"schema": referring(name)} for one in media}


_DESCRIBED = {"200": "OK", "201": "Created", "202": "Accepted", "401": "Unauthorized"}


def _bodies(installed: InstalledResource, verb: str, names: OperationNames) -> JsonObject:
    media = (JSON, YAML) if installed.custom else ("*/*",)
    match verb:
        case "create" | "update":
            return {"content": _content(media, names.body), "required": True}
        case "patch":
            return {"content": _content(sorted(patch_types(installed)), PATCH), "required": True}
        case "delete":
            return {"content": _content(media, DELETE_OPTIONS)}
        case "deletecollection" if not installed.custom:
            return {"content": _content(media, DELETE_OPTIONS)}
    return {}


def _operation_id(group: str, installed: InstalledResource, verb: str, kind: str, *, all_namespaces: bool) -> str:
    info = installed.info
    scope = "Namespaced" if info.namespaced and not all_namespaces else ""
    many = "Collection" if verb == "deletecollection" else ""
    part = _capitalized(info.subresource)
    place = f"{_group_word(group)}{_capitalized(info.version)}"
    return f"{_VERBS[verb].word}{place}{many}{scope}{kind}{part}{'ForAllNamespaces' if all_namespaces else ''}"


def _group_word(group: str, *, first: Callable[[str], str] = str.upper) -> str:
    """Return ``rbac.authorization.k8s.io`` as ``RbacAuthorization``."""
    parts: Sequence[str] = (group.removesuffix(".k8s.io") or "core").split(".")
    word = "".join(map(_capitalized, parts))
    return first(word[:1]) + word[1:]


def _capitalized(word: str) -> str:
    return word[:1].upper() + word[1:]


def _parameter(name: str) -> JsonObject:
    kind = "boolean" if name in _BOOLEANS else "integer" if name in _NUMBERS else "string"
    return {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}
