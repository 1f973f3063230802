"""Columns of the group storagemigration.k8s.io.

Upstream: pkg/printers/internalversion/printers.go (v1.37)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.printing import KindPrinter, kind_printers, name_of, spec_of
from opsdk.structured_merge.value import JsonObject, JsonValue


def _migration(obj: JsonObject, now: float) -> list[JsonValue]:
    resource = spec_of(obj).get("resource") or {}
    group = resource.get("group", "")
    return [name_of(obj), f"{resource.get('resource', '')}{f'.{group}' if group else ''}"]


PRINTERS: Mapping[str, KindPrinter] = kind_printers({"storagemigration.k8s.io/storageversionmigrations": _migration})
"""By ``group/resource``."""
