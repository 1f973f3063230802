"""Columns of the group node.k8s.io.

Upstream: pkg/printers/internalversion/printers.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.printing import age, kind_printers, name_of
from opsdk.apiserver.resources import Printer
from opsdk.structured_merge.value import JsonObject, JsonValue


# ------------------------------------------------------------------ the rest
def _runtime(obj: JsonObject, now: float) -> list[JsonValue]:
    return [name_of(obj), obj.get("handler", ""), age(obj, now)]


PRINTERS: Mapping[str, Printer] = kind_printers(
    {
        "node.k8s.io/runtimeclasses": _runtime,
    }
)
"""By ``group/resource``."""
