"""Matches a request with policies, bindings and params.

Upstream: k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.matching import selects_object
from opsdk.apiserver.admission.policies.params import ConfigurationError, FindParams, collect, source_of
from opsdk.apiserver.admission.policies.policy_source import AdmissionPolicy, MatchCriteria, PolicyBinding, PolicyHook
from opsdk.apiserver.admission.versioned_attributes import Equivalents, GetNamespace, VersionedAttributesAccessor
from opsdk.apiserver.auth.authorization import Authorizer
from opsdk.apiserver.resources import InstalledResource
from opsdk.errors import ApiError
from opsdk.structured_merge.value import JsonObject


class PolicyDependencies(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the server that policies use."""

    equivalents: Equivalents
    namespace: GetNamespace
    params: FindParams
    authorizer: Authorizer


class PolicyInvocation(msgspec.Struct, frozen=True):
    """A policy that matches a request, with its binding, params and version."""

    policy: AdmissionPolicy
    binding: PolicyBinding
    params: JsonObject | None
    served: InstalledResource

    @property
    def key(self) -> str:
        """A key that is unique among the matches of one request."""
        meta = (self.params or {}).get("metadata") or {}
        return f"{self.policy.name}/{self.binding.name}/{meta.get('namespace', '')}/{meta.get('name', '')}"


class PolicyFailure(msgspec.Struct, frozen=True):
    """A failure of a policy or of one of its bindings."""

    policy: AdmissionPolicy
    binding: PolicyBinding | None
    message: str
    reason: str = ""


class MatchedPolicies(msgspec.Struct):
    """The matches of a request, and the failures of matching."""

    invocations: list[PolicyInvocation] = msgspec.field(default_factory=list)
    failures: list[PolicyFailure] = msgspec.field(default_factory=list)


async def match_policies(
    attributes: Attributes, hooks: Sequence[PolicyHook], ports: PolicyDependencies
) -> MatchedPolicies:
    """Match all policies with the request; omit failures of policies with failurePolicy Ignore."""
    views, choice = VersionedAttributesAccessor(attributes, ports.equivalents, ports.namespace), MatchedPolicies()
    for one in hooks:
        try:
            served = matched(views, attributes, one.policy.criteria)
            if served is None:
                continue
            source = source_of(one.policy, ports.params)
        except (ConfigurationError, ApiError) as error:
            _fail(choice, one.policy, None, f"failed to configure policy: {error}")
            continue
        for binding in one.bindings:
            try:
                if matched(views, attributes, binding.criteria) is None:
                    continue
                param_objects = await collect(source, binding, attributes.namespace)
            except (ConfigurationError, ApiError) as error:
                _fail(choice, one.policy, binding, f"failed to configure binding: {error}")
                continue
            choice.invocations.extend(PolicyInvocation(one.policy, binding, params, served) for params in param_objects)
    return choice


def _fail(result: MatchedPolicies, policy: AdmissionPolicy, binding: PolicyBinding | None, message: str) -> None:
    if not policy.ignore_failures:
        result.failures.append(PolicyFailure(policy, binding, message))


def matched(
    views: VersionedAttributesAccessor, attributes: Attributes, criteria: MatchCriteria
) -> InstalledResource | None:
    """Return the version that the criteria match, or None.

    Raises:
        ApiError: the namespace does not exist.
    """
    if not selects_object(criteria.objects, attributes):
        return None
    if views.matched_resource(criteria.excluded, equivalent=criteria.equivalent) is not None:
        return None
    served = attributes.served
    if criteria.rules:
        served_kinds = views.matched_resource(criteria.rules, equivalent=criteria.equivalent)
        if served_kinds is None:
            return None
        served = served_kinds
    return served if views.selects_namespace(criteria.namespaces) else None


def namespace_of(attributes: Attributes, ports: PolicyDependencies) -> JsonObject | None:
    """Return the request's Namespace object; None for cluster-scoped requests and for namespaces."""
    of_namespace = attributes.kind.kind == "Namespace" and attributes.kind.version == "v1" and not attributes.kind.group
    return ports.namespace(attributes.namespace) if attributes.namespace and not of_namespace else None
