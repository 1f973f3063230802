"""Creates an object, or updates it with as few writes as possible.

Upstream: sigs.k8s.io/controller-runtime/pkg/controller/controllerutil/controllerutil.go
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TypeVar

from opsdk.apimachinery.kinds import kind_of_object
from opsdk.apimachinery.object import TypedObject, Unstructured, assign, deep_copy, key_of, to_dict
from opsdk.client.client import Client
from opsdk.client.patch import MergeFrom
from opsdk.errors import UsageError

T = TypeVar("T", bound=TypedObject | Unstructured)


class OperationResult(Enum):
    """The kind of write."""

    UNCHANGED = "unchanged"
    CREATED = "created"
    UPDATED = "updated"
    UPDATED_STATUS = "updatedStatus"
    UPDATED_STATUS_ONLY = "updatedStatusOnly"


async def create_or_update(
    client: Client, obj: T, mutate: Callable[[T], None] | None = None, *, field_owner: str = ""
) -> OperationResult:
    """Read the object, call `mutate` on it, and create or update it if `mutate` changed it.

    Afterwards `obj` has the server's state. Status changes are not written.

    Args:
        client: reads and writes.
        obj: names the object; its content is used when the object is created.
        mutate: sets only the desired fields, and keeps the others, which the server may have defaulted. It must not
            change name or namespace.
        field_owner: the field manager of the write.

    Raises:
        UsageError: `mutate` changed name or namespace.
        ConflictError: the object changed concurrently; reconcile again.
    """
    live = await _get_or_create(client, obj, mutate, field_owner)
    if live is None:
        return OperationResult.CREATED
    before = to_dict(live)
    _mutate(live, mutate)
    changed = to_dict(live) != before
    if changed:
        await client.update(live, field_owner=field_owner)
    assign(obj, live)
    return OperationResult.UPDATED if changed else OperationResult.UNCHANGED


async def create_or_patch(
    client: Client, obj: T, mutate: Callable[[T], None] | None = None, *, field_owner: str = ""
) -> OperationResult:
    """Like `create_or_update`, with merge patches, which do not conflict with changes of other fields.

    Also patches the status.
    """
    live = await _get_or_create(client, obj, mutate, field_owner)
    if live is None:
        return OperationResult.CREATED
    base = deep_copy(live)
    _mutate(live, mutate)
    before, after = to_dict(base), to_dict(live)
    status_changed = before.pop("status", None) != after.pop("status", None)
    main_changed = before != after
    desired = deep_copy(live)
    if main_changed:
        await client.patch(live, MergeFrom(base), field_owner=field_owner)
    if status_changed:
        desired.metadata.resource_version = live.metadata.resource_version
        live = await client.status().patch(desired, MergeFrom(base), field_owner=field_owner)
    assign(obj, live)
    if status_changed:
        return OperationResult.UPDATED_STATUS if main_changed else OperationResult.UPDATED_STATUS_ONLY
    return OperationResult.UPDATED if main_changed else OperationResult.UNCHANGED


async def _get_or_create(client: Client, obj: T, mutate: Callable[[T], None] | None, field_owner: str) -> T | None:
    """Return the live object, or None if it did not exist and was created."""
    live: T | None = await client.get_or_none(kind_of_object(obj), key_of(obj))
    if live is None:
        _mutate(obj, mutate)
        await client.create(obj, field_owner=field_owner)
    return live


def _mutate(obj: T, mutate: Callable[[T], None] | None) -> None:
    if mutate is None:
        return
    key = key_of(obj)
    mutate(obj)
    if key_of(obj) != key:
        raise UsageError(f"mutate changed {key} to {key_of(obj)}: it must not change name or namespace")
