"""Conversion of events between the core API, the stored form, and events.k8s.io.

Upstream: pkg/apis/events/v1/conversion.go (v1.36)
"""

from __future__ import annotations

from envtest.codec.field_order import arranger
from envtest.groups.common.model import TypedModel
from opsdk.structured_merge.value import JsonObject

_NEW_OF_OLD = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_OLD_OF_NEW = {new: old for old, new in _NEW_OF_OLD.items()}
_STORED = "v1"
_NEW = "events.k8s.io/v1"


class EventModel(TypedModel):
    """Converts between the core and the events.k8s.io form; the core form is stored."""

    def to_storage(self, obj: JsonObject) -> JsonObject:
        """Convert an event to the core form."""
        stored = obj if obj.get("apiVersion") != _NEW else _renamed(obj, _OLD_OF_NEW, _STORED)
        return {k: v for k, v in stored.items() if v is not None}

    def from_storage(self, obj: JsonObject) -> JsonObject:
        """Convert an event to the form of this model, with the structs that events always have."""
        converted = dict(obj)
        for key, empty in (
            ("source", {}),
            ("firstTimestamp", None),
            ("lastTimestamp", None),
            ("eventTime", None),
            ("reportingComponent", ""),
            ("reportingInstance", ""),
            ("involvedObject", {}),
        ):
            converted.setdefault(key, empty)
        arrange = arranger(self.name, self._typing.types.version)
        if not self.name.startswith("io.k8s.api.events"):
            return dict(arrange(converted))
        for key in ("reportingComponent", "reportingInstance", "involvedObject"):
            if not converted[key]:
                del converted[key]
        return dict(arrange(_renamed(converted, _NEW_OF_OLD, _NEW)))


def in_version(obj: JsonObject, api_version: str) -> JsonObject:
    """Return an event in the form of `api_version`."""
    return _renamed(obj, _NEW_OF_OLD if api_version == _NEW else _OLD_OF_NEW, api_version)


def _renamed(obj: JsonObject, names: dict[str, str], version: str) -> JsonObject:
    renamed = {names.get(key, key): value for key, value in obj.items()}
    renamed["apiVersion"] = version
    series = renamed.get("series")
    if isinstance(series, dict):
        renamed["series"] = dict(series)
    return renamed
