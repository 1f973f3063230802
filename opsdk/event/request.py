"""What a reconciler is asked to look at."""

from __future__ import annotations

from typing import NamedTuple

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.object import KubeObject


class Request(NamedTuple):
    """One object to reconcile, by its key. Prints as ``namespace/name``."""

    namespace: str
    name: str

    @property
    def key(self) -> ObjectKey:
        """The key to read the object with."""
        return ObjectKey(self.namespace, self.name)

    @classmethod
    def of(cls, obj: KubeObject) -> Request:
        """The request for an object."""
        return cls(obj.metadata.namespace, obj.metadata.name)

    def __str__(self) -> str:
        return str(self.key)
