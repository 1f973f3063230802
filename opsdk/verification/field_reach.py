"""Which fields of a custom resource decide something, by the operations on them. Pure.

A field that changes nothing is suspected. Before it is reported, other states of its neighbours are tried: a field may
count only while another one enables it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from opsdk.structured_merge.value import JsonObject, JsonValue
from opsdk.verification.false_conditions import is_empty
from opsdk.verification.workload.definition import DefinitionVersion
from opsdk.verification.workload.edits import value_at, with_value
from opsdk.verification.workload.errors import NoCustomResourceError
from opsdk.verification.workload.field_values import FieldValues
from opsdk.verification.workload.operations import Operation, OperationKind
from opsdk.verification.workload.schema_fields import Path, SchemaField
from opsdk.verification.workload.values import ABSENT, ValueClass

__all__ = ["FieldReach", "Trial", "trials"]

Trial = tuple[JsonObject, JsonObject]
"""A custom resource before and after a change of one field."""
_MAX_TRIALS: Final = 16
_MAX_VALUES: Final = 3
_HARMLESS: Final = (ValueClass.VALID, ValueClass.BOUNDARY)


class FieldReach:
    """Collects which operations on a field changed something."""

    def __init__(self) -> None:
        self._effective: set[Path] = set()
        self._without_effect: dict[Path, Operation] = {}
        self.checks = 0
        """Operations that say something about one field."""

    def add(self, operation: Operation, *, effective: bool) -> None:
        """Add what an operation did. Those on several fields, and those that say nothing, are left out."""
        if len(operation.changes) != 1 or operation.kind is OperationKind.RECREATE:
            return
        change = operation.changes[0]
        if change.path[0] == "metadata" or operation.value_class not in _HARMLESS or len(change.path) < 2:
            return
        if is_empty(change.before) and is_empty(change.after):
            return
        self.checks += 1
        path = change.path
        if effective:
            self._effective.update(path[:depth] for depth in range(1, len(path) + 1))
        else:
            self._without_effect.setdefault(path, operation)

    def suspects(self) -> Iterator[tuple[Path, Operation]]:
        """Yield the fields that decide nothing, those of upper levels first; none below one that was yielded."""
        yielded: set[Path] = set()
        for path in sorted(self._without_effect, key=len):
            above = {path[:depth] for depth in range(1, len(path))}
            if path not in self._effective and not above & yielded:
                yielded.add(path)
                yield path, self._without_effect[path]


def trials(
    definition: DefinitionVersion, operation: Operation, path: Path, examples: Sequence[JsonObject] = ()
) -> Iterator[Trial]:
    """Yield custom resources in which a field may count, and others that differ in this field only.

    Each neighbour of the field and of its parents gets another value: flags are turned, also those in an object beside
    the field, alternatives chosen, numbers counted up, absent objects filled, and others taken away.
    """
    field = _field_at(definition.root, path)
    if field is None:
        return
    values = FieldValues(examples)
    left = _MAX_TRIALS
    for context in _contexts(definition, operation.after, field, values):
        for value in _values(field, context, values):
            changed = _edited(context, field, value, values)
            if changed is None or definition.complete(changed) == definition.complete(context):
                continue
            if is_empty(value) and is_empty(value_at(context, field)):
                continue
            if definition.errors(context, None) or definition.errors(changed, context):
                continue
            yield context, changed
            if not (left := left - 1):
                return


def _field_at(root: SchemaField, path: Path) -> SchemaField | None:
    field: SchemaField | None = root
    for part in path:
        if field is None:
            return None
        field = field.items if isinstance(part, int) else field.properties.get(part) or field.entries
    return field


def _contexts(
    definition: DefinitionVersion, obj: JsonObject, field: SchemaField, values: FieldValues
) -> Iterator[JsonObject]:
    """Yield the object with one neighbour changed, then with all flags on, then as it is."""
    enabled = obj
    for neighbour in _neighbours(field):
        for value in _switches(neighbour, definition.complete(obj), values):
            if (context := _edited(obj, neighbour, value, values)) is not None:
                yield context
            if value is True and (both := _edited(enabled, neighbour, value, values)) is not None:
                enabled = both
    if enabled is not obj:
        yield enabled
    yield obj


def _neighbours(field: SchemaField) -> Iterator[SchemaField]:
    """Yield the siblings of a field and of its parents, nearest first, each before the flags in it."""
    for member in reversed(field.lineage()[1:]):
        siblings = member.parent.properties.values() if member.parent is not None else ()
        for sibling in siblings:
            if sibling.path != member.path:
                yield sibling
                yield from (each for each in sibling.properties.values() if each.node.types == ("boolean",))


def _switches(field: SchemaField, obj: JsonObject, values: FieldValues) -> Iterator[JsonValue]:
    """Yield the values of a neighbour with which another field may count."""
    current = value_at(obj, field)
    if field.node.types == ("boolean",):
        yield not current if isinstance(current, bool) else True
    elif field.node.enum:
        yield from (each for each in field.node.enum[:_MAX_VALUES] if each != current)
    elif isinstance(current, int) and not isinstance(current, bool):
        yield current + 1  # an arbiter may count only beside an even number of members
    elif current is ABSENT and values.has_value(field):
        yield values.smallest(field)
    if current is not ABSENT and not field.required:
        yield ABSENT


def _values(field: SchemaField, obj: JsonObject, values: FieldValues) -> Iterator[JsonValue]:
    proposals = [each for each in values.values(field, value_at(obj, field)) if each.value_class in _HARMLESS]
    proposals.sort(key=lambda each: each.value_class is ValueClass.BOUNDARY)
    yield from (each.value for each in proposals[:_MAX_VALUES])


def _edited(obj: JsonObject, field: SchemaField, value: JsonValue, values: FieldValues) -> JsonObject | None:
    try:
        return with_value(obj, field, value, values)
    except NoCustomResourceError:
        return None
