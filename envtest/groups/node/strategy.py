"""Kinds of the group node.k8s.io.

Upstream: pkg/registry/node (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.strategy import KindRules, StrategyFactory, ruled
from envtest.groups.node import validation
from envtest.groups.node.warnings import runtime_warnings

STRATEGIES: Mapping[str, StrategyFactory] = {
    "node.k8s.io/runtimeclasses": ruled(
        KindRules(
            new=validation.validate_runtime, changed=validation.validate_runtime_update, warnings=runtime_warnings
        )
    ),
}
"""By ``group/resource``."""
