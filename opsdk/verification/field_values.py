"""The values of each field: by its shape, its keywords and its type. Pure.

Other modules propose values; this one keeps those that the validator of the server admits, and those that it refuses
where they are meant to be beyond the schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from opsdk.apiserver.structural.node import SchemaNode
from opsdk.apiserver.structural.rule_locations import RULES
from opsdk.structured_merge.value import JsonObject, JsonValue
from opsdk.verification.errors import NoCustomResourceError
from opsdk.verification.field_checks import FieldChecks
from opsdk.verification.scalar_values import scalar_values
from opsdk.verification.schema_fields import ENTRY, Field, Path, field_path
from opsdk.verification.shape_values import MAX_REPLICAS, shape_values
from opsdk.verification.shapes import STRICTER, Shape, shape_of
from opsdk.verification.values import ABSENT, FieldValue, ValueClass, beyond, boundary, misoperation, valid

MAX_ITEMS: Final = 64
"""Elements of the longest generated list, and entries of the largest map."""
MAX_SET: Final = 30
"""Fields that the value with "every field set" has."""
_MAX_ALTERNATIVES: Final = 10
_MAX_LITERALS: Final = 5
_MAX_RULE: Final = 2000
_LITERAL: Final = re.compile(r"""['"]([^'"\\]{1,60})['"]""")
_EMBEDDED: Final[JsonObject] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": ENTRY}}
_LIMITS: Final = (
    *("enum", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "pattern", "minItems", "maxItems", "minProperties", "maxProperties", "required"),
    *("allOf", "anyOf", "oneOf", "not", "x-kubernetes-validations"),
)
"""Keywords that an error names."""
_CONTAINERS: Final = frozenset({"array", "object"})


class FieldValues:
    """Finds values for the fields of one schema, each once.

    >>> size = Field(("spec", "size"), SchemaNode({"type": "integer", "minimum": 1, "maximum": 5}))
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

    def __init__(self) -> None:
        self._checks = FieldChecks()
        self._smallest: dict[Path, JsonValue | NoCustomResourceError] = {}
        self._by_keywords: dict[Path, tuple[FieldValue, ...]] = {}
        self._shapes: dict[Path, Shape | None] = {}

    def shape(self, field: Field) -> Shape | None:
        """Return the shape of a field, or None."""
        if field.path not in self._shapes:
            self._shapes[field.path] = shape_of(field)
        return self._shapes[field.path]

    def values(self, field: Field, current: JsonValue) -> list[FieldValue]:
        """Return the values to try for a field whose value is `current` now, without equal ones."""
        shape = self.shape(field)
        by_shape = [] if shape is None else list(self._checked(field, shape_values(shape, field, current)))
        by_keywords: Iterable[FieldValue] = self._values_by_keywords(field)
        if shape is Shape.REFERENCE or any(one.value_class is ValueClass.VALID for one in by_shape):
            # Any string is a valid value for the schema, but it is no image, and no Secret that exists.
            by_keywords = [one for one in by_keywords if one.value_class is not ValueClass.VALID]
        if shape is Shape.REPLICAS:
            by_keywords = _as_replicas(by_keywords)
        if self.is_stricter(field):
            by_keywords = as_uncertain(by_keywords)
        return list(_distinct([*by_shape, *by_keywords, *_absence(field)]))

    def is_stricter(self, field: Field) -> bool:
        """Report whether Kubernetes may refuse values of a field that the schema admits."""
        return any(self.shape(one) in STRICTER for one in field.lineage())

    # -------------------------------------------------------------- one value
    def smallest(self, field: Field) -> JsonValue:
        """Return a small value that the schema admits; the same one each time.

        Raises:
            NoCustomResourceError: no proposal fits.
        """
        known = self._smallest.get(field.path)
        if known is None:
            try:
                known = self._first_fitting(field)
            except NoCustomResourceError as error:
                known = error
            self._smallest[field.path] = known
        if isinstance(known, NoCustomResourceError):
            raise known
        return known

    def _first_fitting(self, field: Field) -> JsonValue:
        # Not `yield`: a nested field without a value is the more precise error, if nothing else fits.
        nested: NoCustomResourceError | None = None
        proposals = self._small_proposals(field)
        while True:
            try:
                proposal = next(proposals, ABSENT)
            except NoCustomResourceError as error:
                nested = error
                break
            if proposal is ABSENT:
                break
            if self._checks.admits(field, proposal):
                return proposal
        raise nested or NoCustomResourceError(field_path(field.path), _limits(field.node))

    def _small_proposals(self, field: Field) -> Iterator[JsonValue]:
        node = field.node
        if node.has_default:
            yield node.default
        shape = self.shape(field)
        if shape is not None and (field.required or not _CONTAINERS.intersection(node.types)):
            yield from (one.value for one in shape_values(shape, field, None) if one.value_class is ValueClass.VALID)
        kinds = node.types or (("object",) if node.properties or node.preserve or node.embedded else ())
        if kinds == ("object",):
            yield from self._small_objects(field)
        elif kinds == ("array",):
            yield self._elements(field, max(int(node.limit("minItems") or 0), 0))
        else:
            proposals = [*_scalars(node), *_strings_of_rules(field)]
            for wanted_class in (ValueClass.VALID, ValueClass.BOUNDARY):
                yield from (one.value for one in proposals if one.value_class is wanted_class)
        if node.nullable:
            yield None

    # -------------------------------------------------------------- objects
    def _small_objects(self, field: Field) -> Iterator[JsonObject]:
        """Yield objects with the required fields, then with one or more of the others."""
        bases = [self._object(field, alternative) for alternative in _alternatives(field.node)]
        if field.parent is not None and self.shape(field.parent) is Shape.CONTAINERS:
            yield {**bases[0], "image": self.smallest(field.properties["image"])}
        yield from bases
        optional = [below for name, below in field.properties.items() if name not in bases[0]]
        for below in optional[:MAX_ITEMS]:
            if self._has_value(below):
                yield {**bases[0], below.path[-1]: self.smallest(below)}
        least = min(int(field.node.limit("minProperties") or 0), MAX_ITEMS)
        yield self._grown(field, bases[0], least)

    def _object(self, field: Field, alternative: SchemaNode) -> JsonObject:
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
                proposals = (one.value for one in _scalars(restricted) if self._checks.admits(below, one.value))
                obj[name] = next(proposals, obj.get(name))
        return obj

    def _grown(self, field: Field, base: JsonObject, count: int) -> JsonObject:
        """Return an object with at least `count` fields or entries, if there are so many."""
        grown = dict(base)
        for name, below in field.properties.items():
            if len(grown) < count and name not in grown and self._has_value(below):
                grown[name] = self.smallest(below)
        keys = (ENTRY, *(f"{ENTRY}-{number}" for number in range(1, MAX_ITEMS + 1)))
        for key in keys if field.entries is not None or field.node.preserve or field.node.open else ():
            if len(grown) < count:
                grown[key] = "example" if field.entries is None else self.smallest(field.entries)
        return grown

    def _has_value(self, field: Field) -> bool:
        try:
            self.smallest(field)
        except NoCustomResourceError:
            return False
        return True

    def _object_values(self, field: Field) -> Iterator[FieldValue]:
        base = self.smallest(field)
        if not isinstance(base, dict):
            return
        if field.properties:
            yield valid(base, "only the required fields")
            everything = {name: self.smallest(below) for name, below in field.properties.items() if self._has_value(below)}
            if len(everything) <= MAX_SET:
                yield valid({**base, **everything}, "every field set")
            yield boundary({}, "an object without fields")
        if field.node.preserve and not field.properties:
            yield valid({**base, ENTRY: "value"}, "an object with a field that the schema does not name")
            yield boundary({**base, ENTRY: {"nested": [1, "two", True]}}, "an object with nested values")
        if field.node.additional is not None or field.node.open:
            yield from self._map_values(field, base)
        yield beyond("text", "a string in the place of an object")

    def _map_values(self, field: Field, base: JsonObject) -> Iterator[FieldValue]:
        yield boundary(base, "no entries" if not base else "only the required entries")
        yield valid(self._grown(field, base, len(base) + 1), "one entry")
        yield valid(self._grown(field, base, len(base) + 2), "two entries")
        most = field.node.limit("maxProperties")
        if isinstance(most, int) and most < MAX_ITEMS:
            yield boundary(self._grown(field, base, most), "as many entries as are allowed")
            yield beyond(self._grown(field, base, most + 1), "too many entries")
        if field.node.limit("minProperties"):
            yield beyond({}, "too few entries")

    # -------------------------------------------------------------- lists
    def _elements(self, field: Field, count: int) -> list[JsonValue]:
        if count and field.items is None:
            return ["example"] * min(count, MAX_ITEMS)
        return [] if field.items is None or not count else self.several(field.items, min(count, MAX_ITEMS))

    def _list_values(self, field: Field) -> Iterator[FieldValue]:
        least, most = field.node.limit("minItems") or 0, field.node.limit("maxItems")
        for count, reason in ((1, "one element"), (2, "two elements")):
            elements = self._elements(field, count)
            if len(elements) == count:
                yield valid(elements, reason)
        yield boundary([], "no elements")
        if least:
            yield boundary(self._elements(field, least), "as few elements as are allowed")
            yield beyond(self._elements(field, least - 1), "too few elements")
        if isinstance(most, int) and most < MAX_ITEMS:
            yield boundary(self._elements(field, most), "as many elements as are allowed")
            yield beyond(self._elements(field, most + 1), "too many elements")
        pair = self._elements(field, 1) * 2
        if field.node.list_type in ("set", "map"):
            yield beyond(pair, "the same element twice")
        else:
            yield boundary(pair, "the same element twice")
        yield beyond("text", "a string in the place of a list")

    def several(self, field: Field, count: int) -> list[JsonValue]:
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

    def _several_objects(self, field: Field, count: int) -> list[JsonValue]:
        base = self.smallest(field)
        if not isinstance(base, dict):
            return [base]
        keys = field.parent.node.list_keys if field.parent is not None else ()
        names = keys or (*field.node.required, *field.properties)[:MAX_ITEMS]
        for name in names:
            below = field.properties.get(name)
            if below is None or not _CONTAINERS.isdisjoint(below.node.types) or not self._has_value(below):
                continue
            variants = [{**base, name: value} for value in self.several(below, count)]
            if len(variants) >= count:
                return variants
        return [base]

    # -------------------------------------------------------------- all values
    def _values_by_keywords(self, field: Field) -> tuple[FieldValue, ...]:
        if field.path not in self._by_keywords:
            try:
                proposals = list(self._proposals(field))
            except NoCustomResourceError:
                proposals = []
            self._by_keywords[field.path] = tuple(self._checked(field, proposals))
        return self._by_keywords[field.path]

    def _proposals(self, field: Field) -> Iterator[FieldValue]:
        node = field.node
        if node.has_default:
            yield valid(node.default, "the default")
        if node.types == ("array",):
            yield from self._list_values(field)
        elif node.types == ("object",) or (not node.types and (node.preserve or node.properties)):
            yield from self._object_values(field)
        else:
            yield from _scalars(node)
            yield from _strings_of_rules(field)
        if node.nullable:
            yield boundary(None, "null")

    def _checked(self, field: Field, proposals: Iterable[FieldValue]) -> Iterator[FieldValue]:
        """Yield the proposals that the schema admits; of those beyond it, those that it refuses."""
        for proposal in proposals:
            if self._checks.admits(field, proposal.value) == (proposal.value_class is not ValueClass.BEYOND):
                yield proposal


