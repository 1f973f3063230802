"""CEL values of JSON trees, converted lazily by their schema.

Upstream: k8s.io/apiserver/pkg/cel/common (v1.36).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, overload

from opsdk.apiserver.expressions.escaping import escape, spellings
from opsdk.apiserver.expressions.schema_types import Schema, with_metadata
from opsdk.apiserver.strfmt import WORD_DURATION
from opsdk.cel.errors import CelEvaluationError
from opsdk.cel.times import parse_duration, parse_timestamp
from opsdk.cel.types import Type, Value
from opsdk.cel.values import CelObject, Duration, Listed, ListView, MapView, Optional, contains, equal, find_field
from opsdk.structured_merge.equality import deep_equal
from opsdk.structured_merge.go_format import go_typename
from opsdk.structured_merge.value import JsonValue

Convert = Callable[[Value], Value]
"""Converts JSON to a CEL value."""


class SchemaObject(CelObject):
    """An object that exposes only its declared fields."""

    __slots__ = ("_shape", "tree")

    def __init__(self, tree: Mapping[str, Value], shape: _ObjectShape) -> None:
        self.tree = tree
        self._shape = shape

    @property
    def cel_type(self) -> Type:
        return self._shape.type

    def find(self, field: str) -> Optional:
        """See `CelObject`; a null field is absent."""
        field_shape = self._shape.fields.get(field)
        if field_shape is None:
            return Optional.none()
        name, convert = field_shape
        value = self.tree.get(name)
        return Optional.none() if value is None else Optional.of(convert(value))

    def size(self) -> int:
        return len(self.tree)

    def equals(self, other: Value) -> bool:
        """See `CelObject`: declared fields by their values, others by their JSON."""
        if not isinstance(other, SchemaObject) or len(self.tree) != len(other.tree):
            return False
        declared = {name for name, _ in self._shape.fields.values()}
        for name, value in self.tree.items():
            if name not in other.tree:
                return False
            if name not in declared and not deep_equal(value, other.tree[name]):
                return False
        for field in self._shape.fields:
            own, others = self.find(field), other.find(field)
            if own.has_value != others.has_value or (own.has_value and not equal(own.value, others.value)):
                return False
        return True


class _ObjectShape:
    """The parts of objects that depend on the schema only."""

    __slots__ = ("fields", "type")

    def __init__(self, schema: Schema, type_: Type) -> None:
        self.type = type_
        self.fields: dict[str, tuple[str, Convert]] = {}
        for name, below in (schema.get("properties") or {}).items():
            for field in spellings(name):
                if field in type_.fields:
                    self.fields[field] = (name, converter(below, type_.fields[field]))


class SchemaList(ListView):
    """A list that converts its elements on access."""

    __slots__ = ("_convert", "tree")

    def __init__(self, tree: Sequence[JsonValue], convert: Convert) -> None:
        self.tree = tree
        self._convert = convert

    @overload
    def __getitem__(self, at: int) -> Value: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Value]: ...
    def __getitem__(self, at: int | slice) -> Value:
        if isinstance(at, slice):
            return [self._convert(one) for one in self.tree[at]]
        return self._convert(self.tree[at])

    def __len__(self) -> int:
        return len(self.tree)

    def __iter__(self) -> Iterator[Value]:
        return map(self._convert, self.tree)

    def equals(self, other: Value) -> bool:
        """See `ListView`: compares in order."""
        return isinstance(other, Listed) and len(self) == len(other) and all(map(equal, self, other))

    def plus(self, other: Sequence[Value]) -> Sequence[Value]:
        return [*self, *other]


class SchemaSet(SchemaList):
    """A list with ``x-kubernetes-list-type: set``."""

    __slots__ = ()

    def equals(self, other: Value) -> bool:
        """Report whether both have the same elements in any order."""
        return isinstance(other, Listed) and len(self) == len(other) and all(contains(other, one) for one in self)

    def plus(self, other: Sequence[Value]) -> Sequence[Value]:
        """Return the union of both sets."""
        return SchemaSet([*self, *(one for one in other if not contains(self, one))], _unchanged)


class SchemaMapList(SchemaList):
    """A list with ``x-kubernetes-list-type: map``."""

    __slots__ = ("_keys",)

    def __init__(self, tree: Sequence[JsonValue], convert: Convert, keys: Sequence[str]) -> None:
        super().__init__(tree, convert)
        self._keys = keys

    def _key(self, element: Value) -> list[Value]:
        return [find_field(element, key) for key in self._keys]

    def _find(self, elements: Sequence[Value], value: Value) -> int | None:
        key = self._key(value)
        return next((index for index, one in enumerate(elements) if equal(self._key(one), key)), None)

    def equals(self, other: Value) -> bool:
        """Report whether both have equal elements for the same keys, in any order."""
        if not isinstance(other, Listed) or len(self) != len(other):
            return False
        others = list(other)
        for element in self:
            index = self._find(others, element)
            if index is None or not equal(element, others[index]):
                return False
        return True

    def plus(self, other: Sequence[Value]) -> Sequence[Value]:
        """Merge by keys: elements of the other list replace those with equal keys; new ones are appended."""
        merged = list(self)
        for element in other:
            index = self._find(merged, element)
            if index is None:
                merged.append(element)
            else:
                merged[index] = element
        return SchemaMapList(merged, _unchanged, self._keys)


class SchemaMap(MapView):
    """A map that converts its values on access."""

    __slots__ = ("_convert", "tree")

    def __init__(self, tree: Mapping[str, Value], convert: Convert) -> None:
        self.tree = tree
        self._convert = convert

    def __getitem__(self, key: Value) -> Value:
        return self._convert(self.tree[key])

    def __iter__(self) -> Iterator[Value]:
        return iter(self.tree)

    def __len__(self) -> int:
        return len(self.tree)


# ------------------------------------------------------------------ conversions
def converter(schema: Schema, type_: Type, *, resource: bool = False) -> Convert:
    """Return the converter from a schema's JSON to CEL values; `type_` is the declared type."""
    if schema.get("x-kubernetes-int-or-string"):
        return _unchanged
    if resource or schema.get("x-kubernetes-embedded-resource"):
        schema = with_metadata(schema)
    match schema.get("type"):
        case "array":
            return _only_of_type(list, _list_converter(schema, type_))
        case "object" if type_.params:
            convert = converter(schema["additionalProperties"], type_.params[1])
            return _unchanged if convert is _unchanged else _only_of_type(dict, lambda tree: SchemaMap(tree, convert))
        case "object":
            return _only_of_type(dict, _object_converter(schema, type_))
        case "integer":
            return _integer
        case "number":
            return lambda tree: float(tree) if isinstance(tree, int) and not isinstance(tree, bool) else tree
        case "string":
            return _only_of_type(str, _STRINGS.get(schema.get("format") or "", _unchanged))
    return _unchanged


