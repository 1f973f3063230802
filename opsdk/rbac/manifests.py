"""The manifests that grant a set of rules: ClusterRole, Roles, their bindings and the ServiceAccount. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opsdk.api.core.v1 import Namespace, ServiceAccount
from opsdk.api.rbac.v1 import ClusterRole, ClusterRoleBinding, Role, RoleBinding, RoleRef, Subject
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import TypedObject
from opsdk.apimachinery.yaml_text import to_yaml
from opsdk.errors import UsageError
from opsdk.rbac.permissions import SELECTED_NAMESPACES, RuleSet

__all__ = ["RbacNames", "manifests", "to_yaml"]

_GROUP = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class RbacNames:
    """The names of the manifests.

    Attributes:
        name: of every role and binding.
        namespace: of the service account.
        service_account: its name; empty for `name`.
        create_namespace: begin with the manifest of the namespace.
    """

    name: str
    namespace: str = "default"
    service_account: str = ""
    create_namespace: bool = False

    def __post_init__(self) -> None:
        if not self.name or not self.namespace:
            raise UsageError("the manifests need a name, and the namespace of the service account")


def manifests(rules: RuleSet, names: RbacNames) -> Sequence[TypedObject]:
    """Return the objects that grant `rules` to the service account, in the order to apply them.

    Permissions in all namespaces, and on cluster-scoped resources, become a ClusterRole; those in one namespace become
    a Role there. Those in `SELECTED_NAMESPACES` become a ClusterRole without a binding, ``NAME-selected-namespaces``: a
    RoleBinding in each of the namespaces refers to it. Equal rules produce equal objects.

    >>> from opsdk.rbac.permissions import Permission
    >>> rules = RuleSet([Permission("get", "", "secrets", namespace="shop")])
    >>> [f"{obj.kind} {obj.metadata.namespace}" for obj in manifests(rules, RbacNames(name="shop"))]
    ['ServiceAccount default', 'Role shop', 'RoleBinding shop']
    """
    account = names.service_account or names.name
    subjects = [Subject(kind="ServiceAccount", name=account, namespace=names.namespace)]
    objects: list[TypedObject] = []
    if names.create_namespace:
        objects.append(Namespace(metadata=ObjectMeta(name=names.namespace)))
    objects.append(ServiceAccount(metadata=ObjectMeta(name=account, namespace=names.namespace)))
    for namespace in rules.normalized().namespaces:
        if namespace == SELECTED_NAMESPACES:
            meta = ObjectMeta(name=f"{names.name}-selected-namespaces")
            objects.append(ClusterRole(metadata=meta, rules=rules.policy_rules(namespace)))
            continue
        meta = ObjectMeta(name=names.name, namespace=namespace)
        ref = RoleRef(api_group=_GROUP, kind="Role" if namespace else "ClusterRole", name=names.name)
        role, binding = (Role, RoleBinding) if namespace else (ClusterRole, ClusterRoleBinding)
        objects.append(role(metadata=meta, rules=rules.policy_rules(namespace)))
        objects.append(binding(metadata=meta, role_ref=ref, subjects=subjects))
    return objects
