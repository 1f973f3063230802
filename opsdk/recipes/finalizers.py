"""Finalizers: keep an object until its external resources are cleaned up.

Upstream: sigs.k8s.io/controller-runtime/pkg/controller/controllerutil/controllerutil.go
"""

from __future__ import annotations

from opsdk.apimachinery.object import KubeObject


def add_finalizer(obj: KubeObject, finalizer: str) -> bool:
    """Add a finalizer in place. Returns False if the object has it."""
    if finalizer in obj.metadata.finalizers:
        return False
    obj.metadata.finalizers.append(finalizer)
    return True


def remove_finalizer(obj: KubeObject, finalizer: str) -> bool:
    """Remove a finalizer in place. Returns False if the object does not have it."""
    remaining = [f for f in obj.metadata.finalizers if f != finalizer]
    changed = len(remaining) != len(obj.metadata.finalizers)
    obj.metadata.finalizers = remaining
    return changed


def contains_finalizer(obj: KubeObject, finalizer: str) -> bool:
    """Whether the object has the finalizer."""
    return finalizer in obj.metadata.finalizers


def is_deleting(obj: KubeObject) -> bool:
    """Whether the object has a deletion timestamp. It is deleted after its last finalizer is removed."""
    return obj.metadata.deletion_timestamp is not None
