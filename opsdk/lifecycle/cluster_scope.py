"""Filters the objects of one managed cluster, for handlers that run for each cluster.

Upstream: github.com/rancher/norman/controller/generic_controller.go (ObjectInCluster)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opsdk.apimachinery.object import AnyObject, to_tree

PROJECT_ANNOTATION = "field.cattle.io/projectId"
"""Names the project of an object, and with it the cluster: ``cluster:project``."""


def object_in_cluster(obj: AnyObject, cluster: str) -> bool:
    """Whether an object belongs to a cluster. The first of these values that the object has decides.

    1. a method ``obj_cluster_name()``;
    2. the annotation ``field.cattle.io/projectId``, ``cluster:project``;
    3. ``spec.clusterName``;
    4. ``projectName`` or ``spec.projectName``, ``cluster:project``;
    5. the namespace.

    >>> from opsdk.api.core.v1 import ConfigMap
    >>> from opsdk.apimachinery.meta import ObjectMeta
    >>> object_in_cluster(ConfigMap(metadata=ObjectMeta(name="a", namespace="c-1")), "c-1")
    True
    """
    method: Any = getattr(obj, "obj_cluster_name", None)
    if callable(method):
        return bool(method() == cluster)
    if project := obj.metadata.annotations.get(PROJECT_ANNOTATION):
        return project.partition(":")[0] == cluster
    tree = to_tree(obj)
    spec = tree.get("spec")
    fields = spec if isinstance(spec, dict) else {}
    if name := fields.get("clusterName"):
        return bool(name == cluster)
    if project := tree.get("projectName") or fields.get("projectName"):
        return str(project).partition(":")[0] == cluster
    return obj.metadata.namespace == cluster


def for_cluster(cluster: str) -> Callable[[AnyObject], bool]:
    """Return a ``when`` for handlers that only handle the objects of one cluster (``AddClusterScopedHandler``).

    As a predicate of events: ``opsdk.event.predicates.of_object(for_cluster(name))``.
    """

    def in_cluster(obj: AnyObject) -> bool:
        return object_in_cluster(obj, cluster)

    return in_cluster
