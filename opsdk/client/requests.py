"""Converts operations to requests. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from opsdk.apimachinery.codec import encode, encode_tree
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.model import to_builtins
from opsdk.apimachinery.object import AnyObject, PartialObjectMetadata, key_of, shared_tree
from opsdk.apimachinery.rest_mapper import RestMapping
from opsdk.apimachinery.selectors import FieldSelector, LabelRequirements
from opsdk.apimachinery.status import DeleteOptions as DeleteBody
from opsdk.apimachinery.status import Preconditions
from opsdk.client.operations import (
    Apply,
    Create,
    Delete,
    DeleteAllOf,
    Get,
    List,
    Operation,
    PatchObject,
    Update,
    Watch,
)
from opsdk.client.options import DeleteOptions, WriteOptions
from opsdk.client.patch import PatchType
from opsdk.errors import UsageError
from opsdk.rest.request import RestRequest, resource_path
from opsdk.structured_merge.value import JsonObject

JSON = "application/json"
_METADATA = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
_METADATA_LIST = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"

# An apply leaves them out; the server rejects one with managedFields.
_SET_BY_SERVER = frozenset({"managedFields", "creationTimestamp", "generation", "selfLink"})


class RequestTarget(msgspec.Struct, frozen=True, gc=False):
    """The object or collection that a request addresses."""

    mapping: RestMapping
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    def request(self, verb: str, method: str, **rest: Any) -> RestRequest:
        """Return a request to the target."""
        gvr = self.mapping.resource
        namespace = self.namespace if self.mapping.namespaced else ""
        path = resource_path(gvr.group, gvr.version, gvr.resource, namespace, self.name, self.subresource)
        return RestRequest(
            method,
            path,
            verb=verb,
            group=gvr.group,
            version=gvr.version,
            resource=gvr.resource,
            subresource=self.subresource,
            namespace=namespace,
            name=self.name,
            **rest,
        )


def build_request(operation: Operation, mapping: RestMapping) -> RestRequest:
    """Return the request for an operation on a kind with this mapping.

    Raises:
        UsageError: the operation has no valid request, for example because a name is missing.
        EncodeError: the object has no JSON form.
    """
    return _BUILDERS[type(operation)](operation, mapping)


# ------------------------------------------------------------------ reading
def _get(operation: Get, mapping: RestMapping) -> RestRequest:
    target = RequestTarget(mapping, operation.key.namespace, operation.key.name, operation.subresource)
    _require_name(target)
    query = _query_pairs(resourceVersion=operation.options.resource_version)
    return target.request("get", "GET", query=query, headers={"Accept": accept(operation.kind)})


def _list(operation: List, mapping: RestMapping) -> RestRequest:
    o = operation.options
    query = selector_query(o.label_selector, o.field_selector) + _query_pairs(
        limit="" if o.limit is None else str(o.limit),
        **{"continue": o.continue_token},
        resourceVersion=o.resource_version,
        resourceVersionMatch=o.resource_version_match or "",
        shardSelector=o.shard_selector,
    )
    headers = {"Accept": accept(operation.kind, many=True)}
    request = RequestTarget(mapping, o.namespace).request("list", "GET", query=query, headers=headers)
    return _of_one_object(request, o.field_selector)


def build_watch(operation: Watch, mapping: RestMapping) -> RestRequest:
    """Return the request for a watch."""
    o = operation.options
    query = [("watch", "true"), *selector_query(o.label_selector, o.field_selector)]
    query += _query_pairs(
        resourceVersion=o.resource_version,
        allowWatchBookmarks="true" if o.bookmarks or o.initial_events else "",
        timeoutSeconds="" if o.timeout is None else str(o.timeout),
        shardSelector=o.shard_selector,
    )
    if o.initial_events:
        query += [("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]
    headers = {"Accept": accept(operation.kind)}
    request = RequestTarget(mapping, o.namespace).request("watch", "GET", query=query, headers=headers)
    return _of_one_object(request, o.field_selector)


def _of_one_object(request: RestRequest, field_selector: FieldSelector) -> RestRequest:
    """Return a list or watch of one object with its name, by which the server authorizes it."""
    if not field_selector.requirements or not (name := field_selector.exact("metadata.name")):
        return request
    return replace(request, name=name)


def accept(kind: Kind[AnyObject], *, many: bool = False) -> str:
    """Return the Accept header for the representation of `kind`."""
    if kind.representation is PartialObjectMetadata:
        return _METADATA_LIST if many else _METADATA
    return JSON


def selector_query(label_selector: LabelRequirements, field_selector: FieldSelector) -> list[tuple[str, str]]:
    """Return the selectors as query pairs."""
    if label_selector.nothing or field_selector.nothing:
        # Selector syntax cannot express "match nothing", so use a contradiction.
        return [
            ("labelSelector", "opsdk.dev/nothing,!opsdk.dev/nothing"),
            *_query_pairs(fieldSelector=str(field_selector)),
        ]
    return _query_pairs(labelSelector=str(label_selector), fieldSelector=str(field_selector))


# ------------------------------------------------------------------ writing
def _create(operation: Create, mapping: RestMapping) -> RestRequest:
    """Return the request of a create. Raises `UsageError` without a namespace for a namespaced kind."""
    namespace, name = key_of(operation.obj)
    if operation.subresource:
        target = RequestTarget(mapping, namespace, name, operation.subresource)
        _require_name(target)
    else:
        target = RequestTarget(mapping, namespace)
    if mapping.namespaced and not namespace:
        raise UsageError(f"{mapping.gvk.kind} is namespaced: set metadata.namespace before creating it")
    body = operation.body if operation.body is not None else operation.obj
    return target.request(
        "create",
        "POST",
        query=_write_query(operation.options),
        headers=_write_headers(body, JSON),
        body=encode(body),
        body_name=name or operation.obj.metadata.generate_name or "",
    )


def _update(operation: Update, mapping: RestMapping) -> RestRequest:
    meta = operation.obj.metadata
    target = RequestTarget(mapping, meta.namespace, meta.name, operation.subresource)
    _require_name(target)
    body = operation.body if operation.body is not None else operation.obj
    return target.request(
        "update", "PUT", query=_write_query(operation.options), headers=_write_headers(body, JSON), body=encode(body)
    )


def _patch(operation: PatchObject, mapping: RestMapping) -> RestRequest:
    meta = operation.obj.metadata
    target = RequestTarget(mapping, meta.namespace, meta.name, operation.subresource)
    _require_name(target)
    body = operation.body if operation.body is not None else operation.obj
    return target.request(
        "patch",
        "PATCH",
        query=_write_query(operation.options),
        headers=_write_headers(body, operation.patch.type._value_),  # `value` is a property: two calls
        body=operation.patch.data(body),
    )


def _apply(operation: Apply, mapping: RestMapping) -> RestRequest:
    """Return the request of a server-side apply, without the metadata that the server sets."""
    if not operation.options.field_owner:
        raise UsageError("apply needs a field owner: pass field_owner=..., or wrap the client with field_owner()")
    meta = operation.obj.metadata
    target = RequestTarget(mapping, meta.namespace, meta.name, operation.subresource)
    _require_name(target)
    body = operation.body if operation.body is not None else operation.obj
    tree = shared_tree(body)
    metadata = {name: value for name, value in tree["metadata"].items() if name not in _SET_BY_SERVER}
    return target.request(
        "patch",
        "PATCH",
        query=_write_query(operation.options),
        headers=_write_headers(body, PatchType.APPLY.value),
        body=encode_tree({**tree, "metadata": metadata}, body),
    )


def _write_headers(obj: AnyObject, content_type: str) -> Mapping[str, str]:
    return _headers(_METADATA if isinstance(obj, PartialObjectMetadata) else JSON, content_type)


@lru_cache(maxsize=16)  # each write has one of a few sets: do not change them
def _headers(media_type: str, content_type: str) -> Mapping[str, str]:
    return {"Accept": media_type, "Content-Type": content_type}


@lru_cache(maxsize=256)
def _write_query(options: WriteOptions) -> Sequence[tuple[str, str]]:
    return tuple(
        _query_pairs(
            dryRun="All" if options.dry_run else "",
            fieldManager=options.field_owner,
            fieldValidation=options.field_validation or "",
            force="true" if options.force else "",
        )
    )


# ------------------------------------------------------------------ deleting
def _delete(operation: Delete, mapping: RestMapping) -> RestRequest:
    target = RequestTarget(mapping, operation.key.namespace, operation.key.name)
    _require_name(target)
    return target.request("delete", "DELETE", **_delete_body(operation.options))


def _delete_all(operation: DeleteAllOf, mapping: RestMapping) -> RestRequest:
    select = operation.select
    return RequestTarget(mapping, select.namespace).request(
        "deletecollection",
        "DELETE",
        query=selector_query(select.label_selector, select.field_selector),
        **_delete_body(operation.options),
    )


def _delete_body(options: DeleteOptions) -> JsonObject:
    preconditions = Preconditions(uid=options.uid, resource_version=options.resource_version)
    body = DeleteBody(
        grace_period_seconds=options.grace_period_seconds,
        propagation_policy=options.propagation,
        preconditions=preconditions if options.uid or options.resource_version else None,
        dry_run=["All"] if options.dry_run else [],
    )
    tree = {"apiVersion": "v1", "kind": "DeleteOptions", **to_builtins(body)}
    return {"headers": {"Accept": JSON, "Content-Type": JSON}, "body": msgspec.json.encode(tree)}


# ------------------------------------------------------------------ helpers
def _require_name(target: RequestTarget) -> None:
    if target.name and (target.namespace or not target.mapping.namespaced):
        return
    kind = target.mapping.gvk.kind
    if not target.name:
        raise UsageError(f"this request needs the name of a {kind}: an empty name addresses the whole collection")
    if target.mapping.namespaced and not target.namespace:
        raise UsageError(f"{kind} is namespaced: {target.name!r} needs a namespace")


def _query_pairs(**values: str) -> list[tuple[str, str]]:
    return [(name, value) for name, value in values.items() if value]


_BUILDERS: Mapping[type[Operation], Callable[[Any, RestMapping], RestRequest]] = {
    Get: _get,
    List: _list,
    Create: _create,
    Update: _update,
    PatchObject: _patch,
    Apply: _apply,
    Delete: _delete,
    DeleteAllOf: _delete_all,
}
