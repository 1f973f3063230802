"""Validation of events, in the core API and in events.k8s.io.

Upstream: pkg/apis/core/validation/events.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator

from opsdk.apimachinery import validation
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_LIMITED = (
    ("reportingInstance", "repotingIntance", 128),
    ("action", "action", 128),
    ("reason", "reason", 128),
)
"""Required fields with their maximum length; upstream misspells the first one in the length error."""
_NOTE_LIMIT = 1024
_OLD_STYLE = ("firstTimestamp", "lastTimestamp", "count", "source")
IMMUTABLE_FIELDS = (
    ("involvedObject", "involvedObject"),
    ("reason", "reason"),
    ("message", "message"),
    ("source", "source"),
    ("firstTimestamp", "firstTimestamp"),
    ("lastTimestamp", "lastTimestamp"),
    ("count", "count"),
    ("reason", "reason"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("action", "action"),
    ("related", "related"),
    ("reportingComponent", "reportingController"),
    ("reportingInstance", "reportingInstance"),
)
"""Immutable fields in events.k8s.io: the stored key, and the name in messages. Upstream checks the reason twice."""


def validate_event(obj: JsonObject, *, new: bool) -> Iterator[Cause]:
    """Validate an event; `new` is True for events.k8s.io."""
    namespace = obj["metadata"].get("namespace", "")
    involved = (obj.get("involvedObject") or {}).get("namespace", "")
    mismatch = api_errors.invalid_value("involvedObject.namespace", involved, "does not match event.namespace")
    if not obj.get("eventTime"):
        if (involved or "default") != namespace:
            yield mismatch
        return
    if not involved and namespace not in ("default", "kube-system"):
        yield mismatch
    component = str(obj.get("reportingComponent", ""))
    where = "reportingController" if new else "reportingComponent"
    if not component:
        yield api_errors.required(where)
    for text in validation.qualified_name(component):
        yield api_errors.invalid_value(where, component, text)
    for key, label, limit in _LIMITED:
        value = obj.get(key) or ""
        if not value:
            yield api_errors.required(key)
        if len(value.encode()) > limit:
            yield api_errors.invalid_value(label, "", f"can have at most {limit} characters")
    if len((obj.get("message") or "").encode()) > _NOTE_LIMIT:
        yield api_errors.invalid_value("message", "", f"can have at most {_NOTE_LIMIT} characters")


def validate_new_event(obj: JsonObject) -> Iterator[Cause]:
    """Validate that an event of events.k8s.io has no deprecated field."""
    if not obj.get("eventTime"):
        yield api_errors.required("eventTime")
    kind = obj.get("type", "")
    if kind not in ("Normal", "Warning"):
        yield api_errors.invalid_value("type", "", f"has invalid value: {kind}")
    for key in _OLD_STYLE:
        if obj.get(key):
            yield api_errors.invalid_value(key, "", "needs to be unset")


def validate_series(series: JsonObject | None) -> Iterator[Cause]:
    """Validate count and time of a series."""
    if series is None:
        return
    if series.get("count", 0) < 2:
        yield api_errors.invalid_value("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield api_errors.required("series.lastObservedTime")
