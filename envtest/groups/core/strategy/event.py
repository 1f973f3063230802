"""Events: one set of objects, two APIs.

Upstream: pkg/registry/core/event/strategy.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Sequence

from envtest.data.resources import ServedResourceRow
from envtest.groups.common.strategy import GeneratedStrategy
from envtest.groups.core.validation.event import IMMUTABLE_FIELDS, validate_event, validate_new_event, validate_series
from opsdk.apimachinery import validation
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject, JsonValue


def _involved(key: str) -> JsonValue:
    return lambda obj: str((obj.get("involvedObject") or {}).get(key, ""))


class EventStrategy(GeneratedStrategy):
    """The strategy of Events of both APIs; events.k8s.io is strict."""

    def __init__(self, row: ServedResourceRow, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)
        self._new = bool(row.info.group)
        involved = "regarding" if self._new else "involvedObject"
        keys = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        self.selectable = {
            **{f"{involved}.{key}": _involved(key) for key in keys},
            "reason": lambda obj: str(obj.get("reason", "")),
            "type": lambda obj: str(obj.get("type", "")),
            **(_NEW_SELECTABLE if self._new else _OLD_SELECTABLE),
        }

    def name_rule(self, name: str, *, prefix: bool = False) -> Sequence[str]:
        """Check that the name is a path segment."""
        return validation.path_segment(name, prefix=prefix)

    def error_group(self, group: str) -> str:
        """Return the core group: errors of both APIs name the core kind."""
        return ""

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """Validate an event; events.k8s.io requires its new fields and forbids the old ones."""
        causes = list(validate_event(obj, new=self._new))
        if self._new:
            causes.extend(validate_new_event(obj))
            causes.extend(validate_series(obj.get("series")))
        return causes

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate an update: events.k8s.io allows changes of the series only."""
        causes = list(validate_event(obj, new=self._new))
        if not self._new:
            return causes
        if obj.get("series") != old.get("series"):
            causes.extend(validate_series(obj.get("series")))
        causes.extend(
            api_errors.invalid_value(field_name, _shown(obj.get(key)), "field is immutable")
            for key, field_name in IMMUTABLE_FIELDS
            if (obj.get(key) or None) != (old.get(key) or None)
        )
        return causes


def _reporting(obj: JsonObject) -> str:
    return str(obj.get("reportingComponent", ""))


_OLD_SELECTABLE = {
    "reportingComponent": _reporting,
    "source": lambda obj: str((obj.get("source") or {}).get("component") or _reporting(obj)),
}
_NEW_SELECTABLE = {"reportingController": _reporting}


def _shown(value: JsonValue) -> JsonValue:
    return "" if value is None else value
