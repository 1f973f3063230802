"""Persistent volumes: sets the time of the last phase transition.

Upstream: pkg/registry/core/persistentvolume/strategy.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Sequence

from envtest.data.resources import ServedResourceRow
from envtest.groups.common.strategy import GeneratedStrategy
from envtest.groups.core.validation.persistent_volume import (
    validate_persistent_volume,
    validate_persistent_volume_update,
)
from envtest.groups.core.warnings import volume_warnings
from opsdk.apiserver.registry.context import Context
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_SINCE = "lastPhaseTransitionTime"


class PersistentVolumeStrategy(GeneratedStrategy):
    """Validates PersistentVolumes, and records when their phase changes."""

    def __init__(self, row: ServedResourceRow, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """Set the phase Pending and its transition time."""
        super().prepare_for_create(context, obj)
        obj["status"] = {"phase": "Pending", _SINCE: context.timestamp()}

    def prepare_status(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Set the transition time of a new phase unless the client does."""
        status, before = obj.setdefault("status", {}), old.get("status") or {}
        since = status.get(_SINCE)
        if status.get("phase", "") == before.get("phase", ""):
            if since is None and before.get(_SINCE) is not None:
                status[_SINCE] = before[_SINCE]
        elif since is None or since == before.get(_SINCE):
            status[_SINCE] = context.timestamp()

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """Validate capacity, access modes and source."""
        return list(validate_persistent_volume(obj))

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate an update: the source is immutable."""
        return list(validate_persistent_volume_update(obj, old))

    def warnings(self, context: Context, obj: JsonObject, old: JsonObject | None) -> Sequence[str]:
        return list(volume_warnings(obj, old))
