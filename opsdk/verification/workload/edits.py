"""Changes one field of a custom resource, and leaves the original as it is. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from opsdk.structured_merge.paths import get_path
from opsdk.structured_merge.value import JsonObject, JsonValue
from opsdk.verification.workload.schema_fields import SchemaField
from opsdk.verification.workload.small_values import SmallValues
from opsdk.verification.workload.values import ABSENT


def value_at(obj: JsonObject, field: SchemaField) -> JsonValue:
    """Return the value of a field, or `ABSENT`."""
    return get_path(obj, field.path, ABSENT)


def with_value(obj: JsonObject, field: SchemaField, value: JsonValue, values: SmallValues) -> JsonObject:
    """Return `obj` with another value of `field`. Parts that do not change are shared.

    Parents that are absent get their smallest values. `ABSENT` removes the field, or the first element of its list.

    Raises:
        NoCustomResourceError: an absent parent has no value.
    """
    changed: JsonObject = _changed(obj, field.lineage()[1:], value, values)
    return changed


def _changed(tree: JsonValue, lineage: Sequence[SchemaField], value: JsonValue, values: SmallValues) -> JsonValue:
    field, *rest = lineage
    part = field.path[-1]
    if isinstance(part, int):
        items = list(tree) if isinstance(tree, list) else []
        below = items[0] if items else ABSENT
        head = _below(field, rest, below, value, values)
        return [*([] if head is ABSENT else [head]), *items[1:]]
    entries = dict(tree) if isinstance(tree, dict) else {}
    below = _below(field, rest, entries.get(part, ABSENT), value, values)
    if below is ABSENT:
        entries.pop(part, None)
    else:
        entries[part] = below
    return entries


def _below(
    field: SchemaField, rest: Sequence[SchemaField], current: JsonValue, value: JsonValue, values: SmallValues
) -> JsonValue:
    """Return the new value of `field`, of which `rest` leads to the change."""
    if not rest:
        return value
    if not isinstance(current, dict | list):
        if value is ABSENT and not rest[0].required:
            return current  # there is nothing to remove
        current = values.smallest(field)
    return _changed(current, rest, value, values)
