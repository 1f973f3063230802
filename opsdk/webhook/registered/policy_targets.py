"""What an operator follows of its admission policies and bindings. Pure."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import msgspec

from opsdk.apimachinery.kinds import Kind, unstructured_kind
from opsdk.apimachinery.object import Unstructured
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
    """The declared state of a policy or binding.

    Attributes:
        spec: of the object.
        policy: of a binding, the policy; None for a policy.
        policy_spec: of a binding, the spec of the policy.
        params: of a binding that names its parameters.
        is_restored: a binding is created again after it was deleted.
    """

    spec: JsonObject
    policy: PolicyTarget | None = None
    policy_spec: JsonObject = msgspec.field(default_factory=dict)
    params: PolicyParams | None = None
    is_restored: bool = False
