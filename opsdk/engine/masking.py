"""Values that differ between two runs of one operator: times, uids, and what the server assigns. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from opsdk.structured_merge.value import JsonObject, JsonValue

__all__ = ["DELETION", "SERVER_SET", "masked", "masked_text", "without_metadata"]

_VARYING: Final = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?"
    r"|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
)
"""Timestamps and UUIDs."""
_ASSIGNED: Final = frozenset({"uid", "resourceVersion", "clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort"})
"""Fields with values that the server assigns."""
SERVER_SET: Final = frozenset({
    "uid",
    "creationTimestamp",
    "resourceVersion",
    "generation",
    "managedFields",
    "selfLink",
})  # fmt: skip
"""Metadata that the server sets."""
DELETION: Final = frozenset({"deletionTimestamp", "deletionGracePeriodSeconds"})
"""Metadata that the server sets when a deletion begins."""
_HEADLESS: Final = ("None", ["None"])
"""Values of the assigned fields that the operator chooses."""
_MASK: Final = "..."


def masked(path: str, value: JsonValue) -> JsonValue:
    """Return the value of a field without what differs between two runs.

    >>> masked("status.since", "2026-01-01T00:00:00Z") == masked("status.since", "2026-01-02T03:04:05Z")
    True
    """
    if path.rpartition(".")[2] in _ASSIGNED and value is not None and value not in _HEADLESS:
        return _MASK
    if isinstance(value, dict):
        return {name: masked(f"{path}.{name}", item) for name, item in value.items()}
    if isinstance(value, list):
        return [masked(path, item) for item in value]
    return masked_text(value) if isinstance(value, str) else value


def without_metadata(obj: JsonObject, names: Collection[str]) -> JsonObject:
    """Return an object without some of its metadata."""
    return {**obj, "metadata": {name: value for name, value in obj["metadata"].items() if name not in names}}


def masked_text(text: str) -> str:
    """Return a text without timestamps and UUIDs."""
    return _VARYING.sub(_MASK, text)
