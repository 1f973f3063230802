"""Kinds of the group policy.

Upstream: pkg/registry/policy (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.strategy import KindRules, StrategyFactory, ruled
from envtest.groups.policy import validation
from opsdk.apimachinery.validation import path_segment

STRATEGIES: Mapping[str, StrategyFactory] = {
    "policy/poddisruptionbudgets": ruled(
        KindRules(
            new=validation.validate_budget,
            status=validation.validate_budget_status,
            name=path_segment,
            initial_status=dict.fromkeys(("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"), 0),
        )
    ),
}
"""By ``group/resource``."""
