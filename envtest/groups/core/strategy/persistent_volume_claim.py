"""Persistent volume claims: two fields for one source.

Upstream: pkg/registry/core/persistentvolumeclaim/strategy.go (v1.36)
"""

from __future__ import annotations

from typing import Final

from opsdk.structured_merge.value import JsonObject

_SOURCES: Final = frozenset({("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot")})


# ------------------------------------------------------------------ data sources
def share_source(obj: JsonObject, before: JsonObject | None) -> None:
    """Copy ``dataSource`` and ``dataSourceRef`` to each other, if ``dataSource`` allows the kind.

    The feature gate for sources in other namespaces is off.
    """
    spec = obj.get("spec") or {}
    there = ((before or {}).get("spec") or {}).get("dataSourceRef")
    if there is None and (spec.get("dataSourceRef") or {}).get("namespace"):
        del spec["dataSourceRef"]
    old, new = spec.get("dataSource"), spec.get("dataSourceRef")
    if old is not None and (old.get("apiGroup") or "", old.get("kind")) not in _SOURCES:
        spec.pop("dataSource")
        old = None
    if old is not None and new is None:
        spec["dataSourceRef"] = dict(old)
    elif new is not None and old is None and not new.get("namespace"):
        spec["dataSource"] = {key: value for key, value in new.items() if key != "namespace"}
