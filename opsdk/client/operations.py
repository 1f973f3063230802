"""Operations of a client as values: one class for each verb.

Decorators, interceptors, fakes and the cache work on operations. Only `opsdk.client.direct` builds requests.
"""

from __future__ import annotations

from typing import Any

import msgspec

from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import AnyObject
from opsdk.client.options import DeleteOptions, GetOptions, ListOptions, WatchOptions, WriteOptions
from opsdk.patch import Patch


class Get(msgspec.Struct, frozen=True, kw_only=True):
    """Read one object or one of its subresources."""

    kind: Kind[Any]
    key: ObjectKey
    subresource: str = ""
    options: GetOptions = GetOptions()


class List(msgspec.Struct, frozen=True, kw_only=True):
    """Read many objects."""

    kind: Kind[Any]
    options: ListOptions = ListOptions()


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """Watch changes."""

    kind: Kind[Any]
    options: WatchOptions = WatchOptions()


class Create(msgspec.Struct, frozen=True, kw_only=True):
    """Create an object, or post `body` to a subresource of `obj`."""

    obj: AnyObject
    subresource: str = ""
    body: AnyObject | None = None
    options: WriteOptions = WriteOptions()


class Update(msgspec.Struct, frozen=True, kw_only=True):
    """Replace an object or one of its subresources."""

    obj: AnyObject
    subresource: str = ""
    body: AnyObject | None = None
    options: WriteOptions = WriteOptions()


class PatchObject(msgspec.Struct, frozen=True, kw_only=True):
    """Patch an object or one of its subresources."""

    obj: AnyObject
    patch: Patch
    subresource: str = ""
    body: AnyObject | None = None
    options: WriteOptions = WriteOptions()


class Apply(msgspec.Struct, frozen=True, kw_only=True):
    """Server-side apply of an object or one of its subresources."""

    obj: AnyObject
    subresource: str = ""
    body: AnyObject | None = None
    options: WriteOptions = WriteOptions()


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    """Delete one object."""

    gvk: GroupVersionKind
    key: ObjectKey
    options: DeleteOptions = DeleteOptions()


class DeleteAllOf(msgspec.Struct, frozen=True, kw_only=True):
    """Delete the objects that `select` matches."""

    gvk: GroupVersionKind
    select: ListOptions = ListOptions()
    options: DeleteOptions = DeleteOptions()


Operation = Get | List | Create | Update | PatchObject | Apply | Delete | DeleteAllOf
"""Every operation except `Watch`, which returns a stream."""

Write = Create | Update | PatchObject | Apply
"""The operations with `WriteOptions`."""


def gvk_of_operation(operation: Operation | Watch) -> GroupVersionKind:
    """Return the kind of an operation."""
    match operation:
        case Get() | List() | Watch():
            return operation.kind.gvk
        case Delete() | DeleteAllOf():
            return operation.gvk
        case _:
            return GroupVersionKind.parse(operation.obj.api_version, operation.obj.kind)


def namespace_of(operation: Operation | Watch) -> str:
    """Return the namespace of an operation; empty for all namespaces and for cluster-scoped kinds."""
    match operation:
        case Get() | Delete():
            return operation.key.namespace
        case List() | Watch():
            return operation.options.namespace
        case DeleteAllOf():
            return operation.select.namespace
        case _:
            return operation.obj.metadata.namespace
