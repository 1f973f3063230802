"""The request that a reconciler receives.

Upstream: sigs.k8s.io/controller-runtime/pkg/reconcile/reconcile.go
"""

from __future__ import annotations

from typing import NamedTuple

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.object import KubeObject


class Request(NamedTuple):
    """The key of one object to reconcile. Prints as ``namespace/name``.

    Attributes:
        namespace: empty for cluster-scoped objects.
        name: the object's name.
        cluster: the cluster's name in an `opsdk.fleet`; empty for an operator of one cluster.
    """

    namespace: str
    name: str
    cluster: str = ""

    @property
    def key(self) -> ObjectKey:
        """The key, to read the object with."""
        return ObjectKey(self.namespace, self.name)

    @classmethod
    def of(cls, obj: KubeObject) -> Request:
        """Return the request for an object."""
        return cls(obj.metadata.namespace, obj.metadata.name)

    def __str__(self) -> str:
        key = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.cluster}: {key}" if self.cluster else key
