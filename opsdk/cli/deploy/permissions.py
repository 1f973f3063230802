"""The permissions that `opsdk deploy` and `opsdk undeploy` need. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.children.kinds import built_in_kind
from opsdk.rbac.permissions import Permission, RuleSet
from opsdk.rbac.resources import resource_of
from opsdk.structured_merge.value import JsonObject

_WRITES: Final = ("get", "create", "patch")
_RBAC: Final = "rbac.authorization.k8s.io"


def deploy_rules(objects: Iterable[JsonObject]) -> RuleSet:
    """Return what an apply of the objects needs, and what explains a failure. Without `grant_rules`.

    Each is limited to the name of its object: a server-side apply creates by name.
    """
    objects = list(objects)
    permissions = [permission for tree in objects for permission in _of_object(tree, _WRITES)]
    for tree in objects:
        if tree["kind"] == "Deployment":
            namespace = tree["metadata"]["namespace"]
            permissions += [Permission("list", "", "pods", namespace=namespace)]
            permissions += [Permission("list", "apps", "replicasets", namespace=namespace)]
    return RuleSet([*permissions, *_reads_of_parameters(objects)])


def _reads_of_parameters(objects: Iterable[JsonObject]) -> Iterator[Permission]:
    """Yield what lets a user write policies with parameters: it must be able to read all of them.

    Upstream: k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicy/authz.go (v1.36)
    """
    for tree in objects:
        if tree["kind"].endswith("AdmissionPolicy") and (kind := tree["spec"].get("paramKind")):
            info = resource_of(GroupVersionKind.parse(kind["apiVersion"], kind["kind"]))
            yield Permission("get", info.group, info.resource)


def delete_rules(objects: Iterable[JsonObject]) -> RuleSet:
    """Return what the deletion of the objects needs."""
    return RuleSet(permission for tree in objects for permission in _of_object(tree, ("get", "delete")))


def grant_rules(objects: Iterable[JsonObject]) -> RuleSet:
    """Return what lets a user write roles and bindings without having their permissions: ``escalate`` and ``bind``.

    Upstream: k8s.io/kubernetes/pkg/registry/rbac/role/policybased/storage.go (v1.36), and that of rolebinding
    """
    permissions: list[Permission] = []
    for tree in objects:
        if tree["kind"] in ("Role", "ClusterRole"):
            permissions += _of_object(tree, ("escalate",))
        elif tree["kind"] in ("RoleBinding", "ClusterRoleBinding"):
            role, namespace = tree["roleRef"], tree["metadata"].get("namespace") or ""
            resource = "clusterroles" if role["kind"] == "ClusterRole" else "roles"
            permissions.append(Permission("bind", _RBAC, resource, role["name"], namespace))
    return RuleSet(permissions)


def undeploy_rules(objects: Sequence[JsonObject], *, delete_objects: bool) -> RuleSet:
    """Return what the removal of the objects needs.

    Args:
        objects: that were deployed.
        delete_objects: the custom objects are deleted too.
    """
    permissions = list(delete_rules(objects))
    for tree in objects:
        if tree["kind"] == "CustomResourceDefinition":
            group, plural = tree["spec"]["group"], tree["spec"]["names"]["plural"]
            # Each object is read until its finalizers have removed it.
            verbs = ("get", "list", "delete") if delete_objects else ("list",)
            permissions += [Permission(verb, group, plural) for verb in verbs]
        elif tree["kind"] == "Namespace":
            name = tree["metadata"]["name"]
            permissions += [Permission("list", "", resource, namespace=name) for resource in LEFT_IN_NAMESPACE.values()]
    return RuleSet(permissions)


LEFT_IN_NAMESPACE: Final = {
    "Pod": "pods",
    "Service": "services",
    "ConfigMap": "configmaps",
    "PersistentVolumeClaim": "persistentvolumeclaims",
}
"""Kinds whose objects keep a namespace from being deleted."""


def _of_object(tree: JsonObject, verbs: Iterable[str]) -> list[Permission]:
    gvk = GroupVersionKind.parse(tree["apiVersion"], tree["kind"])
    info = resource_of(gvk)
    built_in = built_in_kind(gvk)
    namespace = (tree["metadata"].get("namespace") or "") if built_in is None or built_in.namespaced else ""
    return [Permission(verb, info.group, info.resource, tree["metadata"]["name"], namespace) for verb in verbs]
