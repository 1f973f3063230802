"""Columns of the group discovery.k8s.io.

Upstream: pkg/printers/internalversion/printers.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.printing import UNSET, KindPrinter, age, joined, kind_printers, name_of
from opsdk.structured_merge.value import JsonObject, JsonValue


def _slice(obj: JsonObject, now: float) -> list[JsonValue]:
    ports = [str(p["port"] if p.get("port") is not None else p.get("name", "*")) for p in obj.get("ports") or ()]
    addresses = [a for e in obj.get("endpoints") or () for a in e.get("addresses") or ()]
    text = (joined(items) or UNSET for items in (ports, addresses))
    return [name_of(obj), obj.get("addressType", ""), *text, age(obj, now)]


PRINTERS: Mapping[str, KindPrinter] = kind_printers(
    {
        "discovery.k8s.io/endpointslices": _slice,
    }
)
"""By ``group/resource``."""
