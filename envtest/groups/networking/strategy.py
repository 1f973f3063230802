"""Kinds of the group networking.k8s.io.

Upstream: pkg/registry/networking (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.strategy import KindRules, StrategyFactory, ruled
from envtest.groups.networking import validation
from envtest.groups.networking.warnings import ingress_warnings, network_policy_warnings

STRATEGIES: Mapping[str, StrategyFactory] = {
    "networking.k8s.io/ingressclasses": ruled(
        KindRules(new=validation.validate_ingress_class, changed=validation.validate_ingress_class_update)
    ),
    "networking.k8s.io/ipaddresses": ruled(
        KindRules(
            new=validation.validate_address, changed=validation.validate_address_update, name=validation.address_name
        )
    ),
    "networking.k8s.io/servicecidrs": ruled(
        KindRules(new=validation.validate_blocks, changed=validation.validate_blocks_update)
    ),
    "networking.k8s.io/networkpolicies": ruled(
        KindRules(new=validation.validate_network_policy, warnings=network_policy_warnings)
    ),
    "networking.k8s.io/ingresses": ruled(
        KindRules(
            new=validation.validate_ingress,
            changed=lambda obj, _old: validation.validate_ingress_spec(obj.get("spec") or {}),
            status=validation.validate_ingress_status,
            initial_status={"loadBalancer": {}},
            warnings=ingress_warnings,
        )
    ),
}
"""By ``group/resource``."""
