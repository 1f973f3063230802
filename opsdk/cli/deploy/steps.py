"""One step of a deployment: an object, what happened to it, and which fields changed. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from opsdk.apimachinery.kinds import Kind, unstructured_kind
from opsdk.apimachinery.object import Unstructured
from opsdk.apimachinery.patch.json_patch import create_json_patch
from opsdk.apimachinery.tree_names import key_of_tree
from opsdk.base.shortened import shortened
from opsdk.children.ownership import applied_by, managers_of
from opsdk.structured_merge.value import JsonObject, JsonValue

_RECORD: Final = "opsdk.dev/deployed-objects"
"""Annotation of the operator's Deployment: the objects of the deployment, so that a later one finds the surplus."""
# With a definition or a namespace, objects of users are deleted: only undeploy deletes them, after its checks.
_NOT_RECORDED: Final = ("CustomResourceDefinition", "Namespace")
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


def with_record(deployment: JsonObject, objects: Iterable[JsonObject]) -> JsonObject:
    """Return a copy of the operator's Deployment with the record of a deployment."""
    texts = {_record_of(tree) for tree in objects if tree["kind"] not in _NOT_RECORDED}
    metadata = deployment["metadata"]
    annotations = {**(metadata.get("annotations") or {}), _RECORD: ",".join(sorted(texts))}
    return {**deployment, "metadata": {**metadata, "annotations": annotations}}


def recorded_objects(deployment: JsonObject) -> list[JsonObject]:
    """Return the objects in the record of a Deployment, with kind, namespace and name.

    >>> service = {"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "shop", "name": "a"}}
    >>> recorded_objects(with_record({"metadata": {"name": "shop"}}, [service])) == [service]
    True
    """
    text: str = (deployment["metadata"].get("annotations") or {}).get(_RECORD, "")
    trees: list[JsonObject] = []
    for record in text.split(",") if text else ():
        api_version, kind, key = record.split()
        namespace, _, name = key.rpartition("/")
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        trees.append({"apiVersion": api_version, "kind": kind, "metadata": metadata})
    return trees


def surplus_objects(deployment: JsonObject, objects: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the recorded objects of a live Deployment that `objects` does not have."""
    current = {_record_of(tree) for tree in objects}
    return [tree for tree in recorded_objects(deployment) if _record_of(tree) not in current]


def _record_of(tree: JsonObject) -> str:
    return f"{tree['apiVersion']} {tree['kind']} {key_of_tree(tree)}"


def is_deployed(live: JsonObject, manager: str) -> bool:
    """Whether `manager` applied a live object."""
    return applied_by(managers_of(live), manager) is not None


def other_manager(live: JsonObject) -> str:
    """Return the first field manager of a live object, for messages; the server's own writes a status only."""
    return next((entry.name for entry in managers_of(live) if not entry.subresource), "unknown")


def kind_of_tree(tree: JsonObject) -> Kind[Unstructured]:
    """Return the kind of an object as a JSON tree."""
    return unstructured_kind(tree["apiVersion"], tree["kind"])


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
    annotations = {name: value for name, value in (metadata.pop("annotations", None) or {}).items() if name != _RECORD}
    metadata |= {"annotations": annotations} if annotations else {}
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
    return shortened(json.dumps(value), _MAX_VALUE)
