"""Decodes, encodes and sorts ``metadata.managedFields``.

Upstream: k8s.io/apimachinery/pkg/util/managedfields/internal/managedfields.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from opsdk.errors import DecodeError
from opsdk.structured_merge.equality import deep_equal
from opsdk.structured_merge.fieldpath import FieldSet
from opsdk.structured_merge.value import JsonObject, JsonValue

APPLY = "Apply"
UPDATE = "Update"


class ManagerKey(NamedTuple):
    """The key of a managedFields entry. Appliers have one entry for all versions, so their `api_version` is empty."""

    manager: str
    operation: str
    api_version: str
    subresource: str

    @classmethod
    def of(cls, manager: str, operation: str, api_version: str, subresource: str) -> ManagerKey:
        """Return the key of an entry."""
        return cls(manager, operation, "" if operation == APPLY else api_version, subresource)


class ManagedFieldsEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of one manager.

    Attributes:
        fields: the owned fields, as paths of objects in `api_version`.
        time: RFC 3339 time of the last change; empty if the manager never changed the object.
    """

    fields: FieldSet
    api_version: str
    time: str = ""

    def with_fields(self, fields: FieldSet) -> ManagedFieldsEntry:
        """Return the entry with other fields."""
        return replace(self, fields=fields)


Managed = dict[ManagerKey, ManagedFieldsEntry]


def decode_entries(entries: Iterable[JsonValue] | None) -> Managed:
    """Decode a ``managedFields`` list.

    Raises:
        DecodeError: an entry is invalid.
    """
    managed: Managed = {}
    for entry in entries or ():
        if not isinstance(entry, Mapping):
            raise DecodeError("managedFields: an entry is not an object")
        operation = entry.get("operation") or ""
        if operation not in (APPLY, UPDATE):
            raise DecodeError(f"managedFields: operation must be Apply or Update, not {operation!r}")
        if entry.get("fieldsType", "FieldsV1") != "FieldsV1":
            raise DecodeError(f"managedFields: fieldsType must be FieldsV1, not {entry.get('fieldsType')!r}")
        version = entry.get("apiVersion") or ""
        key = ManagerKey.of(entry.get("manager") or "", operation, version, entry.get("subresource") or "")
        fields = FieldSet.from_fields_v1(entry.get("fieldsV1") or {})
        managed[key] = ManagedFieldsEntry(fields=fields, api_version=version, time=entry.get("time") or "")
    return managed


def encode_entries(managed: Managed) -> list[JsonObject]:
    """Encode a ``managedFields`` list: appliers before updaters, then by time, then by name."""

    def order(item: tuple[ManagerKey, ManagedFieldsEntry]) -> tuple[str, ...]:
        key, owner = item
        return key.operation, owner.time, key.manager, owner.api_version, key.subresource

    entries: list[JsonObject] = []
    for key, owner in sorted(managed.items(), key=order) if len(managed) > 1 else managed.items():
        entry: JsonObject = {"manager": key.manager, "operation": key.operation, "apiVersion": owner.api_version}
        if owner.time:
            entry["time"] = owner.time
        entry |= {"fieldsType": "FieldsV1", "fieldsV1": owner.fields.to_fields_v1()}
        if key.subresource:
            entry["subresource"] = key.subresource
        entries.append(entry)
    return entries


def entries_of(obj: Mapping[str, JsonValue]) -> list[JsonValue] | None:
    """Return the object's ``managedFields``; None if it has none."""
    entries = (obj.get("metadata") or {}).get("managedFields")
    return entries if isinstance(entries, list) else None


def without_entries(obj: Mapping[str, JsonValue]) -> JsonObject:
    """Return the object without ``managedFields``."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, Mapping) or "managedFields" not in metadata:
        return dict(obj)
    return {**obj, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}


def with_entries(obj: Mapping[str, JsonValue], managed: Managed) -> JsonObject:
    """Return the object with these entries; without ``managedFields`` if `managed` is empty."""
    if not managed:
        return without_entries(obj)
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name != "managedFields"}
    metadata["managedFields"] = encode_entries(managed)
    return {**obj, "metadata": metadata}


_SERVER_SET = frozenset(
    {"managedFields", "resourceVersion", "generation", "creationTimestamp", "uid", "selfLink", "namespace", "name"}
)


def keep_times(live: Mapping[str, JsonValue], new: Mapping[str, JsonValue]) -> JsonObject:
    """Return `new`; with the times of `live` if it differs only in times.

    Otherwise a write without a change would be a new revision, and an event for every watch.
    """
    before, after = entries_of(live) or [], entries_of(new) or []
    same_owners = deep_equal([{**entry, "time": ""} for entry in before], [{**entry, "time": ""} for entry in after])
    if not before or not same_owners or not deep_equal(_content(live), _content(new)):
        return dict(new)
    return {**new, "metadata": {**new["metadata"], "managedFields": before}}


def _content(obj: Mapping[str, JsonValue]) -> JsonObject:
    """Return the object without the fields that only the server sets."""
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name not in _SERVER_SET}
    return {**obj, "metadata": metadata}
