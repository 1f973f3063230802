"""What an operator follows of its admission policies and bindings. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

import msgspec

from opsdk.apimachinery.kinds import Kind, unstructured_kind
from opsdk.apimachinery.object import Unstructured
from opsdk.rbac.permissions import ALL_NAMESPACES
from opsdk.rbac.rules import RbacRule
from opsdk.structured_merge.value import JsonObject


class PolicyKind(Enum):
    """The kinds of admission policies."""

    VALIDATING = "ValidatingAdmissionPolicy"
    VALIDATING_BINDING = "ValidatingAdmissionPolicyBinding"
    MUTATING = "MutatingAdmissionPolicy"
    MUTATING_BINDING = "MutatingAdmissionPolicyBinding"

    @property
    def kind(self) -> Kind[Unstructured]:
        """The kind, for a client."""
        return unstructured_kind("admissionregistration.k8s.io/v1", self.value)


class PolicyTarget(NamedTuple):
    """A policy or a binding.

    Attributes:
        kind: its kind.
        name: ``metadata.name``; all four kinds are cluster-scoped.
    """

    kind: PolicyKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.value} {self.name}"


class PolicyParams(NamedTuple):
    """The object with the parameters of a binding.

    Attributes:
        kind: its kind.
        name: its name.
        namespace: empty for the namespace of each request.
    """

    kind: Kind[Unstructured]
    name: str
    namespace: str


class RegisteredPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """An admission policy that the operator registered.

    Attributes:
        target: its kind and name.
        spec: as declared.
    """

    target: PolicyTarget
    spec: JsonObject

    def rules(self) -> Iterator[RbacRule]:
        """Yield the RBAC rules with which an operator follows it."""
        yield RbacRule("get list watch", self.target.kind.kind, resource_names=[self.target.name])


class RegisteredBinding(RegisteredPolicy, frozen=True, kw_only=True):
    """A binding of an admission policy that the operator registered.

    Attributes:
        policy: the policy that it puts in force.
        params: the object with the parameters, if it has a name.
        is_restored: it is created again after it was deleted.
    """

    policy: RegisteredPolicy
    params: PolicyParams | None = None
    is_restored: bool = False

    def rules(self) -> Iterator[RbacRule]:
        """Yield the RBAC rules with which an operator follows it, and creates it again if `is_restored`.

        The API server lets a user create a binding only if the user may read its parameters. So bindings that select
        them by labels are only followed.
        """
        if not self.is_restored:
            yield from super().rules()
            return
        yield RbacRule("get list watch create patch", self.target.kind.kind, resource_names=[self.target.name])
        if (params := self.params) is not None:
            place = [params.namespace] if params.namespace else [ALL_NAMESPACES]
            yield RbacRule("get", params.kind, resource_names=[params.name], namespaces=place)
