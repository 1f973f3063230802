"""The three-way merge of client-side apply: last applied, desired and live object. Pure.

Upstream: k8s.io/apimachinery/pkg/util/strategicpatch/patch.go (CreateThreeWayMergePatch);
k8s.io/client-go/util/csaupgrade/upgrade.go
Deviates: values are compared in the form that the server writes, so a merge without effect is not a patch.
"""

from __future__ import annotations

from typing import Final

import msgspec

from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.patch.merge_patch import create_merge_patch
from opsdk.children.comparison import DifferenceKind, compare
from opsdk.children.field_types import FieldType, built_in_type, custom_type
from opsdk.children.ownership import managers_of, owns
from opsdk.children.set_identity import APPLIED, applied_form, decode_applied, encode_applied
from opsdk.structured_merge.equality import deep_equal
from opsdk.structured_merge.fieldpath import EMPTY, FieldSet
from opsdk.structured_merge.typed import merge, remove_items, to_field_set
from opsdk.structured_merge.value import JsonObject, JsonValue

_UNKNOWN: Final = custom_type({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
"""Without a schema objects merge by field, and lists are replaced, as in a JSON merge patch."""
_VALUES: Final = (DifferenceKind.VALUE, DifferenceKind.ORDER)
_IDENTITY_FIELDS: Final = FieldSet.of(
    ("f:apiVersion",), ("f:kind",), ("f:status",), ("f:metadata", "f:name"), ("f:metadata", "f:namespace")
)
_APPLIED_PATH: Final = ("f:metadata", "f:annotations", f"f:{APPLIED}")


class _Merge(msgspec.Struct, frozen=True):
    """The inputs of a three-way merge."""

    original: JsonObject
    desired: JsonObject
    live: JsonObject
    field_type: FieldType

    def without_removed(self) -> JsonObject:
        """Return the live object without the fields that were applied and are no longer desired."""
        schema = self.field_type.schema
        before = to_field_set(_without_empty(self.original), schema)
        removed = before.difference(to_field_set(self.desired, schema)).difference(_IDENTITY_FIELDS)
        rest: JsonObject = remove_items(self.live, removed, schema)
        return rest

    def values_differ(self) -> bool:
        """Whether a desired value differs from the live one."""
        result = compare(self.live, self.desired, self.field_type, to_own=EMPTY, field_owner="")
        return any(difference.kind in _VALUES for difference in result.differences)


def three_way_patch(desired: JsonObject, live: JsonObject, field_type: FieldType | None = None) -> JsonObject | None:
    """Return the merge patch that makes `live` match `desired`; None if the server would change nothing.

    The last applied object is read from the annotation of `live`. The patch has the resource version of `live`, so it
    conflicts with a concurrent change.

    Args:
        desired: the object without the annotation `APPLIED`.
        live: as the server returned it.
        field_type: of both; default: the type of a built-in kind.
    """
    applied = decode_applied(_annotation(live))
    merge_parts = _three_way_merge(applied, desired, live, field_type)
    rest = merge_parts.without_removed()
    same_record = applied is not None and deep_equal(applied, applied_form(desired))
    if same_record and deep_equal(rest, live) and not merge_parts.values_differ():
        return None
    record = _annotation(live) if same_record else encode_applied(desired)
    patch = create_merge_patch(live, merge(rest, _with_annotation(desired, record), merge_parts.field_type.schema))
    return _at_version(patch, live)


def adoption_patch(desired: JsonObject, live: JsonObject, field_type: FieldType | None = None) -> JsonObject | None:
    """Return the merge patch that ends client-side apply, before the first server-side apply; None if none is needed.

    It removes the annotation `APPLIED`, the fields that only it records, and the field manager that wrote it: a field
    that this manager still owned would outlive its removal from the desired object.
    """
    text = _annotation(live)
    if not text:
        return None
    rest = _three_way_merge(decode_applied(text), desired, live, field_type).without_removed()
    annotations = {name: value for name, value in rest["metadata"]["annotations"].items() if name != APPLIED}
    managers = managers_of(live)
    entries = live["metadata"].get("managedFields") or []
    remaining = [
        entry
        for entry, manager in zip(entries, managers, strict=True)
        if manager.operation != "Update" or manager.subresource or not owns(manager.fields, _APPLIED_PATH)
    ]
    metadata = {**rest["metadata"], "annotations": annotations, "managedFields": remaining or [{}]}
    return _at_version(create_merge_patch(live, {**rest, "metadata": metadata}), live)


def _three_way_merge(
    applied: JsonObject | None, desired: JsonObject, live: JsonObject, field_type: FieldType | None
) -> _Merge:
    known_type = field_type or built_in_type(GroupVersionKind.parse(live["apiVersion"], live["kind"])) or _UNKNOWN
    return _Merge(applied or {}, desired, live, known_type)


def _annotation(live: JsonObject) -> str:
    text: str = (live["metadata"].get("annotations") or {}).get(APPLIED, "")
    return text


def _with_annotation(desired: JsonObject, record: str) -> JsonObject:
    metadata = desired["metadata"]
    annotations = {**(metadata.get("annotations") or {}), APPLIED: record}
    return {**desired, "metadata": {**metadata, "annotations": annotations}}


def applied_object(desired: JsonObject) -> JsonObject:
    """Return the object to create: `desired` with the annotation `APPLIED`."""
    return _with_annotation(desired, encode_applied(desired))


def _at_version(patch: JsonValue, live: JsonObject) -> JsonObject:
    metadata = {**patch.get("metadata", {}), "resourceVersion": live["metadata"]["resourceVersion"]}
    return {**patch, "metadata": metadata}


def _without_empty(value: JsonValue) -> JsonValue:
    """Return `value` without empty objects and nulls: Go writes them for fields that nothing sets."""
    if not isinstance(value, dict):
        return value
    parts = {name: _without_empty(item) for name, item in value.items()}
    return {name: item for name, item in parts.items() if item is not None and item != {}}
