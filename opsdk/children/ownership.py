"""The fields that managers own, read from ``metadata.managedFields``. Pure.

Upstream: k8s.io/apimachinery/pkg/util/managedfields/internal (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from opsdk.errors import DecodeError
from opsdk.structured_merge.fieldpath import EMPTY, FieldSet, Path
from opsdk.structured_merge.schema import Schema
from opsdk.structured_merge.typed import to_field_set
from opsdk.structured_merge.value import JsonValue

APPLY: Final = "Apply"

_SERVER_METADATA: Final = (
    "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields",
    "resourceVersion",
)  # fmt: skip
_NEVER_OWNED: Final = FieldSet.of(
    ("f:apiVersion",), ("f:kind",), ("f:metadata",), *(("f:metadata", f"f:{name}") for name in _SERVER_METADATA)
)
STATUS: Final = FieldSet.of(("f:status",))
"""The status, which is a subresource of most kinds."""


class OwnerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of ``managedFields``.

    Attributes:
        name: the field manager.
        operation: ``Apply`` or ``Update``.
        api_version: the version in which `fields` is written.
        time: RFC 3339 text of the last change, or "".
        subresource: "" for the object itself.
        wire: the owned fields in the form ``FieldsV1``.
    """

    name: str
    operation: str
    api_version: str
    time: str
    subresource: str
    wire: Mapping[str, JsonValue]

    @property
    def fields(self) -> FieldSet:
        """The owned fields; empty if the entry is malformed."""
        return _decoded(msgspec.json.encode(self.wire))


@lru_cache(maxsize=4096)  # sets repeat until their manager's next write; a few KB each
def _decoded(wire: bytes) -> FieldSet:
    try:
        return FieldSet.from_fields_v1(msgspec.json.decode(wire)).shared()
    except DecodeError:
        return EMPTY


def managers_of(tree: Mapping[str, JsonValue]) -> list[OwnerEntry]:
    """Return the entries of ``managedFields``; an empty list also if a cache strips them."""
    entries = (tree.get("metadata") or {}).get("managedFields") or ()
    return [
        OwnerEntry(
            name=entry.get("manager") or "",
            operation=entry.get("operation") or "",
            api_version=entry.get("apiVersion") or "",
            time=entry.get("time") or "",
            subresource=entry.get("subresource") or "",
            wire=entry.get("fieldsV1") or {},
        )
        for entry in entries
        if isinstance(entry, dict)
    ]


def applied_by(managers: list[OwnerEntry], name: str) -> OwnerEntry | None:
    """Return the entry of the applies by `name`, or None."""
    return next((m for m in managers if (m.name, m.operation, m.subresource) == (name, APPLY, "")), None)


def fields_to_own(desired: Mapping[str, JsonValue], schema: Schema, *, ignored: FieldSet = STATUS) -> FieldSet:
    """Return the fields that an apply of `desired` owns. `ignored` fields cannot be changed by an apply of the object.

    Raises:
        PatchError: an item of a keyed list has no key.
    """
    return to_field_set(desired, schema).difference(_NEVER_OWNED).recursive_difference(ignored)


def owns(fields: FieldSet, path: Path) -> bool:
    """Whether `fields` has `path`, or a path below it."""
    for element in path[:-1]:
        fields = fields.with_prefix(element)
    return bool(path) and (path[-1] in fields.members or path[-1] in fields.children)


def owner_of(managers: list[OwnerEntry], path: Path, *, besides: str) -> OwnerEntry | None:
    """Return the manager that owns `path` or something below it and changed the object last, or None."""
    owners = (m for m in managers if not (m.name == besides and m.operation == APPLY) and owns(m.fields, path))
    return max(owners, key=lambda manager: manager.time, default=None)
