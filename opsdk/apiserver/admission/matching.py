"""Match rules and selectors that webhooks and admission policies share. Pure.

Upstream: k8s.io/apiserver/pkg/admission/plugin/webhook/predicates (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import msgspec
from msgspec.structs import replace

from opsdk.apimachinery.gvk import GroupVersionResource
from opsdk.apimachinery.meta import LabelSelector
from opsdk.apimachinery.selectors import LabelRequirements
from opsdk.apiserver.admission.attributes import Attributes
from opsdk.structured_merge.value import JsonObject

_GROUP = "admissionregistration.k8s.io"
_POLICIES = frozenset(
    {
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
    }
)
_EXEMPT = _POLICIES | {"validatingwebhookconfigurations", "mutatingwebhookconfigurations"}
_REVIEWS = frozenset(
    {
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    }
)


def exempt(resource: GroupVersionResource) -> bool:
    """Report whether webhooks and policies skip this resource, so that a faulty one can still be repaired."""
    return resource.group == _GROUP and resource.resource in _EXEMPT


def policy_exempt(resource: GroupVersionResource) -> bool:
    """Report whether policies skip this resource: other policies, and access and token reviews."""
    if resource.group == _GROUP:
        return resource.resource in _POLICIES
    return (resource.group, resource.resource) in _REVIEWS


class RequestAttributes(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a request that rules match."""

    operation: str
    resource: GroupVersionResource
    subresource: str = ""
    namespace: str = ""

    @classmethod
    def of(cls, attributes: Attributes) -> Self:
        """Return the attributes of a request that rules match."""
        return cls(
            operation=attributes.operation,
            resource=attributes.resource,
            subresource=attributes.subresource,
            namespace=attributes.namespace,
        )

    @property
    def of_namespace(self) -> bool:
        """Whether the request is for a Namespace object, which is cluster-scoped."""
        return self.resource.resource == "namespaces" and not self.resource.group

    def instead(self, resource: GroupVersionResource) -> RequestAttributes:
        """Return the same attributes with another resource."""
        return replace(self, resource=resource)


class RuleWithOperations(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of ``rules`` or ``resourceRules``; empty `names` (policies only) match all names."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    scope: str = "*"
    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, tree: JsonObject) -> Self:
        """Parse a validated rule."""
        split = (text.partition("/") for text in tree.get("resources") or ())
        return cls(
            operations=frozenset(tree.get("operations") or ()),
            groups=frozenset(tree.get("apiGroups") or ()),
            versions=frozenset(tree.get("apiVersions") or ()),
            resources=tuple((resource, sub) for resource, _, sub in split),
            scope=tree.get("scope") or "*",
            names=frozenset(tree.get("resourceNames") or ()),
        )

    def matches(self, attributes: RequestAttributes) -> bool:
        """Report whether the rule matches the request, without regard to names."""
        inside = bool(attributes.namespace) and not attributes.of_namespace
        return (
            (self.scope == "*" or inside == (self.scope == "Namespaced"))
            and _listed(attributes.operation, self.operations)
            and _listed(attributes.resource.group, self.groups)
            and _listed(attributes.resource.version, self.versions)
            and any(
                resource in ("*", attributes.resource.resource) and sub in ("*", attributes.subresource)
                for resource, sub in self.resources
            )
        )

    def means(self, attributes: RequestAttributes, name: str) -> bool:
        """Report whether the rule matches the request for an object of this name."""
        return self.matches(attributes) and (not self.names or name in self.names)


def _listed(value: str, allowed: frozenset[str]) -> bool:
    return "*" in allowed or value in allowed


def rules_of(trees: Sequence[JsonObject] | None) -> tuple[RuleWithOperations, ...]:
    """Parse validated rules."""
    return tuple(RuleWithOperations.of(tree) for tree in trees or ())


# ------------------------------------------------------------------ selectors
def selector_of(tree: JsonObject | None) -> LabelRequirements:
    """Return a validated label selector; None selects everything."""
    selector = {key: value for key, value in (tree or {}).items() if value is not None}
    return LabelRequirements.of(msgspec.convert(selector, LabelSelector))


def selects_object(selector: LabelRequirements, attributes: Attributes) -> bool:
    """Report whether the selector matches the new or the old object."""
    return not selector.requirements or any(
        obj is not None and "metadata" in obj and selector.matches(obj["metadata"].get("labels") or {})
        for obj in (attributes.obj, attributes.old)
    )


def selected_labels(attributes: Attributes) -> JsonObject | None:
    """Return the labels of the new object of a Namespace write, for namespace selectors; None for other requests."""
    if attributes.resource.resource != "namespaces" or attributes.resource.group or attributes.subresource:
        return None
    if attributes.operation not in ("CREATE", "UPDATE") or attributes.obj is None:
        return None
    labels: JsonObject = attributes.obj["metadata"].get("labels") or {}
    return labels


def in_some_namespace(attributes: Attributes) -> bool:
    """Report whether a namespace selector applies; it always matches requests without a namespace."""
    return bool(attributes.namespace) or (
        attributes.resource.resource == "namespaces" and not attributes.resource.group
    )
