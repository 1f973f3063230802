"""Owner references: who an object belongs to, and goes away with."""

from __future__ import annotations

from opsdk.apimachinery.meta import OwnerReference
from opsdk.apimachinery.object import KubeObject, gvk_of, key_of
from opsdk.errors import AlreadyOwnedError, UsageError


def set_controller_reference(owner: KubeObject, obj: KubeObject, *, block_owner_deletion: bool = True) -> None:
    """Make `owner` the controlling owner of `obj`, in place; idempotent.

    Raises `AlreadyOwnedError` if another object controls it, `UsageError` if the owner cannot own it.
    """
    other = next((r for r in obj.metadata.owner_references if r.controller), None)
    reference = _reference(owner, obj)
    if other is not None and not _same(other, reference):
        raise AlreadyOwnedError(
            f"{obj.kind} {key_of(obj)} is already controlled by {other.kind} {other.name}, "
            f"so {reference.kind} {reference.name} cannot control it"
        )
    reference.controller = True
    reference.block_owner_deletion = block_owner_deletion
    _upsert(obj, reference)


def set_owner_reference(owner: KubeObject, obj: KubeObject, *, block_owner_deletion: bool = False) -> None:
    """Make `owner` one of the owners of `obj`, in place; idempotent, whatever version or uid stood there before.

    An owner that controls the object goes on doing so.
    """
    reference = _reference(owner, obj)
    existing = next((r for r in obj.metadata.owner_references if _same(r, reference)), None)
    reference.controller = existing.controller if existing is not None else None
    reference.block_owner_deletion = block_owner_deletion or (
        existing.block_owner_deletion if existing is not None else None
    )
    _upsert(obj, reference)


def remove_owner_reference(owner: KubeObject, obj: KubeObject) -> bool:
    """Take `owner` away from the owners of `obj`, in place; True if it was one."""
    reference = _name_of(owner)
    remaining = [r for r in obj.metadata.owner_references if not _same(r, reference)]
    changed = len(remaining) != len(obj.metadata.owner_references)
    obj.metadata.owner_references = remaining
    return changed


def has_owner_reference(owner: KubeObject, obj: KubeObject) -> bool:
    """Whether `owner` is one of the owners of `obj`: same group, kind and name."""
    reference = _name_of(owner)
    return any(_same(r, reference) for r in obj.metadata.owner_references)


def controller_of(obj: KubeObject) -> OwnerReference | None:
    """The controlling owner, if there is one."""
    return next((r for r in obj.metadata.owner_references if r.controller), None)


def is_controlled_by(owner: KubeObject, obj: KubeObject) -> bool:
    """Whether `owner` itself, by uid, is the controlling owner."""
    controller = controller_of(obj)
    return controller is not None and controller.uid == owner.metadata.uid


def _reference(owner: KubeObject, obj: KubeObject) -> OwnerReference:
    gvk = gvk_of(owner)
    where, namespace = owner.metadata.namespace, obj.metadata.namespace
    if not owner.metadata.uid:
        raise UsageError(f"{gvk.kind} {key_of(owner)} has no uid: only an object that the server has can own another")
    if where and not namespace:
        raise UsageError(f"{gvk.kind} {key_of(owner)} lives in a namespace and cannot own a cluster-scoped object")
    if where and where != namespace:
        raise UsageError(f"{gvk.kind} {key_of(owner)} cannot own an object in another namespace ({namespace})")
    return _name_of(owner)


def _name_of(owner: KubeObject) -> OwnerReference:
    gvk = gvk_of(owner)
    return OwnerReference(api_version=gvk.api_version, kind=gvk.kind, name=owner.metadata.name, uid=owner.metadata.uid)


def _same(a: OwnerReference, b: OwnerReference) -> bool:
    """The same owner, whatever version of its kind was written down."""
    return (_group(a), a.kind, a.name) == (_group(b), b.kind, b.name)


def _group(reference: OwnerReference) -> str:
    # Not parsed: a reference that somebody else wrote badly must not keep us from ours.
    return reference.api_version.rpartition("/")[0]


def _upsert(obj: KubeObject, wanted: OwnerReference) -> None:
    references = obj.metadata.owner_references
    for place, reference in enumerate(references):
        if _same(reference, wanted):
            references[place] = wanted
            return
    references.append(wanted)