# ------------------------------------------------------------------ proposals
def _scalars(node: SchemaNode) -> Iterator[FieldValue]:
    """Yield values by the keywords of a schema and of its alternatives."""
    for index, one in enumerate((node, *node.all_of, *node.any_of, *node.one_of)):
        if index <= _MAX_ALTERNATIVES:
            for proposal in scalar_values(one):
                suffix = f" (alternative {index})" if index else ""
                yield FieldValue(proposal.value, proposal.value_class, f"{proposal.reason}{suffix}")


def _strings_of_rules(field: Field) -> Iterator[FieldValue]:
    """Yield strings with the literals in rules of a string and of its parent, such as ``self.startsWith('/')``."""
    if "string" not in field.node.types:
        return
    rules = [str(rule.get("rule", "")) for rule in field.node.schema.get(RULES) or ()]
    above = () if field.parent is None else field.parent.node.schema.get(RULES) or ()
    rules += [text for rule in above if f"self.{field.name}" in (text := str(rule.get("rule", "")))]
    literals = dict.fromkeys(literal for rule in rules for literal in _LITERAL.findall(rule[:_MAX_RULE]))
    for literal in list(literals)[:_MAX_LITERALS]:
        for text in (f"{literal}{ENTRY}", f"{ENTRY}{literal}", literal):
            yield valid(text, f"the string {text!r} by a rule")


