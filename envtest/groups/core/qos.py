"""The QoS class of a pod. Pure.

Upstream: pkg/apis/core/helper/qos/qos.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from envtest.groups.common.pod_spec import containers
from opsdk.apimachinery.quantity import Quantity
from opsdk.structured_merge.value import JsonObject

_COUNTED: Final = ("cpu", "memory")


def qos_class(spec: JsonObject) -> str:
    """Return the QoS class: Guaranteed, Burstable or BestEffort."""
    parts = (spec,) if spec.get("resources") is not None else containers(spec)
    requests: dict[str, Decimal] = {}
    limits: dict[str, Decimal] = {}
    all_limited = True
    for part in parts:
        resources = part.get("resources")
        if not resources:
            all_limited = False
            continue
        _add(requests, resources.get("requests") or {})
        all_limited &= _add(limits, resources.get("limits") or {}) == len(_COUNTED)
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if all_limited and requests == limits else "Burstable"


def _add(total: dict[str, Decimal], amounts: Mapping[str, str]) -> int:
    """Add compute resources to the total, and return how many were counted."""
    values = {name: Quantity(amounts[name]).value for name in _COUNTED if name in amounts}
    for name, value in values.items():
        if value > 0:
            total[name] = total.get(name, Decimal(0)) + value
    return sum(value > 0 for value in values.values())
