"""Kinds of the group flowcontrol.apiserver.k8s.io.

Upstream: pkg/registry/flowcontrol (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.strategy import KindRules, StrategyFactory, ruled
from envtest.groups.flowcontrol import validation

STRATEGIES: Mapping[str, StrategyFactory] = {
    "flowcontrol.apiserver.k8s.io/flowschemas": ruled(
        KindRules(new=validation.validate_flow_schema, status=validation.validate_flow_status)
    ),
    "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations": ruled(
        KindRules(new=validation.validate_priority_level, status=validation.validate_flow_status)
    ),
}
"""By ``group/resource``."""
