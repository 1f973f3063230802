# ruff: noqa: ARG002 - hooks take what the store gives, whether a kind needs it or not
"""Persistent volumes: when their phase became what it is."""

from __future__ import annotations

from collections.abc import Sequence

from envtest.kinds.base import TableStrategy
from envtest.kinds.kind_warnings import volume_warnings
from envtest.kinds.persistent_rules import validate_volume, validate_volume_update
from envtest.tables.load import Row
from opsdk.apiserver.registry.context import Context
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_SINCE = "lastPhaseTransitionTime"


class PersistentVolumeStrategy(TableStrategy):
    """See the module."""

    def __init__(self, row: Row, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """Pending, from now on."""
        super().prepare_for_create(context, obj)
        obj["status"] = {"phase": "Pending", _SINCE: context.timestamp()}

    def prepare_status(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """A new phase begins now, unless somebody says when."""
        status, before = obj.setdefault("status", {}), old.get("status") or {}
        since = status.get(_SINCE)
        if status.get("phase", "") == before.get("phase", ""):
            if since is None and before.get(_SINCE) is not None:
                status[_SINCE] = before[_SINCE]
        elif since is None or since == before.get(_SINCE):
            status[_SINCE] = context.timestamp()

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """Size, use, place."""
        return list(validate_volume(obj))

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """The place stays."""
        return list(validate_volume_update(obj, old))

    def warnings(self, context: Context, obj: JsonObject, old: JsonObject | None) -> Sequence[str]:
        """See `volume_warnings`."""
        return list(volume_warnings(obj, old))