def _object_converter(schema: Schema, type_: Type) -> Convert:
    shapes: list[_ObjectShape] = []

    def convert(tree: JsonValue) -> JsonValue:
        if not shapes:
            shapes.append(_ObjectShape(schema, type_))
        return SchemaObject(tree, shapes[0])

    return convert


def _list_converter(schema: Schema, type_: Type) -> Convert:
    convert = converter(schema["items"], type_.params[0])
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return lambda tree: SchemaSet(tree, convert)
        case "map":
            keys = [escape(key) or key for key in schema.get("x-kubernetes-list-map-keys") or ()]
            return lambda tree: SchemaMapList(tree, convert, keys)
    if convert is _integer:
        return lambda tree: list(map(_integer, tree)) if float in map(type, tree) else tree
    return _unchanged if convert is _unchanged else lambda tree: SchemaList(tree, convert)


def _unchanged(tree: JsonValue) -> JsonValue:
    return tree


def _only_of_type(python: type, convert: Convert) -> Convert:
    """Convert only values of the expected type; null and values of an older schema are unchanged."""
    if convert is _unchanged:
        return convert
    return lambda tree: convert(tree) if isinstance(tree, python) else tree


def _integer(tree: JsonValue) -> JsonValue:
    return int(tree) if isinstance(tree, float) and tree.is_integer() else tree