def _more_scalars(node: SchemaNode, count: int) -> Iterator[JsonValue]:
    """Yield the values of a schema, then numbered ones."""
    yield from (one.value for one in _scalars(node) if one.value_class is not ValueClass.BEYOND)
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
    return [*node.one_of, *node.any_of][:_MAX_ALTERNATIVES] or [SchemaNode({})]


def _required_by_all(node: SchemaNode) -> list[str]:
    return [name for one in node.all_of for name in one.required]


def _absence(field: Field) -> Iterator[FieldValue]:
    """Yield the absent value."""
    if not field.required:
        yield boundary(ABSENT, "not set")
    elif field.node.has_default:
        yield boundary(ABSENT, "not set, so that the default applies")
    else:
        yield beyond(ABSENT, "a required field that is not set")


def _as_replicas(values: Iterable[FieldValue]) -> Iterator[FieldValue]:
    """Yield what makes sense for replicas: not thousands, and fewer than zero only as a misoperation."""
    for one in values:
        if one.value_class is ValueClass.BEYOND or not isinstance(one.value, int):
            yield one
        elif one.value < 0:
            yield misoperation(one.value, "a negative number of replicas")
        elif one.value <= MAX_REPLICAS:
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


def _limits(node: SchemaNode) -> str:
    """Return the keywords that leave no value."""
    keywords: Mapping[str, JsonValue] = node.schema
    limits = [f"{name} {str(keywords[name])[:100]}" for name in _LIMITS if keywords.get(name) is not None]
    return f"no value that was tried fits {', '.join(limits)}" if limits else "no value fits its type"
