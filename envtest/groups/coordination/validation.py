"""Validation of leases.

Upstream: pkg/apis/coordination/validation/validation.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator

from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject


def validate_lease(obj: JsonObject) -> Iterator[Cause]:
    """Validate that durations are positive and transitions are not negative."""
    spec = obj.get("spec") or {}
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        yield api_errors.invalid_value("spec.leaseDurationSeconds", duration, "must be greater than 0")
    if transitions is not None and transitions < 0:
        yield api_errors.invalid_value("spec.leaseTransitions", transitions, "must be greater than or equal to 0")
