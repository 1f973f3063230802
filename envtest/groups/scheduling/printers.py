"""Columns of the group scheduling.k8s.io.

Upstream: pkg/printers/internalversion/printers.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.printing import KindPrinter, age, kind_printers, name_of
from opsdk.structured_merge.value import JsonObject, JsonValue


def _priority(obj: JsonObject, now: float) -> list[JsonValue]:
    default, policy = bool(obj.get("globalDefault")), obj.get("preemptionPolicy", "")
    return [name_of(obj), obj.get("value", 0), default, age(obj, now), policy]


PRINTERS: Mapping[str, KindPrinter] = kind_printers(
    {
        "scheduling.k8s.io/priorityclasses": _priority,
    }
)
"""By ``group/resource``."""
