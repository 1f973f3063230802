"""Columns of the group policy.

Upstream: pkg/printers/internalversion/printers.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.printing import KindPrinter, age, kind_printers, name_of, spec_of, status_of
from opsdk.structured_merge.value import JsonObject, JsonValue


def _budget(obj: JsonObject, now: float) -> list[JsonValue]:
    spec = spec_of(obj)
    bounds = ("N/A" if spec.get(k) is None else str(spec[k]) for k in ("minAvailable", "maxUnavailable"))
    return [name_of(obj), *bounds, status_of(obj).get("disruptionsAllowed", 0), age(obj, now)]


PRINTERS: Mapping[str, KindPrinter] = kind_printers(
    {
        "policy/poddisruptionbudgets": _budget,
    }
)
"""By ``group/resource``."""
