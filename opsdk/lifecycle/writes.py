"""Writes the changes of a handler: the object, its status, both, or nothing.

Upstream: github.com/rancher/norman/lifecycle/object.go (record)
Deviates: upstream never writes the status of a kind with a status subresource.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from opsdk.apimachinery.object import TypedObject, Unstructured, to_dict
from opsdk.client.client import Client
from opsdk.errors import NotFoundError
from opsdk.structured_merge.equality import deep_equal
from opsdk.structured_merge.value import JsonObject, JsonValue

T = TypeVar("T", bound=TypedObject | Unstructured)


class Before(msgspec.Struct, frozen=True):
    """An object before a handler was called."""

    resource_version: str
    tree: JsonObject
    status: JsonValue

    @classmethod
    def of(cls, obj: TypedObject | Unstructured) -> Before:
        """Return the state of an object."""
        tree = to_dict(obj)
        return cls(obj.metadata.resource_version, tree, tree.pop("status", None))


class ChangeWriter:
    """Writes the changes of the objects of one kind by update, with the resource version that was read."""

    def __init__(self) -> None:
        # Whether the status is a subresource: known after the first change of a status.
        self._has_status: bool | None = None

    async def write(self, client: Client, before: Before, obj: T, *, always: bool = False) -> None:
        """Write the difference between `before` and `obj`. `obj` then has the server's state.

        An object whose resource version has changed was written by the handler itself, and is not written again.

        Args:
            client: writes.
            before: the object before the handler was called.
            obj: the object that the handler returned.
            always: write the object even if the handler has written it.

        Raises:
            ConflictError: another writer changed the object since it was read.
            NotFoundError: the object is gone.
        """
        if obj.metadata.resource_version != before.resource_version and not always:
            return
        tree = to_dict(obj)
        desired = tree.pop("status", None)
        object_changed = not deep_equal(before.tree, tree)
        status_changed = not deep_equal(before.status, desired)
        status: Any = obj.content.get("status") if isinstance(obj, Unstructured) else getattr(obj, "status", None)
        if object_changed or (status_changed and not self._has_status):
            await client.update(obj)
            if deep_equal(to_dict(obj).get("status"), desired):
                return  # the server took the status with the object, or it did not change
        if not status_changed or self._has_status is False:
            return
        if isinstance(obj, Unstructured):
            obj.content["status"] = status
        else:
            obj.status = status  # type: ignore[attr-defined] # kinds without a status have none that differs
        try:
            await client.status().update(obj)
        except NotFoundError:
            if self._has_status is not None:
                raise
            self._has_status = False  # the object was written, and its kind has no status subresource
        else:
            self._has_status = True
