"""CEL values: Python's own types and the types that Python lacks.

bool, int, float, str, bytes, None, list and dict represent themselves. An integer is signed unless it is a `UInt`.

Upstream: github.com/google/cel-go/common/types.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as attribute
from typing import ClassVar, Final

import msgspec

from opsdk.cel import types
from opsdk.cel.errors import CelEvaluationError
from opsdk.cel.types import Type, TypeKind, Value


class UInt(int):
    """A uint64."""

    __slots__ = ()


class Duration(msgspec.Struct, order=True, frozen=True):
    """A duration in nanoseconds."""

    nanoseconds: int


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A timestamp in nanoseconds since 1970; `offset` is the UTC offset of its original time zone, in seconds."""

    nanoseconds: int
    offset: int = attribute(default=0, compare=False, repr=False)


_NOTHING: Final = object()


class Optional:
    """An optional value.

    >>> Optional.of(1).has_value, Optional.none().has_value
    (True, False)
    """

    __slots__ = ("_value",)

    def __init__(self, value: Value) -> None:
        self._value = value

    @classmethod
    def of(cls, value: Value) -> Optional:
        """Return an optional with a value."""
        return cls(value)

    @classmethod
    def none(cls) -> Optional:
        """Return the optional without a value."""
        return _NONE

    @property
    def has_value(self) -> bool:
        """Whether it has a value."""
        return self._value is not _NOTHING

    @property
    def value(self) -> Value:
        """The value.

        Raises:
            CelEvaluationError: it has no value.
        """
        if self._value is _NOTHING:
            raise CelEvaluationError("optional.none() dereference")
        return self._value


_NONE: Final = Optional(_NOTHING)


class Opaque(ABC):
    """A value of a library's opaque type."""

    __slots__ = ()
    cel_type: ClassVar[Type]

    @abstractmethod
    def equals(self, other: Value) -> bool:
        """Report whether the values are equal."""


class CelObject(ABC):
    """An object with named fields."""

    __slots__ = ()

    @property
    @abstractmethod
    def cel_type(self) -> Type:
        """The type."""

    @abstractmethod
    def find(self, field: str) -> Optional:
        """Return the value of a field, if it is set."""

    @abstractmethod
    def equals(self, other: Value) -> bool:
        """Report whether the other object has equal fields."""

    @abstractmethod
    def size(self) -> int:
        """Return the number of set fields."""


class ListView(Sequence[Value]):
    """A list with its own equality or concatenation."""

    __slots__ = ()

    @abstractmethod
    def equals(self, other: Value) -> bool:
        """Report whether the lists are equal."""

    @abstractmethod
    def plus(self, other: Sequence[Value]) -> Sequence[Value]:
        """Return the concatenation of both lists."""


class MapView(Mapping[Value, Value]):
    """A map that converts its entries on access."""

    __slots__ = ()


Listed: Final = (list, tuple, ListView)
"""The Python types of CEL lists."""
Mapped: Final = (dict, MapView)
"""The Python types of CEL maps."""


# ------------------------------------------------------------------ types
_TYPES: Final[dict[type, Type]] = {
    bool: types.BOOL,
    int: types.INT,
    UInt: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    type(None): types.NULL,
    Timestamp: types.TIMESTAMP,
    Duration: types.DURATION,
    list: types.LIST,
    tuple: types.LIST,
    dict: types.MAP,
    Type: types.TYPE,
    Optional: types.optional_of(types.DYN),
}


def type_of(value: Value) -> Type:
    """Return the type of a value, without the types of its contents.

    >>> type_of(1).name, type_of(UInt(1)).name, type_of([1]).name
    ('int', 'uint', 'list')
    """
    known_type = _TYPES.get(type(value))
    if known_type is not None:
        return known_type
    if isinstance(value, Opaque | CelObject):
        return value.cel_type
    if isinstance(value, ListView):
        return types.LIST
    if isinstance(value, MapView):
        return types.MAP
    raise CelEvaluationError(f"unsupported value: {type(value).__name__}")


_KINDS: Final[dict[type, TypeKind]] = {python: cel.kind for python, cel in _TYPES.items()}


def kind_of(value: Value) -> TypeKind:
    """Return the kind of a value's type."""
    known_kind = _KINDS.get(type(value))
    return known_kind if known_kind is not None else type_of(value).kind


NUMERIC: Final = frozenset({TypeKind.INT, TypeKind.UINT, TypeKind.DOUBLE})
_COMPARABLE: Final = frozenset({TypeKind.BOOL, TypeKind.STRING, TypeKind.BYTES, TypeKind.TIMESTAMP, TypeKind.DURATION})


# ------------------------------------------------------------------ equality and order
def equal(left: Value, right: Value) -> bool:
    """Report whether two values are equal. Numbers compare by value; other values must have the same type.

    >>> equal(1, 1.0), equal(1, True), equal([1], [UInt(1)]), equal("1", 1)
    (True, False, True, False)
    """
    one, other = kind_of(left), kind_of(right)
    if one in NUMERIC:
        return other in NUMERIC and bool(left == right)
    if isinstance(left, Opaque | CelObject | ListView):
        return bool(left.equals(right))
    if one is not other:
        return False
    if one is TypeKind.LIST:
        return len(left) == len(right) and all(map(equal, left, right))
    if one is TypeKind.MAP:
        return _equal_maps(left, right)
    if isinstance(left, Optional):
        return _equal_optionals(left, right)
    if isinstance(left, Type):
        return bool(left.name == right.name)
    return bool(left == right)


