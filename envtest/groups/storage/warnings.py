"""Warnings about storage classes.

Upstream: pkg/api/storage/util.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator

from envtest.groups.core.warnings import OLD_LABELS
from opsdk.structured_merge.value import JsonObject


def class_warnings(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    """Warn of deprecated node labels in the topology of a StorageClass."""
    for index, term in enumerate(obj.get("allowedTopologies") or ()):
        for number, expression in enumerate(term.get("matchLabelExpressions") or ()):
            if expression.get("key") in OLD_LABELS:
                key_path = f"allowedTopologies[{index}].matchLabelExpressions[{number}].key"
                yield f"{key_path}: {OLD_LABELS[expression['key']]}"
