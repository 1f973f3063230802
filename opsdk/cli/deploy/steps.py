"""One step of a deployment: an object, what happened to it, and which fields changed. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from opsdk.apimachinery.kinds import Kind, unstructured
from opsdk.apimachinery.object import Unstructured
from opsdk.apimachinery.patch.json_patch import create_json_patch
from opsdk.children.ownership import applied_by, managers_of
from opsdk.structured_merge.value import JsonObject, JsonValue

_PREFIX: Final = "opsdk-deploy/"
_LABEL: Final = {"app.kubernetes.io/managed-by": "opsdk"}
# Written by the server at each write.
_SERVER_FIELDS: Final = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")
# Characters of a value in a line.
_MAX_VALUE: Final = 60


class DeployAction(StrEnum):
    """What happened to an object."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    KEPT = "kept"
    """It exists, and `opsdk deploy` did not create it."""
    DELETED = "deleted"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployStep:
    """What happened to one object.

    Attributes:
        subject: kind, namespace and name.
        action: see `DeployAction`.
        changes: the changed fields, each with its old and its new value.
        reason: why an object was kept; else empty.
        dry_run: the server wrote nothing.
    """

    subject: str
    action: DeployAction
    changes: tuple[str, ...] = ()
    reason: str = ""
    dry_run: bool = False

    def __str__(self) -> str:
        """The progress line, with one line more for each change."""
        text = f"{self.action.value} {self.subject}"
        text += f": {self.reason}" if self.reason else ""
        text += " (dry run)" if self.dry_run and self.action not in (DeployAction.KEPT, DeployAction.MISSING) else ""
        return "\n".join([text, *(f"  {change}" for change in self.changes)])


def field_manager(operator: str) -> str:
    """Return the field manager of the deployments of an operator. Undeploy removes only what it applied.

    >>> field_manager("website")
    'opsdk-deploy/website'
    """
    return _PREFIX + operator


def labelled(tree: JsonObject) -> JsonObject:
    """Return a copy with the label ``app.kubernetes.io/managed-by``.

    An object without any field but its name, such as a ServiceAccount, would have no field manager.

    >>> labelled({"metadata": {"name": "a"}})
    {'metadata': {'name': 'a', 'labels': {'app.kubernetes.io/managed-by': 'opsdk'}}}
    """
    metadata = tree["metadata"]
    return {**tree, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **_LABEL}}}


def is_deployed(live: JsonObject, manager: str) -> bool:
    """Whether `manager` applied a live object."""
    return applied_by(managers_of(live), manager) is not None


def other_manager(live: JsonObject) -> str:
    """Return the first field manager of a live object, for messages."""
    return next((entry.name for entry in managers_of(live)), "unknown")


def kind_of_tree(tree: JsonObject) -> Kind[Unstructured]:
    """Return the kind of an object as a JSON tree."""
    return unstructured(tree["apiVersion"], tree["kind"])


def key_of_tree(tree: JsonObject) -> str:
    """Return ``namespace/name``, or the name of a cluster-scoped object."""
    meta: Mapping[str, str] = tree["metadata"]
    return "/".join(part for part in (meta.get("namespace", ""), meta["name"]) if part)


def subject_of_tree(tree: JsonObject) -> str:
    """Return kind, namespace and name as text."""
    return f"{tree['kind']} {key_of_tree(tree)}"


def changes_of(live: JsonObject, applied: JsonObject) -> tuple[str, ...]:
    """Return the fields that an apply changed, without those that the server writes itself.

    >>> changes_of({"metadata": {}, "spec": {"size": 1}}, {"metadata": {}, "spec": {"size": 2, "a.b": True}})
    ('spec.size: 1 -> 2', 'spec.a.b: set to true')
    """
    before, after = _written(live), _written(applied)
    lines = []
    for operation in create_json_patch(before, after):
        parts = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        path = ".".join(parts)
        old = _value(before, parts) if operation["op"] == "replace" else None
        match operation["op"]:
            case "replace":
                lines.append(f"{path}: {_shown(old)} -> {_shown(operation['value'])}")
            case "add":
                lines.append(f"{path}: set to {_shown(operation['value'])}")
            case _:
                lines.append(f"{path}: removed")
    return tuple(lines)


def _written(tree: JsonObject) -> JsonObject:
    metadata = {name: value for name, value in tree["metadata"].items() if name not in _SERVER_FIELDS}
    return {**{name: value for name, value in tree.items() if name != "status"}, "metadata": metadata}


def _value(tree: JsonValue, parts: list[str]) -> JsonValue:
    """Return the value at a path; None if an earlier operation of the same patch moved it."""
    for part in parts:
        if isinstance(tree, dict):
            tree = tree.get(part)
        elif isinstance(tree, list) and part.isdigit() and int(part) < len(tree):
            tree = tree[int(part)]
        else:
            return None
    return tree


def _shown(value: JsonValue) -> str:
    text = json.dumps(value)
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 3]}..."
