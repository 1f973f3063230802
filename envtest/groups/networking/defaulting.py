"""Defaults of the group networking.k8s.io. Each function fills in an object that the caller owns.

Upstream: pkg/apis/networking/v1/defaults.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.defaulting import Defaults, put
from opsdk.structured_merge.value import JsonObject


def network_policy(obj: JsonObject) -> None:
    """Default the policy types: Ingress, and Egress if there are egress rules."""
    spec = obj.setdefault("spec", {})
    for rules in ("ingress", "egress"):
        for rule in spec.get(rules) or ():
            for port in rule.get("ports") or ():
                put(port, protocol="TCP")
    put(spec, policyTypes=["Ingress", "Egress"] if spec.get("egress") else ["Ingress"])


def ingress_class(obj: JsonObject) -> None:
    """Default the scope of parameters to Cluster."""
    parameters = (obj.get("spec") or {}).get("parameters")
    if isinstance(parameters, dict):
        put(parameters, scope="Cluster")


DEFAULTS: Mapping[str, Defaults] = {
    "networking.k8s.io/networkpolicies": network_policy,
    "networking.k8s.io/ingressclasses": ingress_class,
}
"""By ``group/resource``."""
