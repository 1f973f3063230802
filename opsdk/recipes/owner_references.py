"""Owner references: the garbage collector deletes an object with its owner.

Upstream: sigs.k8s.io/controller-runtime/pkg/controller/controllerutil/controllerutil.go
"""

from __future__ import annotations

from opsdk.apimachinery.meta import OwnerReference
from opsdk.apimachinery.object import KubeObject, gvk_of, key_of
from opsdk.errors import AlreadyOwnedError, UsageError


def set_controller_reference(owner: KubeObject, obj: KubeObject, *, block_owner_deletion: bool = True) -> None:
    """Make `owner` the controller of `obj`, in place. Idempotent.

    Raises:
        AlreadyOwnedError: another object is the controller.
        UsageError: the owner has no uid, or is in another namespace.
    """
    other = next((r for r in obj.metadata.owner_references if r.controller), None)
    reference = _reference(owner, obj)
    if other is not None and not _is_same_owner(other, reference):
        raise AlreadyOwnedError(
            f"{obj.kind} {key_of(obj)} is already controlled by {other.kind} {other.name}, "
            f"so {reference.kind} {reference.name} cannot control it"
        )
    reference.controller = True
    reference.block_owner_deletion = block_owner_deletion
    _upsert(obj, reference)


def set_owner_reference(owner: KubeObject, obj: KubeObject, *, block_owner_deletion: bool = False) -> None:
    """Make `owner` an owner of `obj`, in place. Idempotent; replaces a reference with another version or uid.

    An owner that is the controller stays the controller. Raises `UsageError` like `set_controller_reference`.
    """
    reference = _reference(owner, obj)
    existing = next((r for r in obj.metadata.owner_references if _is_same_owner(r, reference)), None)
    reference.controller = existing.controller if existing is not None else None
    reference.block_owner_deletion = block_owner_deletion or (
        existing.block_owner_deletion if existing is not None else None
    )
    _upsert(obj, reference)


def remove_owner_reference(owner: KubeObject, obj: KubeObject) -> bool:
    """Remove `owner` from the owners of `obj`, in place. Returns True if it was an owner."""
    reference = _name_of(owner)
    remaining = [r for r in obj.metadata.owner_references if not _is_same_owner(r, reference)]
    changed = len(remaining) != len(obj.metadata.owner_references)
    obj.metadata.owner_references = remaining
    return changed


def has_owner_reference(owner: KubeObject, obj: KubeObject) -> bool:
    """Whether `owner` is an owner of `obj`: same group, kind and name."""
    reference = _name_of(owner)
    return any(_is_same_owner(r, reference) for r in obj.metadata.owner_references)


def controller_of(obj: KubeObject) -> OwnerReference | None:
    """Return the controller of `obj`, or None."""
    return next((r for r in obj.metadata.owner_references if r.controller), None)


def is_controlled_by(owner: KubeObject, obj: KubeObject) -> bool:
    """Whether `owner` is the controller, by uid."""
    controller = controller_of(obj)
    return controller is not None and controller.uid == owner.metadata.uid


def _reference(owner: KubeObject, obj: KubeObject) -> OwnerReference:
    gvk = gvk_of(owner)
    where, namespace = owner.metadata.namespace, obj.metadata.namespace
    if not owner.metadata.uid:
        raise UsageError(f"{gvk.kind} {key_of(owner)} has no uid: create it before it becomes an owner")
    if where and not namespace:
        raise UsageError(f"{gvk.kind} {key_of(owner)} is namespaced and cannot own a cluster-scoped object")
    if where and where != namespace:
        raise UsageError(f"{gvk.kind} {key_of(owner)} cannot own an object in another namespace ({namespace})")
    return _name_of(owner)


def _name_of(owner: KubeObject) -> OwnerReference:
    gvk = gvk_of(owner)
    return OwnerReference(api_version=gvk.api_version, kind=gvk.kind, name=owner.metadata.name, uid=owner.metadata.uid)


def _is_same_owner(a: OwnerReference, b: OwnerReference) -> bool:
    """Whether two references name the same owner, in any version of its kind."""
    return (_group(a), a.kind, a.name) == (_group(b), b.kind, b.name)


def _group(reference: OwnerReference) -> str:
    # Do not parse: a malformed reference of another writer must not raise here.
    return reference.api_version.rpartition("/")[0]


def _upsert(obj: KubeObject, reference: OwnerReference) -> None:
    references = obj.metadata.owner_references
    for index, existing in enumerate(references):
        if _is_same_owner(existing, reference):
            references[index] = reference
            return
    references.append(reference)
