"""Warnings about runtime classes.

Upstream: pkg/api/node/util.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator

from envtest.groups.core.warnings import OLD_LABELS
from opsdk.structured_merge.value import JsonObject


def runtime_warnings(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    """Warn of deprecated node labels in a RuntimeClass."""
    for key in sorted((obj.get("scheduling") or {}).get("nodeSelector") or {}):
        if key in OLD_LABELS:
            yield f"scheduling.nodeSelector[{key}]: {OLD_LABELS[key]}"
