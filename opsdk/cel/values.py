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
from opsdk.cel.types import Type, TypeKind, Value
from opsdk.errors import CelEvaluationError


class UInt(int):
    """An unsigned integer of 64 bits."""

    __slots__ = ()


class Duration(msgspec.Struct, order=True, frozen=True):
    """A length of time in nanoseconds."""

    nanoseconds: int


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A moment, in nanoseconds since 1970; `offset` is that of the zone it was written in, in seconds."""

    nanoseconds: int
    offset: int = attribute(default=0, compare=False, repr=False)


_NOTHING: Final = object()


class Optional:
    """A value, or none.

    >>> Optional.of(1).has_value, Optional.none().has_value
    (True, False)
    """

    __slots__ = ("_value",)

    def __init__(self, value: Value) -> None:
        self._value = value

    @classmethod
    def of(cls, value: Value) -> Optional:
        """With a value."""
        return cls(value)

    @classmethod
    def none(cls) -> Optional:
        """Without."""
        return _NONE

    @property
    def has_value(self) -> bool:
        """Whether there is one."""
        return self._value is not _NOTHING

    @property
    def value(self) -> Value:
        """The value.

        Raises:
            CelEvaluationError: there is none.
        """
        if self._value is _NOTHING:
            raise CelEvaluationError("optional.none() dereference")
        return self._value


_NONE: Final = Optional(_NOTHING)


class Opaque(ABC):
    """A value of a type that a library defines."""

    __slots__ = ()
    cel_type: ClassVar[Type]

    @abstractmethod
    def equals(self, other: Value) -> bool:
        """Whether the other is the same value."""


class CelObject(ABC):
    """An object with named fields."""

    __slots__ = ()

    @property
    @abstractmethod
    def cel_type(self) -> Type:
        """Its type."""

    @abstractmethod
    def find(self, field: str) -> Optional:
        """The value of a field, if it is there."""

    @abstractmethod
    def equals(self, other: Value) -> bool:
        """Whether the other has the same fields with the same values."""

    @abstractmethod
    def size(self) -> int:
        """How many fields are set."""


class ListView(Sequence[Value]):
    """A list with an equality or an addition of its own."""

    __slots__ = ()

    @abstractmethod
    def equals(self, other: Value) -> bool:
        """Whether the other counts as the same."""

    @abstractmethod
    def plus(self, other: Sequence[Value]) -> Sequence[Value]:
        """This and the other list."""


class MapView(Mapping[Value, Value]):
    """A map that reads its entries on access."""

    __slots__ = ()


Listed: Final = (list, tuple, ListView)
"""What counts as a list."""
Mapped: Final = (dict, MapView)
"""What counts as a map."""


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
    """The type of a value, without what it contains.

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
    """The sort of a value's type."""
    known_kind = _KINDS.get(type(value))
    return known_kind if known_kind is not None else type_of(value).kind


NUMERIC: Final = frozenset({TypeKind.INT, TypeKind.UINT, TypeKind.DOUBLE})
_COMPARABLE: Final = frozenset({TypeKind.BOOL, TypeKind.STRING, TypeKind.BYTES, TypeKind.TIMESTAMP, TypeKind.DURATION})


# ------------------------------------------------------------------ equality and order
def equal(left: Value, right: Value) -> bool:
    """Whether two values are the same; numbers are compared by what they mean, all else must have the same type.

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
    """-1, 0 or 1.

    Raises:
        CelEvaluationError: they have no order, or one of them is no number.
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
    """The operator does not take these values."""
    return CelEvaluationError("no such overload")


# ------------------------------------------------------------------ containers
_BOOLEAN_LIKE: Final = frozenset({0, 1})


def find_key(entries: Mapping[Value, Value], key: Value) -> Optional:
    """The value of a key, if it is there: numbers are the same key if they are equal, booleans are no numbers."""
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
    """An element by its index, or a value by its key.

    Raises:
        CelEvaluationError: it is not there.
    """
    result = find_index(container, key)
    if result.has_value:
        return result.value
    if isinstance(container, Listed):
        raise CelEvaluationError(f"index out of bounds: {show(key)}")
    raise CelEvaluationError(f"no such key: {show(key)}")


def find_index(container: Value, key: Value) -> Optional:
    """An element by its index or a value by its key, if it is there; what has neither has none."""
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
    """A field of an object or the value of a map's key, if it is there."""
    if isinstance(operand, CelObject):
        return operand.find(name)
    if isinstance(operand, Mapped):
        value = operand.get(name, _NOTHING)
        return _NONE if value is _NOTHING else Optional.of(value)
    return find_index(operand, name)


def field(operand: Value, name: str) -> Value:
    """A field of an object or the value of a map's key.

    Raises:
        CelEvaluationError: it is not there.
    """
    result = find_field(operand, name)
    if not result.has_value:
        raise CelEvaluationError(f"no such key: {name}")
    return result.value


def contains(container: Value, value: Value) -> bool:
    """Whether a list has an element, or a map a key."""
    if isinstance(container, Listed):
        return any(equal(value, element) for element in container)
    if isinstance(container, Mapped):
        return find_key(container, value).has_value
    if isinstance(container, CelObject) and isinstance(value, str):
        return container.find(value).has_value
    raise no_such_overload()


def size(value: Value) -> int | None:
    """What ``size`` says: code points, bytes, elements or entries; None for what has no size."""
    return len(value) if isinstance(value, (str, bytes, *Listed, *Mapped)) else None


def elements(container: Value) -> Iterator[Value]:
    """What a fold goes over: elements of a list, keys of a map."""
    if isinstance(container, (*Listed, *Mapped)):
        return iter(container)
    raise not_iterable(container)


def not_iterable(value: Value) -> CelEvaluationError:
    """A fold cannot go over this."""
    kind = kind_of(value)
    name = _GO_NAMES.get(kind) or kind.value.capitalize()
    return CelEvaluationError(f"got 'types.{name}', expected iterable type")


_GO_NAMES: Final = {TypeKind.TIMESTAMP: "Timestamp", TypeKind.DURATION: "Duration"}


_FIRST_MOMENT: Final = -62135596800 * 10**9
"""When the year 1 began."""


def is_zero(value: Value) -> bool:
    """Whether a value is the zero value of its type."""
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
    """A value inside a message."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