def _equal_maps(left: Mapping[Value, Value], right: Mapping[Value, Value]) -> bool:
    if len(left) != len(right):
        return False
    for key, value in left.items():
        entry = find_key(right, key)
        if not entry.has_value or not equal(value, entry.value):
            return False
    return True


def _equal_optionals(left: Optional, right: Optional) -> bool:
    if not left.has_value or not right.has_value:
        return left.has_value == right.has_value
    return equal(left.value, right.value)


def compare(left: Value, right: Value) -> int:
    """Return -1, 0 or 1.

    Raises:
        CelEvaluationError: the values have no order, or one of them is NaN.
    """
    one, other = kind_of(left), kind_of(right)
    if not (one is other and one in _COMPARABLE) and not (one in NUMERIC and other in NUMERIC):
        raise no_such_overload()
    if one is TypeKind.DOUBLE and math.isnan(left):
        raise CelEvaluationError("NaN values cannot be ordered")
    if other is TypeKind.DOUBLE and math.isnan(right):
        raise CelEvaluationError("NaN values cannot be ordered")
    return int(left > right) - int(left < right)


def no_such_overload() -> CelEvaluationError:
    """Return the error of an operator without an overload for its values."""
    return CelEvaluationError("no such overload")


# ------------------------------------------------------------------ containers
_BOOLEAN_LIKE: Final = frozenset({0, 1})


def find_key(entries: Mapping[Value, Value], key: Value) -> Optional:
    """Return the value of a key, if it exists: equal numbers are the same key, and booleans are not numbers."""
    if isinstance(key, (list, dict, ListView, MapView, CelObject, Opaque, Optional)):
        return Optional.none()
    if isinstance(key, bool | int | float) and key in _BOOLEAN_LIKE:
        for own, value in entries.items():
            if isinstance(own, bool) is isinstance(key, bool) and own == key and not isinstance(own, str):
                return Optional.of(value)
        return Optional.none()
    value = entries.get(key, _NOTHING)
    return _NONE if value is _NOTHING else Optional.of(value)


def index(container: Value, key: Value) -> Value:
    """Return the element at an index, or the value of a key.

    Raises:
        CelEvaluationError: there is no such element.
    """
    result = find_index(container, key)
    if result.has_value:
        return result.value
    if isinstance(container, Listed):
        raise CelEvaluationError(f"index out of bounds: {show(key)}")
    raise CelEvaluationError(f"no such key: {show(key)}")


def find_index(container: Value, key: Value) -> Optional:
    """Return the element at an index or the value of a key, if it exists; other values have no elements."""
    if isinstance(container, Listed):
        if isinstance(key, bool) or not isinstance(key, int | float):
            raise CelEvaluationError(f"unsupported index type '{type_of(key).runtime_name}' in list")
        if isinstance(key, float) and not key.is_integer():
            raise CelEvaluationError(f"unsupported index value {show(key)} in list")
        position = int(key)
        return Optional.of(container[position]) if 0 <= position < len(container) else Optional.none()
    if isinstance(container, Mapped):
        return find_key(container, key)
    if isinstance(container, CelObject) and isinstance(key, str):
        return container.find(key)
    return Optional.none()


def find_field(operand: Value, name: str) -> Optional:
    """Return a field of an object or the value of a map's key, if it exists."""
    if isinstance(operand, CelObject):
        return operand.find(name)
    if isinstance(operand, Mapped):
        value = operand.get(name, _NOTHING)
        return _NONE if value is _NOTHING else Optional.of(value)
    return find_index(operand, name)


def field(operand: Value, name: str) -> Value:
    """Return a field of an object or the value of a map's key.

    Raises:
        CelEvaluationError: there is no such field.
    """
    result = find_field(operand, name)
    if not result.has_value:
        raise CelEvaluationError(f"no such key: {name}")
    return result.value


def contains(container: Value, value: Value) -> bool:
    """Report whether a list has an element, or a map a key."""
    if isinstance(container, Listed):
        return any(equal(value, element) for element in container)
    if isinstance(container, Mapped):
        return find_key(container, value).has_value
    if isinstance(container, CelObject) and isinstance(value, str):
        return container.find(value).has_value
    raise no_such_overload()


def size(value: Value) -> int | None:
    """Return the result of ``size``: code points, bytes, elements or entries; None for other values."""
    return len(value) if isinstance(value, (str, bytes, *Listed, *Mapped)) else None


def elements(container: Value) -> Iterator[Value]:
    """Yield the values of a comprehension: elements of a list, keys of a map."""
    if isinstance(container, (*Listed, *Mapped)):
        return iter(container)
    raise not_iterable(container)


def not_iterable(value: Value) -> CelEvaluationError:
    """Return the error of a comprehension over another value."""
    kind = kind_of(value)
    name = _GO_NAMES.get(kind) or kind.value.capitalize()
    return CelEvaluationError(f"got 'types.{name}', expected iterable type")


_GO_NAMES: Final = {TypeKind.TIMESTAMP: "Timestamp", TypeKind.DURATION: "Duration"}


_FIRST_MOMENT: Final = -62135596800 * 10**9
"""The start of year 1, in nanoseconds since 1970."""


def is_zero(value: Value) -> bool:
    """Report whether a value is the zero value of its type."""
    if isinstance(value, CelObject):
        return value.size() == 0
    if isinstance(value, Optional):
        return not value.has_value
    if isinstance(value, Duration):
        return value.nanoseconds == 0
    if isinstance(value, Timestamp):
        return value.nanoseconds == _FIRST_MOMENT
    if isinstance(value, Opaque | Type):
        return False
    return not value


def show(value: Value) -> str:
    """Format a value for a message."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
