"""Makes a refused custom resource valid by a change of one more field. Pure.

A rule may compare two fields, or an alternative may exclude another: then one field alone cannot change. Rules are not
read: a bounded number of second changes is validated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from opsdk.apiserver.field_errors import NO_PATH
from opsdk.structured_merge.paths import FieldPath
from opsdk.structured_merge.value import JsonObject, JsonValue
from opsdk.verification.workload.definition import Admits
from opsdk.verification.workload.edits import value_at, with_value
from opsdk.verification.workload.errors import NoCustomResourceError
from opsdk.verification.workload.field_values import FieldValues
from opsdk.verification.workload.scalar_values import rule_values
from opsdk.verification.workload.schema_fields import SchemaField
from opsdk.verification.workload.values import ABSENT, ValueClass

MAX_QUESTIONS: Final = 40
"""Second changes that are tried for one value."""
MAX_BASE_QUESTIONS: Final = 2000
"""Changes that are tried for the first custom resource."""
_MAX_VALUES: Final = 6
_ADMITTED: Final = (ValueClass.VALID, ValueClass.BOUNDARY)

Change = tuple[SchemaField, JsonValue]


def second_changes(
    field: SchemaField, value: JsonValue, obj: JsonObject, values: FieldValues, error: str
) -> Iterator[Change]:
    """Yield changes of siblings of `field` and of its parents that may make `obj` valid; nearest fields first.

    Equal numbers come first, for pairs such as minimum and maximum; then absent siblings, for alternatives; then other
    values. Of all siblings, those that the error names come first.
    """
    for member in reversed(field.lineage()[1:]):
        siblings = [] if member.parent is None else [one for one in member.parent.properties.values() if one != member]
        siblings.sort(key=lambda one: one.name not in error)
        if isinstance(value, int) and member is field:
            yield from ((one, value) for one in siblings if one.node.types == field.node.types)
        present = [one for one in siblings if value_at(obj, one) is not ABSENT]
        yield from ((one, ABSENT) for one in present if not one.required)
        for one in siblings:
            for other in [*rule_values(one), *values.values(one, value_at(obj, one))[:_MAX_VALUES]]:
                if other.value_class in _ADMITTED and other.value is not ABSENT:
                    yield one, other.value


def repaired(
    obj: JsonObject, old: JsonObject, changed: tuple[SchemaField, JsonValue], values: FieldValues, admits: Admits
) -> tuple[JsonObject, SchemaField] | None:
    """Return a valid custom resource with the change and one more, and the other field; None if there is none.

    It can replace `old`, or be created.

    >>> from opsdk.apiserver.structural.schema import StructuralSchema
    >>> from opsdk.apiserver.structural.node import SchemaNode
    >>> integer = {"type": "integer"}
    >>> rule = {"rule": "self.least <= self.most"}
    >>> schema = {"type": "object", "properties": {"least": integer, "most": integer},
    ...           "x-kubernetes-validations": [rule]}
    >>> admits = lambda obj, old: StructuralSchema(schema, resource=False).validate(obj, old)
    >>> least = SchemaField((), SchemaNode(schema)).properties["least"]
    >>> repaired({"least": 5, "most": 3}, {"least": 1, "most": 3}, (least, 5), FieldValues(), admits)
    ({'least': 5, 'most': 5}, <SchemaField most>)
    """
    field, value = changed
    error = " ".join(map(str, admits(obj, old)))
    for questions, (other, second) in enumerate(second_changes(field, value, obj, values, error)):
        if questions >= MAX_QUESTIONS:
            return None
        candidate = _changed(obj, other, second, values)
        if candidate != old and not (admits(candidate, old) and admits(candidate, None)):
            return candidate, other
    return None


def made_valid(obj: JsonObject, root: SchemaField, values: FieldValues, admits: Admits) -> JsonObject:
    """Return a custom resource that the server admits, from one that it may refuse.

    Each step keeps the first change that leaves fewer errors.

    Raises:
        NoCustomResourceError: the server refuses all that were tried.
    """
    errors = admits(obj, None)
    questions = 0
    while errors:
        for field, value in _changes_for(errors, obj, root, values):
            questions += 1
            candidate = _changed(obj, field, value, values)
            remaining = admits(candidate, None)
            if len(remaining) < len(errors):
                obj, errors = candidate, remaining
                break
            if questions >= MAX_BASE_QUESTIONS:
                raise _refused(errors[0])
        else:
            raise _refused(errors[0])
    return obj


def _changes_for(errors: Sequence[str], obj: JsonObject, root: SchemaField, values: FieldValues) -> Iterator[Change]:
    """Yield changes of one field each; the fields that the errors name come first."""
    fields = list(islice(root.walk(), MAX_BASE_QUESTIONS))
    fields.sort(key=lambda field: not any(str(field) in error for error in errors))
    for field in fields:
        proposals = [one for one in values.values(field, value_at(obj, field)) if one.value_class in _ADMITTED]
        for proposal in proposals[:_MAX_VALUES]:
            yield field, proposal.value


def _changed(obj: JsonObject, field: SchemaField, value: JsonValue, values: FieldValues) -> JsonObject:
    """Return the custom resource with a change; the same one if a parent of the field has no value."""
    try:
        return with_value(obj, field, value, values)
    except NoCustomResourceError:
        return obj


def _refused(error: str) -> NoCustomResourceError:
    path, _, reason = error.partition(": ")
    return NoCustomResourceError(
        FieldPath("" if path == NO_PATH else path), reason, "add a valid custom resource as an example"
    )
