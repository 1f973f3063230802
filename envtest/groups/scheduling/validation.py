"""Validation of PriorityClasses.

Upstream: pkg/apis/scheduling/validation (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator

from envtest.groups.common import validation
from envtest.groups.scheduling.system_classes import HIGHEST, POLICIES, PREFIX, SYSTEM
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject


def validate_priority_class(obj: JsonObject) -> Iterator[Cause]:
    """Validate name, value and preemption policy."""
    name = obj["metadata"].get("name", "")
    if name.startswith(PREFIX):
        if name not in SYSTEM:
            reason = f"{name} is not a known system priority class"
        elif obj.get("value", 0) != SYSTEM[name][0]:
            reason = f"value of {name} PriorityClass must be {SYSTEM[name][0]}"
        else:
            reason = f"globalDefault of {name} PriorityClass must be false" if obj.get("globalDefault") else ""
        if reason:
            text = f"priority class names with '{PREFIX}' prefix are reserved for system use only. error: {reason}"
            yield api_errors.not_allowed("metadata.name", text)
    elif obj.get("value", 0) > HIGHEST:
        text = f"maximum allowed value of a user defined priority is {HIGHEST}"
        yield api_errors.not_allowed("value", text)
    if obj.get("preemptionPolicy") is not None:
        yield from validation.one_of(obj["preemptionPolicy"], POLICIES, "preemptionPolicy")


def validate_priority_class_update(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate an update: value and preemption policy are immutable."""
    if obj.get("value", 0) != old.get("value", 0):
        yield api_errors.not_allowed("value", "may not be changed in an update.")
    yield from validation.immutable_field(obj, old, "preemptionPolicy")
