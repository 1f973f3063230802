# ruff: noqa: ARG002 - hooks take what the store gives, whether a kind needs it or not
"""Events: one set of objects, two APIs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from envtest.kinds.base import TableStrategy
from envtest.kinds.typed import TypedModel
from envtest.tables.load import Row
from opsdk.apiserver import problems
from opsdk.apiserver.registry import names
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.storage.ports import Tree
from opsdk.errors import Cause

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
        keys = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        self.selectable = {
            **{f"involvedObject.{key}": _involved(key) for key in keys},
            "reason": lambda obj: str(obj.get("reason", "")),
            "reportingComponent": lambda obj: str(obj.get("reportingComponent", "")),
            "source": lambda obj: str((obj.get("source") or {}).get("component") or obj.get("reportingComponent", "")),
            "type": lambda obj: str(obj.get("type", "")),
        }

    def error_group(self, group: str) -> str:
        """Errors speak of the core kind."""
        return ""

    def validate(self, context: Context, obj: Tree) -> Sequence[Cause]:
        """The namespaces are the same; new-style events say who, what and when."""
        found: list[Cause] = []
        namespace = obj["metadata"].get("namespace", "")
        involved = (obj.get("involvedObject") or {}).get("namespace", "")
        if (involved or "default") != namespace and (involved or namespace not in ("default", "kube-system")):
            text = "does not match event.namespace"
            found.append(problems.invalid_value("involvedObject.namespace", involved, text))
        if self.info.group or obj.get("eventTime"):
            found.extend(_strict(obj, new=bool(self.info.group)))
        return found


def _strict(obj: Tree, *, new: bool) -> list[Cause]:
    found = [] if obj.get("eventTime") else [problems.required("eventTime")]
    component = obj.get("reportingComponent", "")
    where = "reportingController" if new else "reportingComponent"
    if not component:
        found.append(problems.required(where))
    found.extend(problems.invalid_value(where, component, text) for text in names.qualified_name(component))
    for field, key in (
        ("reportingInstance", "reportingInstance"),
        ("action", "action"),
        ("reason", "reason"),
    ):
        if not obj.get(key):
            found.append(problems.required(field))
    if obj.get("type") not in ("Normal", "Warning"):
        found.append(problems.invalid_value("type", obj.get("type", ""), "has invalid value: "))
    return found


class EventModel(TypedModel):
    """Converts between the two; the core form is stored."""

    def to_storage(self, obj: Tree) -> Tree:
        """From the new form, where this is the model of the new API."""
        made = obj if obj.get("apiVersion") != _NEW else _renamed(obj, _OLD_OF_NEW, _STORED)
        return {k: v for k, v in made.items() if v is not None}

    def from_storage(self, obj: Tree) -> Tree:
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
        if not self.name.startswith("io.k8s.api.events"):
            return made
        for key in ("reportingComponent", "reportingInstance", "involvedObject"):
            if not made[key]:
                del made[key]
        return _renamed(made, _NEW_OF_OLD, _NEW)


def _renamed(obj: Tree, names: dict[str, str], version: str) -> Tree:
    made = {names.get(key, key): value for key, value in obj.items()}
    made["apiVersion"] = version
    series = made.get("series")
    if isinstance(series, dict):
        made["series"] = dict(series)
    return made
