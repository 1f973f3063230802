"""Finalizers: keep an object until its outside world is cleaned up."""

from __future__ import annotations

from opsdk.apimachinery.object import KubeObject


def add_finalizer(obj: KubeObject, finalizer: str) -> bool:
    """Add it in place; False if it was there."""
    if finalizer in obj.metadata.finalizers:
        return False
    obj.metadata.finalizers.append(finalizer)
    return True


def remove_finalizer(obj: KubeObject, finalizer: str) -> bool:
    """Remove every occurrence in place; False if there was none."""
    remaining = [f for f in obj.metadata.finalizers if f != finalizer]
    changed = len(remaining) != len(obj.metadata.finalizers)
    obj.metadata.finalizers = remaining
    return changed


def contains_finalizer(obj: KubeObject, finalizer: str) -> bool:
    """Whether it is there."""
    return finalizer in obj.metadata.finalizers


def is_deleting(obj: KubeObject) -> bool:
    """Whether the deletion of the object was asked for; it stays until its last finalizer is removed."""
    return obj.metadata.deletion_timestamp is not None
