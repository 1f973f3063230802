"""Small values of fields, and several different ones: what generated custom resources are made of. Pure.

A value is proposed, and taken if the validator of the server admits it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from opsdk.apiserver.structural.node import SchemaNode
from opsdk.structured_merge.paths import get_path
from opsdk.structured_merge.value import JsonObject, JsonValue
from opsdk.verification.workload.errors import NoCustomResourceError
from opsdk.verification.workload.field_checks import FieldChecks
from opsdk.verification.workload.scalar_values import MAX_ALTERNATIVES, alternative_values, rule_values, scalar_values
from opsdk.verification.workload.schema_fields import ENTRY, Path, SchemaField, field_path
from opsdk.verification.workload.shape_values import shape_values
from opsdk.verification.workload.shapes import Shape, shape_of
from opsdk.verification.workload.values import ValueClass

MAX_ITEMS: Final = 64
"""Elements of the longest generated list, and entries of the largest map."""
MAX_PARTS: Final = 10_000
"""Values within the largest generated value: lists of lists of lists would have billions."""
_EMBEDDED: Final[JsonObject] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": ENTRY}}
_LIMITS: Final = (
    *("enum", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "pattern", "minItems", "maxItems", "minProperties", "maxProperties", "required"),
    *("allOf", "anyOf", "oneOf", "not", "x-kubernetes-validations"),
)
"""Keywords that an error names."""
_CONTAINERS: Final = frozenset({"array", "object"})


class SmallValues:
    """Finds small values for the fields of one schema; the same ones each time.

    Args:
        examples: custom resources of the author; their strings and numbers come first.

    >>> names = SchemaNode({"type": "array", "minItems": 2, "items": {"type": "string", "pattern": "^[a-c]$"}})
    >>> SmallValues().smallest(SchemaField(("names",), names))
    ['a', 'b']
    """

    def __init__(self, examples: Sequence[JsonObject] = ()) -> None:
        self._examples = examples
        self._checks = FieldChecks()
        self._smallest: dict[Path, JsonValue | NoCustomResourceError] = {}
        self._shapes: dict[Path, Shape | None] = {}

    def shape(self, field: SchemaField) -> Shape | None:
        """Return the shape of a field, or None."""
        if field.path not in self._shapes:
            self._shapes[field.path] = shape_of(field)
        return self._shapes[field.path]

    def has_value(self, field: SchemaField) -> bool:
        """Report whether `smallest` returns a value."""
        try:
            self.smallest(field)
        except NoCustomResourceError:
            return False
        return True

    def smallest(self, field: SchemaField) -> JsonValue:
        """Return a small value that the schema admits.

        Raises:
            NoCustomResourceError: no proposal fits.
        """
        if field.path not in self._smallest:
            try:
                self._smallest[field.path] = self._first_fitting(field)
            except NoCustomResourceError as error:
                self._smallest[field.path] = error
        value = self._smallest[field.path]
        if isinstance(value, NoCustomResourceError):
            raise value
        return value

    def _first_fitting(self, field: SchemaField) -> JsonValue:
        path = field_path(field.path)
        if field.is_cut:
            raise NoCustomResourceError(path, "the budget of the schema ends before it", "raise the budget")
        reason = _limits(field.node)
        try:
            for proposal in self._small_proposals(field):
                if exceeds(proposal, MAX_PARTS):
                    reason = f"a value has more than {MAX_PARTS} parts"
                elif self._checks.admits(field, proposal):
                    return proposal
        except NoCustomResourceError:
            if field.node.nullable:
                return None
            raise
        raise NoCustomResourceError(path, reason)

    def _small_proposals(self, field: SchemaField) -> Iterator[JsonValue]:
        node = field.node
        authored = (get_path(example, field.path, None) for example in self._examples)
        yield from (value for value in authored if isinstance(value, str | int | float))
        if node.has_default:
            yield node.default
        shape = self.shape(field)
        if shape is not None and (field.required or not _CONTAINERS.intersection(node.types)):
            yield from (one.value for one in shape_values(shape, field, None) if one.value_class is ValueClass.VALID)
        kinds = node.types or (("object",) if node.properties or node.preserve or node.embedded else ())
        if kinds == ("object",):
            yield from self._small_objects(field)
        elif kinds == ("array",):
            yield self.elements(field, max(int(node.limit("minItems") or 0), 0))
        else:
            proposals = [*alternative_values(node), *rule_values(field)]
            for wanted_class in (ValueClass.VALID, ValueClass.BOUNDARY):
                yield from (one.value for one in proposals if one.value_class is wanted_class)
        if node.nullable:
            yield None

    # -------------------------------------------------------------- objects
    def _small_objects(self, field: SchemaField) -> Iterator[JsonObject]:
        """Yield objects with the required fields, then with another value of one, or with one or more of the others."""
        bases = self._bases(field)
        if field.parent is not None and self.shape(field.parent) is Shape.CONTAINERS:
            yield {**bases[0], "image": self.smallest(field.properties["image"])}
        yield from bases
        by_rules = {
            name: one.value for name, below in field.properties.items() for one in islice(rule_values(below), 1)
        }
        yield {**bases[0], **by_rules}
        for name, below in field.properties.items():
            if name in bases[0] and not _CONTAINERS.intersection(below.node.types):
                yield from ({**bases[0], name: one.value} for one in [*rule_values(below), *scalar_values(below.node)])
        optional = [below for name, below in field.properties.items() if name not in bases[0]]
        for below in optional[:MAX_ITEMS]:
            if self.has_value(below):
                yield {**bases[0], below.name: self.smallest(below)}
        least = min(int(field.node.limit("minProperties") or 0), MAX_ITEMS)
        yield self.grown(field, bases[0], least)

    def _bases(self, field: SchemaField) -> list[JsonObject]:
        """Return an object for each alternative that has one.

        Raises:
            NoCustomResourceError: none has.
        """
        bases: list[JsonObject] = []
        errors: list[NoCustomResourceError] = []
        for alternative in _alternatives(field.node):
            try:
                bases.append(self._object(field, alternative))
            except NoCustomResourceError as error:
                errors.append(error)
        if not bases:
            raise errors[0]
        return bases

    def _object(self, field: SchemaField, alternative: SchemaNode) -> JsonObject:
        """Return an object with the fields that the schema and one of its alternatives require."""
        obj: JsonObject = dict(_EMBEDDED) if field.node.embedded else {}
        for name in dict.fromkeys((*field.node.required, *alternative.required, *_required_by_all(field.node))):
            below = field.properties.get(name)
            if below is None:
                entries = field.entries
                obj.setdefault(name, "example" if entries is None else self.smallest(entries))
            elif not below.node.has_default:
                obj[name] = self.smallest(below)
        for name, restricted in alternative.properties.items():
            below = field.properties.get(name)
            if below is not None and below.node.types not in (("object",), ("array",)):
                values = [one.value for one in alternative_values(restricted)]
                fitting = [one for one in values if self._checks.admits(below, one)]
                if fitting:
                    obj[name] = fitting[0]
        return obj

    def grown(self, field: SchemaField, base: JsonObject, count: int) -> JsonObject:
        """Return an object with at least `count` fields or entries, if there are so many."""
        grown = dict(base)
        for name, below in field.properties.items():
            if len(grown) < count and name not in grown and self.has_value(below):
                grown[name] = self.smallest(below)
        keys = (ENTRY, *(f"{ENTRY}-{number}" for number in range(1, MAX_ITEMS + 1)))
        for key in keys if field.entries is not None or field.node.preserve or field.node.open else ():
            if len(grown) < count:
                grown[key] = "example" if field.entries is None else self.smallest(field.entries)
        return grown

    # -------------------------------------------------------------- lists
    def elements(self, field: SchemaField, count: int) -> list[JsonValue]:
        """Return a list of `count` elements; a set or map list has fewer if there are not as many different ones."""
        count = min(count, MAX_ITEMS)
        if count <= 0:
            return []
        elements = ["example"] if field.items is None else self.several(field.items, count)
        if field.node.list_type not in ("set", "map"):
            elements += elements[:1] * (count - len(elements))
        return elements

    def several(self, field: SchemaField, count: int) -> list[JsonValue]:
        """Return up to `count` different values of a list's elements; of map lists, with different keys."""
        if field.node.types == ("object",):
            return self._several_objects(field, count)
        values = [self.smallest(field)]
        if field.node.types and not _CONTAINERS.isdisjoint(field.node.types):
            return values
        for proposal in _more_scalars(field.node, count):
            if len(values) < count and proposal not in values and self._checks.admits(field, proposal):
                values.append(proposal)
        return values[:count]

    def _several_objects(self, field: SchemaField, count: int) -> list[JsonValue]:
        base = self.smallest(field)
        if not isinstance(base, dict):
            return [base]
        keys = field.parent.node.list_keys if field.parent is not None else ()
        names = keys or (*field.node.required, *field.properties)[:MAX_ITEMS]
        for name in names:
            below = field.properties.get(name)
            if below is None or not _CONTAINERS.isdisjoint(below.node.types) or not self.has_value(below):
                continue
            variants = [{**base, name: value} for value in self.several(below, count)]
            if len(variants) >= count:
                return variants
        return [base]


