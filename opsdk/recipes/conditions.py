"""Conditions in the status of an object.

Upstream: k8s.io/apimachinery/pkg/api/meta/conditions.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from opsdk.aio.clock import utc_now
from opsdk.apimachinery.meta import Condition
from opsdk.apimachinery.time import whole_seconds
from opsdk.client.activity import record_conditions


def set_condition(
    conditions: list[Condition],
    type: str,
    status: str | bool,
    reason: str,
    message: str = "",
    *,
    now: datetime | None = None,
    observed_generation: int = 0,
) -> bool:
    """Set one condition in place. Returns True if anything changed.

    In a reconcile, opsdk then writes no condition of this type: see ``ready_condition`` of `ControllerOptions`.

    Args:
        conditions: the list in the object's status.
        type: the condition's type.
        status: ``"True"``, ``"False"``, ``"Unknown"`` or a bool.
        reason: one CamelCase word.
        message: a sentence.
        now: the transition time, set when the status changes; default: the time of the event loop's clock.
        observed_generation: the generation that the condition is based on.

    >>> from datetime import UTC
    >>> conditions: list[Condition] = []
    >>> set_condition(conditions, "Ready", True, "AllGood", now=datetime(2026, 1, 1, tzinfo=UTC))
    True
    >>> set_condition(conditions, "Ready", True, "AllGood", now=datetime(2026, 1, 2, tzinfo=UTC))
    False
    """
    record_conditions(type)
    condition = Condition(
        type=type, status=str(status), reason=reason, message=message, observed_generation=observed_generation
    )
    return place_condition(conditions, condition, now=now)


def place_condition(conditions: list[Condition], condition: Condition, *, now: datetime | None = None) -> bool:
    """Set one condition as `set_condition` does, for opsdk's own conditions: it is not the reconciler's.

    The transition time of `condition` is set.
    """
    existing = get_condition(conditions, condition.type)
    if existing is not None and existing.status == condition.status:
        condition.last_transition_time = existing.last_transition_time
    else:
        condition.last_transition_time = whole_seconds(now or utc_now())
    if existing is None:
        conditions.append(condition)
        return True
    if existing == condition:
        return False
    conditions[conditions.index(existing)] = condition
    return True


def get_condition(conditions: Sequence[Condition], type: str) -> Condition | None:
    """Return the condition of a type, or None."""
    return next((c for c in conditions if c.type == type), None)


def is_condition_true(conditions: Sequence[Condition], type: str) -> bool:
    """Whether the condition exists and its status is True."""
    condition = get_condition(conditions, type)
    return condition is not None and condition.status == "True"
