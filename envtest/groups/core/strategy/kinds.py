"""The strategy of each kind of the core group."""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.strategy import KindRules, StrategyFactory, ruled
from envtest.groups.core.strategy.config_map import ConfigMapStrategy
from envtest.groups.core.strategy.event import EventStrategy
from envtest.groups.core.strategy.limit_range import LimitRangeStrategy
from envtest.groups.core.strategy.namespace import NamespaceStrategy
from envtest.groups.core.strategy.persistent_volume import PersistentVolumeStrategy
from envtest.groups.core.strategy.persistent_volume_claim import share_source
from envtest.groups.core.strategy.pod import PodStrategy
from envtest.groups.core.strategy.replication_controller import ReplicationControllerStrategy
from envtest.groups.core.strategy.resource_quota import ResourceQuotaStrategy
from envtest.groups.core.strategy.secret import SecretStrategy
from envtest.groups.core.strategy.service import ServiceStrategy
from envtest.groups.core.validation.endpoints import validate_endpoints
from envtest.groups.core.validation.node import validate_node, validate_node_status, validate_node_update
from envtest.groups.core.validation.persistent_volume_claim import (
    validate_claim,
    validate_claim_status,
    validate_claim_update,
)
from envtest.groups.core.validation.pod_template import validate_pod_template
from envtest.groups.core.warnings import account_warnings, claim_warnings, node_warnings, template_warnings

STRATEGIES: Mapping[str, StrategyFactory] = {
    "/namespaces": NamespaceStrategy,
    "/persistentvolumes": PersistentVolumeStrategy,
    "/configmaps": ConfigMapStrategy,
    "/secrets": SecretStrategy,
    "/services": ServiceStrategy,
    "/pods": PodStrategy,
    "/events": EventStrategy,
    "/limitranges": LimitRangeStrategy,
    "/resourcequotas": ResourceQuotaStrategy,
    "/replicationcontrollers": ReplicationControllerStrategy,
    "/persistentvolumeclaims": ruled(
        KindRules(
            new=validate_claim,
            changed=validate_claim_update,
            status=validate_claim_status,
            initial_status={"phase": "Pending"},
            warnings=claim_warnings,
            prepare=lambda _context, obj, old: share_source(obj, old),
        )
    ),
    "/serviceaccounts": ruled(KindRules(new=lambda _: iter(()), warnings=account_warnings)),
    "/podtemplates": ruled(
        KindRules(
            new=lambda obj: validate_pod_template(obj.get("template") or {}, "template"), warnings=template_warnings
        )
    ),
    "/nodes": ruled(
        KindRules(
            warnings=node_warnings,
            new=validate_node,
            changed=validate_node_update,
            status=validate_node_status,
            initial_status=None,
            selectable={
                "spec.unschedulable": lambda obj: str(bool((obj.get("spec") or {}).get("unschedulable"))).lower(),
            },
        )
    ),
    "/endpoints": ruled(KindRules(new=validate_endpoints)),
}
"""By ``group/resource``."""