def exceeds(value: JsonValue, most: int) -> bool:
    """Report whether a value has more than `most` parts. Lists that share elements count each time.

    >>> exceeds([[1, 2], [3]], 5), exceeds([[1, 2], [3]], 6)
    (True, False)
    """
    count = 0
    pending = [value]
    while pending and count <= most:
        one = pending.pop()
        count += 1
        if isinstance(one, dict | list):
            pending.extend(one.values() if isinstance(one, dict) else one)
    return count + len(pending) > most


def _more_scalars(node: SchemaNode, count: int) -> Iterator[JsonValue]:
    """Yield the values of a schema, then numbered ones."""
    yield from (one.value for one in alternative_values(node) if one.value_class is not ValueClass.BEYOND)
    low = node.limit("minimum")
    start = int(low) if isinstance(low, int | float) and -(2**53) < low < 2**53 else 0
    for number in range(1, count + 2):
        if "string" in node.types:
            yield f"{ENTRY}-{number}"
            yield "abcdefghijklmnopqrstuvwxyz0123456789"[number % 36]
        else:
            yield start + number


def _alternatives(node: SchemaNode) -> list[SchemaNode]:
    """Return the alternatives of an object's schema; without any, one that requires nothing."""
    return [*node.one_of, *node.any_of][:MAX_ALTERNATIVES] or [SchemaNode({})]


def _required_by_all(node: SchemaNode) -> list[str]:
    return [name for one in node.all_of for name in one.required]


def _limits(node: SchemaNode) -> str:
    """Return the keywords that leave no value."""
    keywords: Mapping[str, JsonValue] = node.schema
    limits = [f"{name} {str(keywords[name])[:100]}" for name in _LIMITS if keywords.get(name) is not None]
    return f"no value that was tried fits {', '.join(limits)}" if limits else "no value fits its type"
