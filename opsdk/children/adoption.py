"""Creates objects that stay as they are, and decides whether an owner may control an object that is there."""

from __future__ import annotations

from typing import TypeVar

from opsdk.apimachinery.kinds import kind_of_object
from opsdk.apimachinery.meta import OwnerReference
from opsdk.apimachinery.object import KubeObject, TypedObject, Unstructured, deep_copy, gvk_of, key_of
from opsdk.client.client import Client
from opsdk.client.patch import MergeFrom
from opsdk.errors import AlreadyExistsError, AlreadyOwnedError, TerminatingError, UsageError
from opsdk.recipes.owner_references import controller_of, set_controller_reference

T = TypeVar("T", bound=TypedObject | Unstructured)


async def create_once(client: Client, desired: T, *, owner: KubeObject | None, field_owner: str = "") -> T:
    """Create an object unless it exists, and return the live one. `desired` is not changed.

    A stale cache costs one request: the server refuses the second creation, and is asked for the object. One without a
    controller gets `owner` as its controller; nothing else of it is changed.

    Args:
        client: reads and writes.
        desired: the whole object.
        owner: the controller; None for none.
        field_owner: the field manager; default: that of the client.

    Raises:
        AlreadyOwnedError: another object is its controller.
        TerminatingError: it is being deleted.
        UsageError: `desired` has no name.
        ApiError: the server rejected the creation.
    """
    kind, key = kind_of_object(desired), key_of(desired)
    if not key.name:
        raise UsageError(f"{desired.kind} needs metadata.name: without it, each call would create another object")
    live: T | None = await client.get_or_none(kind, key)
    if live is None:
        created = deep_copy(desired)
        if owner is not None:
            set_controller_reference(owner, created)
        try:
            return await client.create(created, field_owner=field_owner)
        except AlreadyExistsError:
            live = await client.get_or_none(kind, key, uncached=True)
            if live is None:  # deleted meanwhile: the retry creates it
                raise
    check_live(live, owner)
    if owner is None or controller_of(live) is not None:
        return live
    set_controller_reference(owner, live)
    return await client.patch(live, MergeFrom(optimistic_lock=True), field_owner=field_owner)


def check_live(live: KubeObject, owner: KubeObject | None) -> None:
    """Raise `TerminatingError` if an object is being deleted, `AlreadyOwnedError` if `owner` cannot control it."""
    if live.metadata.deletion_timestamp is not None:
        raise terminating(live)
    controller = controller_of(live)
    if owner is None or controller is None or _is_same_owner(controller, owner):
        return
    raise AlreadyOwnedError(
        f"{live.kind} {key_of(live)} is controlled by {controller.kind} {controller.name} (uid {controller.uid}), so"
        f" {owner.kind} {key_of(owner)} (uid {owner.metadata.uid}) cannot control it: choose another name for the child"
    )


def _is_same_owner(controller: OwnerReference, owner: KubeObject) -> bool:
    """Whether the controller is `owner`, or an earlier object with its kind and name."""
    group = controller.api_version.rpartition("/")[0]
    own_name = (group, controller.kind, controller.name)
    return controller.uid == owner.metadata.uid or own_name == (*gvk_of(owner).group_kind, owner.metadata.name)


def terminating(live: KubeObject) -> TerminatingError:
    """Return the error for an object that is being deleted."""
    since, finalizers = live.metadata.deletion_timestamp, ", ".join(live.metadata.finalizers) or "none"
    return TerminatingError(
        f"{live.kind} {key_of(live)} has been terminating since {since} (finalizers: {finalizers}): it will be created "
        "again after the deletion"
    )
