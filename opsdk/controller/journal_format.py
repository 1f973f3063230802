"""Journal records as JSON, for debug pages, `opsdk why` and exported tests. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from opsdk.base.cause import ReconcileCause
from opsdk.client.activity import ObjectRead, RequestSent
from opsdk.controller.journal import ReconcileRecord
from opsdk.controller.progress import ChildRecord
from opsdk.errors import DecodeError
from opsdk.structured_merge.value import JsonObject

# What stands for the values of a Secret: "<hidden>", in base64 so that the object stays valid.
_REDACTED = "PGhpZGRlbj4="


def record_to_json(record: ReconcileRecord, *, objects: bool = False) -> JsonObject:
    """Return a record as a JSON tree.

    Args:
        record: the record.
        objects: include the objects that were read. Values of Secrets are replaced; managedFields stay.
    """
    tree: JsonObject = {}
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if isinstance(value, datetime):
            value = value.isoformat()
        elif isinstance(value, tuple):
            value = [_entry_to_json(part, objects=objects) for part in value]
        tree[name] = value
    return tree


def _entry_to_json(part: Any, *, objects: bool) -> JsonObject:
    tree: JsonObject = msgspec.structs.asdict(part) if isinstance(part, msgspec.Struct) else part._asdict()
    if isinstance(part, ObjectRead):
        data = tree.pop("data")
        if objects and data is not None:
            obj = msgspec.json.decode(data)
            if part.gvk == "v1, Kind=Secret":
                obj["data"] = dict.fromkeys(obj.get("data") or {}, _REDACTED)
                obj.get("metadata", {}).get("annotations", {}).pop(
                    "kubectl.kubernetes.io/last-applied-configuration", None
                )
            tree["object"] = obj
    return tree


def record_from_json(tree: JsonObject) -> ReconcileRecord:
    """Return the record of a JSON tree. Raises `DecodeError` for anything else."""
    try:
        values = dict(tree)
        values["started_at"] = datetime.fromisoformat(values["started_at"])
        values["causes"] = tuple(map(_cause, values["causes"]))
        values["requests"] = tuple(RequestSent(**request) for request in values["requests"])
        values["reads"] = tuple(map(_object_read, values["reads"]))
        values["children"] = tuple(map(_child, values.get("children", ())))  # absent before 0.2
        return ReconcileRecord(**values)
    except (KeyError, TypeError, ValueError) as error:
        raise DecodeError(f"the JSON is not a reconcile record: {error!r}") from error


def _cause(tree: JsonObject) -> ReconcileCause:
    return ReconcileCause(**{**tree, "traceparents": tuple(tree.get("traceparents", ()))})


def _child(tree: JsonObject) -> ChildRecord:
    return ChildRecord(**{**tree, "after": tuple(tree["after"])})


def _object_read(tree: JsonObject) -> ObjectRead:
    values = dict(tree)
    obj = values.pop("object", None)
    return ObjectRead(**values, data=msgspec.json.encode(obj) if obj is not None else None)
