# ruff: noqa: ARG002 - hooks take what the store gives, whether a kind needs it or not
"""Events: one set of objects, two APIs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from envtest.kinds.arrange import arranger
from envtest.kinds.base import TableStrategy
from envtest.kinds.typed import TypedModel
from envtest.tables.load import Row
from opsdk.apimachinery import validation as names
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.errors import Cause
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


def _involved(key: str) -> Any:
    return lambda obj: str((obj.get("involvedObject") or {}).get(key, ""))


class EventStrategy(TableStrategy):
    """What must fit depends on the API that is used: the new one is strict."""

    def __init__(self, row: Row, has_status: bool) -> None:
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
        """Any name that can stand in a path."""
        return names.path_segment(name, prefix=prefix)

    def error_group(self, group: str) -> str:
        """Errors speak of the core kind."""
        return ""

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """New-style events say who, what and when; those of the new API have nothing of the old style."""
        found = list(_general(obj, new=self._new))
        if self._new:
            found.extend(_strict(obj))
        return found

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """In the new API only the series may change."""
        found = list(_general(obj, new=self._new))
        if not self._new:
            return found
        if obj.get("series") != old.get("series"):
            found.extend(_series(obj.get("series")))
        found.extend(
            api_errors.invalid_value(shown, _shown(obj.get(key)), "field is immutable")
            for key, shown in _IMMUTABLE
            if (obj.get(key) or None) != (old.get(key) or None)
        )
        return found


def _reporting(obj: JsonObject) -> str:
    return str(obj.get("reportingComponent", ""))


def _source(obj: JsonObject) -> str:
    return str((obj.get("source") or {}).get("component") or _reporting(obj))


_OLD_SELECTABLE = {"reportingComponent": _reporting, "source": _source}
_NEW_SELECTABLE = {"reportingController": _reporting}
_LIMITED = (
    ("reportingInstance", "repotingIntance", 128),
    ("action", "action", 128),
    ("reason", "reason", 128),
)
"""What is needed, and not long; the server misspells one of them where it is too long."""
_NOTE_LIMIT = 1024
_OLD_STYLE = ("firstTimestamp", "lastTimestamp", "count", "source")
_IMMUTABLE = (
    ("involvedObject", "involvedObject"),
    ("reason", "reason"),
    ("message", "message"),
    ("source", "source"),
    ("firstTimestamp", "firstTimestamp"),
    ("lastTimestamp", "lastTimestamp"),
    ("count", "count"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("action", "action"),
    ("related", "related"),
    ("reportingComponent", "reportingController"),
    ("reportingInstance", "reportingInstance"),
)
"""What stays in the new API: its key in stored objects, its name in messages."""


def _shown(value: Any) -> Any:
    return "" if value is None else value


def _general(obj: JsonObject, *, new: bool) -> Iterator[Cause]:
    namespace = obj["metadata"].get("namespace", "")
    involved = (obj.get("involvedObject") or {}).get("namespace", "")
    mismatch = api_errors.invalid_value("involvedObject.namespace", involved, "does not match event.namespace")
    if not obj.get("eventTime"):
        if (involved or "default") != namespace:
            yield mismatch
        return
    if not involved and namespace not in ("default", "kube-system"):
        yield mismatch
    yield from _who(_reporting(obj), "reportingController" if new else "reportingComponent")
    for key, shown, limit in _LIMITED:
        value = obj.get(key) or ""
        if not value:
            yield api_errors.required(key)
        if len(value.encode()) > limit:
            yield api_errors.invalid_value(shown, "", f"can have at most {limit} characters")
    if len((obj.get("message") or "").encode()) > _NOTE_LIMIT:
        yield api_errors.invalid_value("message", "", f"can have at most {_NOTE_LIMIT} characters")


def _who(component: str, where: str) -> Iterator[Cause]:
    if not component:
        yield api_errors.required(where)
    for text in names.qualified_name(component):
        yield api_errors.invalid_value(where, component, text)


def _strict(obj: JsonObject) -> Iterator[Cause]:
    if not obj.get("eventTime"):
        yield api_errors.required("eventTime")
    kind = obj.get("type", "")
    if kind not in ("Normal", "Warning"):
        yield api_errors.invalid_value("type", "", f"has invalid value: {kind}")
    for key in _OLD_STYLE:
        if obj.get(key):
            yield api_errors.invalid_value(key, "", "needs to be unset")


def _series(series: JsonObject | None) -> Iterator[Cause]:
    if series is None:
        return
    if series.get("count", 0) < 2:
        yield api_errors.invalid_value("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield api_errors.required("series.lastObservedTime")


class EventModel(TypedModel):
    """Converts between the two; the core form is stored."""

    def to_storage(self, obj: JsonObject) -> JsonObject:
        """From the new form, where this is the model of the new API."""
        made = obj if obj.get("apiVersion") != _NEW else _renamed(obj, _OLD_OF_NEW, _STORED)
        return {k: v for k, v in made.items() if v is not None}

    def from_storage(self, obj: JsonObject) -> JsonObject:
        """With the empty parts that events always show."""
        made = dict(obj)
        for key, empty in (
            ("source", {}),
            ("firstTimestamp", None),
            ("lastTimestamp", None),
            ("eventTime", None),
            ("reportingComponent", ""),
            ("reportingInstance", ""),
            ("involvedObject", {}),
        ):
            made.setdefault(key, empty)
        arrange = arranger(self.name)
        if not self.name.startswith("io.k8s.api.events"):
            return dict(arrange(made))
        for key in ("reportingComponent", "reportingInstance", "involvedObject"):
            if not made[key]:
                del made[key]
        return dict(arrange(_renamed(made, _NEW_OF_OLD, _NEW)))


def in_version(obj: JsonObject, wanted: str) -> JsonObject:
    """An event in the form of the new API or of the old one."""
    return _renamed(obj, _NEW_OF_OLD if wanted == _NEW else _OLD_OF_NEW, wanted)


def _renamed(obj: JsonObject, names: dict[str, str], version: str) -> JsonObject:
    made = {names.get(key, key): value for key, value in obj.items()}
    made["apiVersion"] = version
    series = made.get("series")
    if isinstance(series, dict):
        made["series"] = dict(series)
    return made
