"""The values of each field: by its shape, its keywords and its type. Pure.

Other modules propose values; this one keeps those that the validator of the server admits, and those that it refuses
where they are meant to be beyond the schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from opsdk.structured_merge.value import JsonObject, JsonValue
from opsdk.verification.workload.errors import NoCustomResourceError
from opsdk.verification.workload.scalar_values import alternative_values, rule_values
from opsdk.verification.workload.schema_fields import ENTRY, NAMESPACE, Path, SchemaField
from opsdk.verification.workload.shape_values import MAX_REPLICAS, shape_values
from opsdk.verification.workload.shapes import STRICTER, TEXTS, Shape
from opsdk.verification.workload.small_values import MAX_ITEMS, MAX_PARTS, SmallValues, exceeds
from opsdk.verification.workload.values import ABSENT, FieldValue, ValueClass, beyond, boundary, misoperation, valid

MAX_SET: Final = 30
"""Fields that the value with "every field set" has."""


class FieldValues(SmallValues):
    """Finds values for the fields of one schema, each once.

    >>> from opsdk.apiserver.structural.node import SchemaNode
    >>> size = SchemaField(("spec", "size"), SchemaNode({"type": "integer", "minimum": 1, "maximum": 5}))
    >>> for value in FieldValues().values(size, 1):
    ...     print(value.value_class.value, value.value, "-", value.reason)
    Valid 1 - a small number
    Valid 2 - one step more
    Valid 3 - two steps more
    Beyond 0 - below the minimum
    Boundary 5 - the maximum
    Valid 4 - near the maximum
    Beyond 6 - above the maximum
    Beyond 1.5 - a fraction in the place of an integer
    Beyond text - a string in the place of another type
    Boundary UNSET - not set
    """

    def __init__(self, examples: Sequence[JsonObject] = ()) -> None:
        super().__init__(examples)
        self._by_keywords: dict[Path, tuple[FieldValue, ...]] = {}

    def values(self, field: SchemaField, current: JsonValue) -> list[FieldValue]:
        """Return the values to try for a field whose value is `current` now, without equal ones."""
        shape = self.shape(field)
        by_shape = [] if shape is None else list(self._checked(field, shape_values(shape, field, current)))
        by_keywords: Iterable[FieldValue] = self._values_by_keywords(field)
        if shape is not None:
            by_keywords = _beside_shape(field, shape, by_shape, by_keywords)
        if self.is_stricter(field):
            by_keywords = as_uncertain(by_keywords)
        return list(_distinct([*by_shape, *by_keywords, *_absence(field)]))

    def is_stricter(self, field: SchemaField) -> bool:
        """Report whether Kubernetes may refuse values of a field that the schema admits."""
        return any(self.shape(one) in STRICTER for one in field.lineage())

    def _object_values(self, field: SchemaField) -> Iterator[FieldValue]:
        base = self.smallest(field)
        if not isinstance(base, dict):
            return
        if field.properties:
            yield valid(base, "only the required fields")
            everything = {
                name: self.smallest(below) for name, below in field.properties.items() if self.has_value(below)
            }
            if len(everything) <= MAX_SET:
                yield valid({**base, **everything}, "every field set")
            yield boundary({}, "an object without fields")
        if field.node.preserve and not field.properties:
            yield valid({**base, ENTRY: "value"}, "an object with a field that the schema does not name")
            yield boundary({**base, ENTRY: {"nested": [1, "two", True]}}, "an object with nested values")
        if field.node.additional is not None or field.node.open:
            yield from self._map_values(field, base)
        yield beyond("text", "a string in the place of an object")

    def _map_values(self, field: SchemaField, base: JsonObject) -> Iterator[FieldValue]:
        yield boundary(base, "no entries" if not base else "only the required entries")
        yield valid(self.grown(field, base, len(base) + 1), "one entry")
        yield valid(self.grown(field, base, len(base) + 2), "two entries")
        most = field.node.limit("maxProperties")
        if isinstance(most, int) and most < MAX_ITEMS:
            yield boundary(self.grown(field, base, most), "as many entries as are allowed")
            yield beyond(self.grown(field, base, most + 1), "too many entries")
        if field.node.limit("minProperties"):
            yield beyond({}, "too few entries")

    def _list_values(self, field: SchemaField) -> Iterator[FieldValue]:
        yield boundary([], "no elements")
        yield beyond("text", "a string in the place of a list")
        least, most = field.node.limit("minItems") or 0, field.node.limit("maxItems")
        for count, reason in ((1, "one element"), (2, "two elements")):
            elements = self.elements(field, count)
            if len(elements) == count:
                yield valid(elements, reason)
        if least:
            yield boundary(self.elements(field, least), "as few elements as are allowed")
            yield beyond(self.elements(field, least - 1), "too few elements")
        if isinstance(most, int) and most < MAX_ITEMS:
            yield boundary(self.elements(field, most), "as many elements as are allowed")
            yield beyond(self.elements(field, most + 1), "too many elements")
        pair = self.elements(field, 1) * 2
        if field.node.list_type in ("set", "map"):
            yield beyond(pair, "the same element twice")
        else:
            yield boundary(pair, "the same element twice")

    # -------------------------------------------------------------- all values
    def _values_by_keywords(self, field: SchemaField) -> tuple[FieldValue, ...]:
        if field.path not in self._by_keywords:
            proposals: list[FieldValue] = []
            with suppress(NoCustomResourceError):  # without a value for its parts, a list is empty or absent
                proposals.extend(self._proposals(field))
            self._by_keywords[field.path] = tuple(self._checked(field, proposals))
        return self._by_keywords[field.path]

    def _proposals(self, field: SchemaField) -> Iterator[FieldValue]:
        node = field.node
        if node.has_default:
            yield valid(node.default, "the default")
        yield from _namespace_values(field)
        if node.types == ("array",):
            yield from self._list_values(field)
        elif node.types == ("object",) or (not node.types and (node.preserve or node.properties)):
            yield from self._object_values(field)
        else:
            yield from alternative_values(node)
            yield from rule_values(field)
        if node.nullable:
            yield boundary(None, "null")

    def _checked(self, field: SchemaField, proposals: Iterable[FieldValue]) -> Iterator[FieldValue]:
        """Yield the proposals that the schema admits; of those beyond it, those that it refuses."""
        for proposal in proposals:
            if exceeds(proposal.value, MAX_PARTS):
                continue
            if self._checks.admits(field, proposal.value) == (proposal.value_class is not ValueClass.BEYOND):
                yield proposal


def _absence(field: SchemaField) -> Iterator[FieldValue]:
    """Yield the absent value."""
    if not field.required:
        yield boundary(ABSENT, "not set")
    elif field.node.has_default:
        yield boundary(ABSENT, "not set, so that the default applies")
    else:
        yield beyond(ABSENT, "a required field that is not set")


def _beside_shape(
    field: SchemaField, shape: Shape, by_shape: Iterable[FieldValue], by_keywords: Iterable[FieldValue]
) -> Iterator[FieldValue]:
    """Yield the values by keywords as the shape sees them.

    The schema admits any string as an image. Where the shape has better values, such strings are left out, or are
    misoperations. The default stays as it is.
    """
    classes = {one.value_class for one in by_shape}
    is_text = shape is Shape.REFERENCE or (shape in TEXTS and ValueClass.VALID in classes)
    for one in by_keywords:
        if one.value_class is ValueClass.BEYOND or (field.node.has_default and one.value == field.node.default):
            yield one
        elif shape is Shape.REPLICAS and isinstance(one.value, int) and not 0 <= one.value <= MAX_REPLICAS:
            if one.value < 0:
                yield misoperation(one.value, "a negative number of replicas")
        elif one.value_class is ValueClass.VALID and classes & {ValueClass.VALID, ValueClass.MISOPERATION}:
            continue
        elif is_text and isinstance(one.value, str) and one.value:
            yield misoperation(one.value, f"{one.reason} as {shape.value}")
        else:
            yield one


def as_uncertain(values: Iterable[FieldValue]) -> Iterator[FieldValue]:
    """Yield values of which only the schema of the definition says that they are valid: Kubernetes may refuse them."""
    for one in values:
        is_valid = one.value_class is ValueClass.VALID
        yield boundary(one.value, f"{one.reason}, if Kubernetes allows it") if is_valid else one


def _distinct(values: Iterable[FieldValue]) -> Iterator[FieldValue]:
    """Yield the first of equal values, and of equal reasons."""
    texts: set[str] = set()
    reasons: set[str] = set()
    for one in values:
        text = repr(one.value)
        if text not in texts and one.reason not in reasons:
            texts.add(text)
            reasons.add(one.reason)
            yield one


def _namespace_values(field: SchemaField) -> Iterator[FieldValue]:
    """Yield the namespace of the objects for a field that names namespaces: the name of none changes nothing."""
    if "namespace" not in field.name.lower():
        return
    if "string" in field.node.types:
        yield valid(NAMESPACE, "the namespace of the objects")
    elif field.items is not None and "string" in field.items.node.types:
        yield valid([NAMESPACE], "the namespace of the objects")
