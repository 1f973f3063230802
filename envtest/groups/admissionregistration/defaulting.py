"""Defaults of the group admissionregistration.k8s.io. Each function fills in an object that the caller owns.

Upstream: pkg/apis/admissionregistration/v1/defaults.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.defaulting import Defaults, put
from opsdk.structured_merge.value import JsonObject


def webhook_configuration(obj: JsonObject) -> None:
    """Default webhooks: fail, equivalent match, ten seconds, every object."""
    for hook in obj.get("webhooks") or ():
        put(hook, failurePolicy="Fail", matchPolicy="Equivalent", timeoutSeconds=10)
        put(hook, namespaceSelector={}, objectSelector={})
        if obj.get("kind") == "MutatingWebhookConfiguration":
            put(hook, reinvocationPolicy="Never")
        service_ref = (hook.get("clientConfig") or {}).get("service")
        if isinstance(service_ref, dict):
            put(service_ref, port=443)
        for rule in hook.get("rules") or ():
            put(rule, scope="*")


def policy(obj: JsonObject) -> None:
    """Default policies: fail, equivalent match, every object."""
    spec = obj.setdefault("spec", {})
    put(spec, failurePolicy="Fail")
    constraints = spec.get("matchConstraints")
    if isinstance(constraints, dict):
        match_resources(constraints)


def policy_binding(obj: JsonObject) -> None:
    """Default ``matchResources`` of a binding as those of a policy."""
    resources = (obj.get("spec") or {}).get("matchResources")
    if isinstance(resources, dict):
        match_resources(resources)


def match_resources(match: JsonObject) -> None:
    """Default the match policy, the selectors and the scope of each rule."""
    put(match, matchPolicy="Equivalent", namespaceSelector={}, objectSelector={})
    for key in ("resourceRules", "excludeResourceRules"):
        for rule in match.get(key) or ():
            put(rule, scope="*")


DEFAULTS: Mapping[str, Defaults] = {
    "admissionregistration.k8s.io/validatingwebhookconfigurations": webhook_configuration,
    "admissionregistration.k8s.io/mutatingwebhookconfigurations": webhook_configuration,
    "admissionregistration.k8s.io/validatingadmissionpolicies": policy,
    "admissionregistration.k8s.io/mutatingadmissionpolicies": policy,
    "admissionregistration.k8s.io/validatingadmissionpolicybindings": policy_binding,
    "admissionregistration.k8s.io/mutatingadmissionpolicybindings": policy_binding,
}
"""By ``group/resource``."""
