"""The QoS class of a pod. Pure.

Upstream: pkg/apis/core/helper/qos/qos.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final

from envtest.groups.common.pod_spec import containers
from opsdk.apimachinery.quantity import Quantity
from opsdk.structured_merge.value import JsonObject

_COUNTED: Final = ("cpu", "memory")


def qos_class(spec: JsonObject) -> str:
    """Return the QoS class: Guaranteed, Burstable or BestEffort."""
    parts = (spec,) if spec.get("resources") is not None else containers(spec)
    requests, capped, everywhere = _totals([part.get("resources") or {} for part in parts])
    if not requests and not capped:
        return "BestEffort"
    return "Guaranteed" if everywhere and requests == capped else "Burstable"


def _totals(requirements: Iterable[JsonObject]) -> tuple[dict[str, Decimal], dict[str, Decimal], bool]:
    """Sums of requests and of limits, and whether every part has limits of both."""
    requests: dict[str, Decimal] = {}
    capped: dict[str, Decimal] = {}
    everywhere = True
    for resources in requirements:
        _add(requests, resources.get("requests") or {})
        everywhere &= _add(capped, resources.get("limits") or {}) == len(_COUNTED)
    return requests, capped, everywhere


def _add(total: dict[str, Decimal], amounts: Mapping[str, str]) -> int:
    """How many of the amounts counted."""
    values = {name: Quantity(amounts[name]).value for name in _COUNTED if name in amounts}
    for name, value in values.items():
        if value > 0:
            total[name] = total.get(name, Decimal(0)) + value
    return sum(value > 0 for value in values.values())
