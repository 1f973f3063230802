"""``StorageObjectInUseProtection`` and ``PersistentVolumeClaimResize``.

Upstream: plugin/pkg/admission/storage (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from envtest.admission.default_class import CLASS_ANNOTATION
from opsdk.apimachinery.quantity import Quantity
from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.errors import refused
from opsdk.apiserver.admission.object_cache import ObjectCache
from opsdk.apiserver.admission.plugin import Plugin, resource_path, writes
from opsdk.structured_merge.value import JsonObject

_FINALIZERS: Final[Mapping[str, str]] = {
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
    "persistentvolumes": "kubernetes.io/pv-protection",
    "storage.k8s.io/volumeattributesclasses": "kubernetes.io/vac-protection",
}


class StorageObjectInUseProtection(Plugin):
    """Adds the protection finalizers to new volumes and claims."""

    resources = tuple(_FINALIZERS)

    async def mutate(self, attributes: Attributes) -> None:
        """Add the finalizer to new claims, volumes and VolumeAttributesClasses."""
        info = attributes.served.info
        finalizer = _FINALIZERS.get(resource_path(info))
        if finalizer is None or attributes.operation != "CREATE" or attributes.obj is None:
            return
        meta = attributes.obj["metadata"]
        finalizers = meta.get("finalizers") or []
        if finalizer not in finalizers:
            attributes.obj = {**attributes.obj, "metadata": {**meta, "finalizers": [*finalizers, finalizer]}}


def class_of(claim: JsonObject) -> str:
    """Return the storage class of a claim; empty without one."""
    annotations = (claim.get("metadata") or {}).get("annotations") or {}
    if CLASS_ANNOTATION in annotations:
        return str(annotations[CLASS_ANNOTATION])
    return str((claim.get("spec") or {}).get("storageClassName") or "")


def size_of(claim: JsonObject) -> Quantity:
    """Return the storage request of a claim."""
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return Quantity(requests.get("storage", "0"))


class PersistentVolumeClaimResize(Plugin):
    """Allows the expansion of claims by their storage class; `classes` is the lister of the storage classes."""

    resources = ("persistentvolumeclaims",)

    def __init__(self, classes: ObjectCache) -> None:
        self._classes = classes

    async def validate(self, attributes: Attributes) -> None:
        """Refuse to expand a claim whose class does not allow it."""
        if not writes(attributes, "persistentvolumeclaims", "UPDATE"):
            return
        obj, old = attributes.obj or {}, attributes.old or {}
        if size_of(obj) <= size_of(old):
            return
        if (old.get("status") or {}).get("phase") != "Bound":
            raise refused(attributes, "Only bound persistent volume claims can be expanded")
        storage_class = self._classes.get(class_of(obj)) if class_of(obj) == class_of(old) else None
        if storage_class is None or not storage_class.get("allowVolumeExpansion"):
            text = (
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must"
                " support resize"
            )
            raise refused(attributes, text)
