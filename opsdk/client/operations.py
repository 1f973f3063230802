"""What a client is asked to do, as values: one type per verb.

Wrappers, interceptors, fakes and the cache all work on these; only `opsdk.client.direct` knows requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import AnyObject
from opsdk.client.options import DeleteOptions, GetOptions, ListOptions, WatchOptions, WriteOptions
from opsdk.patch import Patch


@dataclass(frozen=True, slots=True, kw_only=True)
class Get:
    """Read one object, or a subresource of it."""

    kind: Kind[Any]
    key: ObjectKey
    subresource: str = ""
    options: GetOptions = GetOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class List:
    """Read many objects."""

    kind: Kind[Any]
    options: ListOptions = ListOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Follow changes."""

    kind: Kind[Any]
    options: WatchOptions = WatchOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Create an object, or post `body` to a subresource of `obj`."""

    obj: AnyObject
    subresource: str = ""
    body: AnyObject | None = None
    options: WriteOptions = WriteOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Replace an object or a subresource of it."""

    obj: AnyObject
    subresource: str = ""
    body: AnyObject | None = None
    options: WriteOptions = WriteOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchObject:
    """Change parts of an object or of a subresource of it."""

    obj: AnyObject
    patch: Patch
    subresource: str = ""
    body: AnyObject | None = None
    options: WriteOptions = WriteOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    """Server-side apply of an object or of a subresource of it."""

    obj: AnyObject
    subresource: str = ""
    body: AnyObject | None = None
    options: WriteOptions = WriteOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete one object."""

    gvk: GroupVersionKind
    key: ObjectKey
    options: DeleteOptions = DeleteOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAllOf:
    """Delete the objects that `select` selects."""

    gvk: GroupVersionKind
    select: ListOptions = ListOptions()
    options: DeleteOptions = DeleteOptions()


Operation = Get | List | Create | Update | PatchObject | Apply | Delete | DeleteAllOf
"""Everything but `Watch`, which answers with a stream."""

Write = Create | Update | PatchObject | Apply
"""The operations that carry `WriteOptions`."""


def gvk_of_operation(operation: Operation | Watch) -> GroupVersionKind:
    """The kind an operation is about."""
    match operation:
        case Get() | List() | Watch():
            return operation.kind.gvk
        case Delete() | DeleteAllOf():
            return operation.gvk
        case _:
            return GroupVersionKind.parse(operation.obj.api_version, operation.obj.kind)


def namespace_of(operation: Operation | Watch) -> str:
    """The namespace an operation is about; empty for all, or for cluster-scoped kinds."""
    match operation:
        case Get() | Delete():
            return operation.key.namespace
        case List() | Watch():
            return operation.options.namespace
        case DeleteAllOf():
            return operation.select.namespace
        case _:
            return operation.obj.metadata.namespace
