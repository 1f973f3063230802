"""``DefaultStorageClass`` and ``DefaultIngressClass``: set the default class when an object names none.

Upstream: plugin/pkg/admission/storage/storageclass/setdefault (v1.36)
"""

from __future__ import annotations

from collections.abc import Sequence

from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.object_cache import ObjectCache
from opsdk.apiserver.admission.plugin import Plugin, writes
from opsdk.structured_merge.value import JsonObject

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_STORAGE = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


class DefaultClass(Plugin):
    """Sets the default class of new objects that name none.

    Args:
        classes: the lister of the classes.
        path: the resource that gets a default class: ``resource`` or ``group/resource``.
        field: the field of the spec that names the class.
        old: the annotation that named the class in older versions.
        marks: the annotations that mark a class as the default.
    """

    def __init__(self, classes: ObjectCache, *, path: str, field: str, old: str, marks: Sequence[str]) -> None:
        self.resources = (path,)
        self._classes = classes
        self._path, self._field, self._old, self._marks = path, field, old, marks

    async def mutate(self, attributes: Attributes) -> None:
        """Set the field to the newest default class."""
        if not writes(attributes, self._path, "CREATE") or attributes.obj is None:
            return
        spec = attributes.obj.get("spec") or {}
        if spec.get(self._field) is not None or self._old in (attributes.obj["metadata"].get("annotations") or {}):
            return
        # The newest default class wins; the first by name if timestamps are equal.
        marked = [c["metadata"] for c in self._classes.of() if self._is_default(c["metadata"])]
        newest = max((m["creationTimestamp"] for m in marked), default=None)
        name = next((str(m["name"]) for m in marked if m["creationTimestamp"] == newest), None)
        if name is not None:
            attributes.obj = {**attributes.obj, "spec": {**spec, self._field: name}}

    def _is_default(self, meta: JsonObject) -> bool:
        annotations = meta.get("annotations") or {}
        return any(annotations.get(mark) == "true" for mark in self._marks)


def default_storage_class(classes: ObjectCache) -> DefaultClass:
    """Return the plugin DefaultStorageClass."""
    return DefaultClass(
        classes,
        path="persistentvolumeclaims",
        field="storageClassName",
        old=CLASS_ANNOTATION,
        marks=_DEFAULT_STORAGE,
    )


def default_ingress_class(classes: ObjectCache) -> DefaultClass:
    """Return the plugin DefaultIngressClass."""
    return DefaultClass(
        classes,
        path="networking.k8s.io/ingresses",
        field="ingressClassName",
        old="kubernetes.io/ingress.class",
        marks=("ingressclass.kubernetes.io/is-default-class",),
    )
