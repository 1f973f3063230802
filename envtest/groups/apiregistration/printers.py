"""Columns of the group apiregistration.k8s.io.

Upstream: pkg/printers/internalversion/printers.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.printing import KindPrinter, age, condition_of, kind_printers, name_of, spec_of
from opsdk.structured_merge.value import JsonObject, JsonValue


def _api_service(obj: JsonObject, now: float) -> list[JsonValue]:
    service = spec_of(obj).get("service")
    where = "Local" if service is None else f"{service.get('namespace', '')}/{service.get('name', '')}"
    condition = condition_of(obj, "Available") or {}
    word = condition.get("status", "Unknown")
    if word != "True" and condition.get("reason"):
        word = f"{word} ({condition['reason']})"
    return [name_of(obj), where, word, age(obj, now)]


PRINTERS: Mapping[str, KindPrinter] = kind_printers(
    {
        "apiregistration.k8s.io/apiservices": _api_service,
    }
)
"""By ``group/resource``."""
