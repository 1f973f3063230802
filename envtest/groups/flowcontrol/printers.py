"""Columns of the group flowcontrol.apiserver.k8s.io.

Upstream: pkg/printers/internalversion/printers.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.printing import NOTHING, KindPrinter, age, condition_of, kind_printers, name_of, spec_of
from opsdk.structured_merge.value import JsonObject, JsonValue


# ------------------------------------------------------------------ flow control
def _flow_schema(obj: JsonObject, now: float) -> list[JsonValue]:
    spec = spec_of(obj)
    return [
        name_of(obj),
        (spec.get("priorityLevelConfiguration") or {}).get("name", ""),
        spec.get("matchingPrecedence", 0),
        NOTHING if spec.get("distinguisherMethod") is None else spec["distinguisherMethod"].get("type", ""),
        age(obj, now),
        (condition_of(obj, "Dangling") or {}).get("status", "?"),
    ]


def _precedence(obj: JsonObject) -> tuple[int, str]:
    return spec_of(obj).get("matchingPrecedence", 0), name_of(obj)


def _priority_level(obj: JsonObject, now: float) -> list[JsonValue]:
    spec = spec_of(obj)
    limited = spec.get("limited") or {}
    queues = (limited.get("limitResponse") or {}).get("queuing") or {}
    return [
        name_of(obj),
        spec.get("type", ""),
        limited.get("nominalConcurrencyShares", NOTHING),
        *(queues.get(key, NOTHING) for key in ("queues", "handSize", "queueLengthLimit")),
        age(obj, now),
    ]


PRINTERS: Mapping[str, KindPrinter] = {
    **kind_printers(
        {
            "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations": _priority_level,
        }
    ),
    "flowcontrol.apiserver.k8s.io/flowschemas": KindPrinter(
        "flowcontrol.apiserver.k8s.io/flowschemas", _flow_schema, order=_precedence
    ),
}
"""By ``group/resource``."""
