"""Columns of the group resource.k8s.io.

Upstream: pkg/printers/internalversion/printers.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envtest.groups.common.printing import UNSET, KindPrinter, age, kind_printers, meta_of, name_of, spec_of, status_of
from opsdk.structured_merge.value import JsonObject, JsonValue


def _claim_states(obj: JsonObject) -> Iterator[str]:
    status = status_of(obj)
    if meta_of(obj).get("deletionTimestamp"):
        yield "deleted"
    if status.get("allocation") is None:
        if not meta_of(obj).get("deletionTimestamp"):
            yield "pending"
        return
    yield "allocated"
    if status.get("reservedFor"):
        yield "reserved"


def _device_slice(obj: JsonObject, now: float) -> list[JsonValue]:
    spec = spec_of(obj)
    pool = (spec.get("pool") or {}).get("name", "")
    return [name_of(obj), spec.get("nodeName") or UNSET, spec.get("driver", ""), pool, age(obj, now)]


def _name_and_age(obj: JsonObject, now: float) -> list[JsonValue]:
    return [name_of(obj), age(obj, now)]


PRINTERS: Mapping[str, KindPrinter] = kind_printers(
    {
        "resource.k8s.io/resourceclaims": lambda obj, now: [name_of(obj), ",".join(_claim_states(obj)), age(obj, now)],
        "resource.k8s.io/resourceclaimtemplates": _name_and_age,
        "resource.k8s.io/deviceclasses": _name_and_age,
        "resource.k8s.io/resourceslices": _device_slice,
    }
)
"""By ``group/resource``."""
