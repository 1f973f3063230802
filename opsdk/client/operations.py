"""Operations of a client as values: one class for each verb.

Decorators, interceptors, fakes and the cache work on operations. Only `opsdk.client.direct` builds requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import AnyObject
from opsdk.client.options import DeleteOptions, GetOptions, ListOptions, WatchOptions, WriteOptions
from opsdk.client.patch import Patch


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """A read of objects of one kind, in the representation of `kind`."""

    kind: Kind[Any]

    @property
    def gvk(self) -> GroupVersionKind:
        """Group, version and kind."""
        return self.kind.gvk


class Get(Read, frozen=True, kw_only=True):
    """Read one object or one of its subresources."""

    key: ObjectKey
    subresource: str = ""
    options: GetOptions = GetOptions()

    @property
    def namespace(self) -> str:
        """The namespace; empty for a cluster-scoped object."""
        return self.key.namespace


class List(Read, frozen=True, kw_only=True):
    """Read many objects."""

    options: ListOptions = ListOptions()

    @property
    def namespace(self) -> str:
        """The namespace; empty for all namespaces, and for a cluster-scoped kind."""
        return self.options.namespace


class Watch(Read, frozen=True, kw_only=True):
    """Watch changes."""

    options: WatchOptions = WatchOptions()

    @property
    def namespace(self) -> str:
        """The namespace; empty for all namespaces, and for a cluster-scoped kind."""
        return self.options.namespace


class ObjectWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A write of one object or of one of its subresources."""

    obj: AnyObject
    subresource: str = ""
    body: AnyObject | None = None
    options: WriteOptions = WriteOptions()

    @property
    def gvk(self) -> GroupVersionKind:
        """The kind of `obj`."""
        return GroupVersionKind.parse(self.obj.api_version, self.obj.kind)

    @property
    def namespace(self) -> str:
        """The namespace of `obj`; empty for a cluster-scoped object."""
        return self.obj.metadata.namespace


class Create(ObjectWrite, frozen=True, kw_only=True):
    """Create an object, or post `body` to a subresource of `obj`."""


class Update(ObjectWrite, frozen=True, kw_only=True):
    """Replace an object or one of its subresources."""


class PatchObject(ObjectWrite, frozen=True, kw_only=True):
    """Patch an object or one of its subresources."""

    patch: Patch


class Apply(ObjectWrite, frozen=True, kw_only=True):
    """Server-side apply of an object or one of its subresources.

    Attributes:
        changes: the caller compared the live object, and the apply changes it. Only such an apply may carry a trace
            context: the annotation would turn an apply without effect into a write.
        answered: gets the HTTP status of a success: 201 if the apply created the object, else 200.
    """

    changes: bool = False
    answered: Callable[[int], None] | None = None


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    """Delete one object."""

    gvk: GroupVersionKind
    key: ObjectKey
    options: DeleteOptions = DeleteOptions()

    @property
    def namespace(self) -> str:
        """The namespace; empty for a cluster-scoped object."""
        return self.key.namespace


class DeleteAllOf(msgspec.Struct, frozen=True, kw_only=True):
    """Delete the objects that `select` matches."""

    gvk: GroupVersionKind
    select: ListOptions = ListOptions()
    options: DeleteOptions = DeleteOptions()

    @property
    def namespace(self) -> str:
        """The namespace; empty for all namespaces, and for a cluster-scoped kind."""
        return self.select.namespace


Operation = Get | List | ObjectWrite | Delete | DeleteAllOf
"""Every operation except `Watch`, which returns a stream."""