def _unparsed(text: str, layout: str) -> str:
    return f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006"'


def _timestamp(text: str) -> JsonValue:
    timestamp = parse_timestamp(text.upper())
    if timestamp is None:
        raise CelEvaluationError(f"Invalid date-time formatted string {text}: {_unparsed(text, '2006-01-02T15:04:05')}")
    return timestamp


def _date(text: str) -> JsonValue:
    timestamp = parse_timestamp(f"{text}T00:00:00Z")
    if timestamp is None:
        raise CelEvaluationError(f"Invalid date formatted string {text}: {_unparsed(text, '2006-01-02')}")
    return timestamp


_SECOND: Final = 10**9
_LONGEST: Final = 1000
"""Most characters of a duration."""
_UNITS: Final = (
    (("ns",), "nano", 1),
    (("us", "µs"), "micro", 10**3),
    (("ms",), "milli", 10**6),
    (("s",), "sec", _SECOND),
    (("m",), "min", 60 * _SECOND),
    (("h", "hr"), "hour", 3600 * _SECOND),
    (("d",), "day", 86400 * _SECOND),
    (("w", "wk"), "week", 7 * 86400 * _SECOND),
)
"""Short names, prefix of long names, nanoseconds."""


def _duration(text: str) -> Duration:
    duration = parse_duration(text)
    if duration is not None:
        return duration
    pieces = WORD_DURATION.findall(text) if len(text) <= _LONGEST else []
    sizes = [
        (int(count), next((size for short, long, size in _UNITS if unit in short or unit.startswith(long)), 0))
        for count, unit in ((count, unit.lower()) for count, unit in pieces)
    ]
    if not any(size for _, size in sizes):
        raise CelEvaluationError(f"Invalid duration {text}: unable to parse {text} as duration")
    return Duration(sum(count * size for count, size in sizes))


_NO_BASE64: Final = re.compile(r"[^A-Za-z0-9+/]")


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        strange = _NO_BASE64.search(text)
        offset = strange.start() if strange else len(text) // 4 * 4
        reason = f"illegal base64 data at input byte {offset}"
        raise CelEvaluationError(f"Invalid byte formatted string {text}: {reason}") from None


_STRINGS: Final[dict[str, Convert]] = {
    "byte": _bytes,
    "date": _date,
    "date-time": _timestamp,
    "duration": _duration,
}


# ------------------------------------------------------------------ type mismatches of stored objects
_SCALARS: Final[dict[str, tuple[str, tuple[type, ...]]]] = {
    "string": ("string", (str,)),
    "boolean": ("bool", (bool,)),
    "integer": ("int", (int,)),
    "number": ("float", (int, float)),
}


def type_mismatch(tree: JsonValue, schema: Schema) -> str:
    """Return the error of a value whose type differs from its schema; empty if it matches.

    >>> type_mismatch(True, {"type": "string"})
    'invalid data, expected string, got bool'
    """
    kind = schema.get("type") or ""
    if schema.get("x-kubernetes-int-or-string"):
        if type(tree) not in (str, int):
            return "invalid data, expected XIntOrString value to be either a string or integer"
    elif kind == "object" and not isinstance(tree, dict):
        return "invalid data, expected a map for the provided schema with type=object"
    elif kind == "array" and not isinstance(tree, list):
        return "invalid data, expected an array for the provided schema with type=array"
    elif kind in _SCALARS:
        expected, allowed = _SCALARS[kind]
        whole = kind == "integer" and isinstance(tree, float) and tree.is_integer()
        if type(tree) not in allowed and not whole:
            return f"invalid data, expected {expected}, got {go_typename(tree)}"
    return ""
