"""Columns of the group autoscaling, and of scales.

Upstream: pkg/printers/internalversion/printers.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from envtest.groups.autoscaling.conversion import to_new
from envtest.groups.common.printing import (
    NOTHING,
    UNKNOWN,
    UNSET,
    KindPrinter,
    age,
    kind_printers,
    name_of,
    spec_of,
    status_of,
)
from opsdk.structured_merge.value import JsonObject, JsonValue

_SOURCES = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
_NIL = "<nil>"


def _metric(spec: JsonObject, status: JsonObject) -> str:
    """Return the current and the target value of a metric."""
    key = _SOURCES.get(spec.get("type", ""))
    if key is None:
        return "<unknown type>"
    about, reported = spec.get(key) or {}, status.get(key)
    target, current = about.get("target") or {}, (reported or {}).get("current") or {}
    average = target.get("averageValue")

    def value(name: str) -> str:
        """Return the reported value; ``<unknown>`` without a report."""
        return UNKNOWN if reported is None else str(current.get(name, _NIL))

    if "name" in about:
        if average is not None:
            return f"{about['name']}: {value('averageValue')}/{average}"
        used, desired = current.get("averageUtilization"), target.get("averageUtilization")
        percentage = UNKNOWN if used is None else f"{used}%"
        return f"{about['name']}: {percentage}/{'<auto>' if desired is None else f'{desired}%'}"
    if key == "pods":
        return f"{value('averageValue')}/{target.get('averageValue', _NIL)}"
    if average is not None:
        return f"{current.get('averageValue', UNKNOWN)}/{average} (avg)"
    return f"{value('value')}/{target.get('value', _NIL)}"


def _metrics(specs: Sequence[JsonObject], statuses: Sequence[JsonObject]) -> str:
    texts = [_metric(spec, statuses[i] if i < len(statuses) else {}) for i, spec in enumerate(specs)]
    more = f" + {len(texts) - 2} more..." if len(texts) > 2 else ""
    return ", ".join(texts[:2]) + more if texts else NOTHING


def _autoscaler(obj: JsonObject, now: float) -> list[JsonValue]:
    new = to_new(obj) if obj.get("apiVersion") == "autoscaling/v1" else obj
    spec, status = spec_of(new), status_of(new)
    ref = spec.get("scaleTargetRef") or {}
    return [
        name_of(new),
        f"{ref.get('kind', '')}/{ref.get('name', '')}",
        _metrics(spec.get("metrics") or (), status.get("currentMetrics") or ()),
        str(spec.get("minReplicas", UNSET)),
        spec.get("maxReplicas", 0),
        status.get("currentReplicas", 0),
        age(new, now),
    ]


# ------------------------------------------------------------------ roles and hooks
def _scale(obj: JsonObject, now: float) -> list[JsonValue]:
    return [name_of(obj), spec_of(obj).get("replicas", 0), status_of(obj).get("replicas", 0), age(obj, now)]


PRINTERS: Mapping[str, KindPrinter] = kind_printers(
    {
        "autoscaling/horizontalpodautoscalers": _autoscaler,
        "/scale": _scale,
    }
)
"""By ``group/resource``."""
