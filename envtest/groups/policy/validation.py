"""Validation of PodDisruptionBudgets.

Upstream: pkg/apis/policy/validation (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator

from envtest.groups.common import validation
from envtest.groups.common.conditions import validate_conditions
from envtest.groups.common.label_selectors import check_label_selector
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject


# ------------------------------------------------------------------ disruption budgets
def validate_budget(obj: JsonObject) -> Iterator[Cause]:
    """Validate a PodDisruptionBudget."""
    spec = obj.get("spec") or {}
    low, high = spec.get("minAvailable"), spec.get("maxUnavailable")
    if low is not None and high is not None:
        rendered = {
            "MinAvailable": low,
            "Selector": spec.get("selector"),
            "MaxUnavailable": high,
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        yield api_errors.invalid_value("spec", rendered, "minAvailable and maxUnavailable cannot be both set")
    for key, value in (("minAvailable", low), ("maxUnavailable", high)):
        if value is not None:
            yield from validation.int_or_percent(value, f"spec.{key}")
            yield from validation.not_more_than_100_percent(value, f"spec.{key}")
    yield from check_label_selector(spec.get("selector") or {}, "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    yield from validation.one_of(
        policy, ("AlwaysAllow", "IfHealthyBudget"), "spec.unhealthyPodEvictionPolicy", optional=True
    )


def validate_budget_status(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate conditions and counts of the status."""
    status = obj.get("status") or {}
    yield from validate_conditions(status.get("conditions") or (), "status.conditions")
    for key in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
        yield from validation.not_negative(status.get(key), f"status.{key}")
