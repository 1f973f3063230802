"""Types of expressions and values.

Upstream: github.com/google/cel-go/common/types/types.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeAlias

Value: TypeAlias = Any
"""A CEL value at run time: a Python scalar, a list, a mapping, or an object of `opsdk.cel.values`."""


class TypeKind(Enum):
    """The kinds of types."""

    DYN = "dyn"
    """Dynamic: the type is checked at run time."""
    ERROR = "!error!"
    """The type of an expression with an error. It matches all types, so that one error has one message."""
    PARAM = "param"
    """A type parameter."""
    BOOL = "bool"
    """True or false."""
    INT = "int"
    """64 bits, signed."""
    UINT = "uint"
    """64 bits, unsigned."""
    DOUBLE = "double"
    """IEEE 754, 64 bits."""
    STRING = "string"
    """Unicode text."""
    BYTES = "bytes"
    """A byte string."""
    NULL = "null"
    """Null."""
    TIMESTAMP = "timestamp"
    """A point in time."""
    DURATION = "duration"
    """A length of time."""
    LIST = "list"
    """Elements of one type."""
    MAP = "map"
    """Values by keys."""
    OBJECT = "object"
    """Named fields."""
    OPAQUE = "opaque"
    """Defined by a library."""
    TYPE = "type"
    """The type of types."""


@dataclass(frozen=True, slots=True)
class Type:
    """A type.

    Attributes:
        kind: the kind of type.
        name: the name of an object, opaque type or parameter.
        params: the type parameters: element, key and value, or content.
        fields: the fields of an object; equality compares only its name.
    """

    kind: TypeKind
    name: str
    params: tuple[Type, ...] = ()
    fields: Mapping[str, Type] = field(default_factory=dict, compare=False, repr=False)

    def __str__(self) -> str:
        """Format the type for messages."""
        if not self.params:
            return self.name if self.kind in _NAMED else self.kind.value
        name = self.name if self.kind is TypeKind.OPAQUE else self.kind.value
        return f"{name}({', '.join(map(str, self.params))})"

    @property
    def runtime_name(self) -> str:
        """The name of the type in evaluation errors."""
        return _RUNTIME_NAMES.get(self.kind, self.name)


_NAMED: Final = frozenset({TypeKind.OBJECT, TypeKind.OPAQUE, TypeKind.PARAM})
_RUNTIME_NAMES: Final = {
    TypeKind.TIMESTAMP: "google.protobuf.Timestamp",
    TypeKind.DURATION: "google.protobuf.Duration",
    TypeKind.NULL: "null_type",
}


def _simple(kind: TypeKind) -> Type:
    return Type(kind, _RUNTIME_NAMES.get(kind, kind.value))


DYN: Final = _simple(TypeKind.DYN)
ERROR: Final = _simple(TypeKind.ERROR)
BOOL: Final = _simple(TypeKind.BOOL)
INT: Final = _simple(TypeKind.INT)
UINT: Final = _simple(TypeKind.UINT)
DOUBLE: Final = _simple(TypeKind.DOUBLE)
STRING: Final = _simple(TypeKind.STRING)
BYTES: Final = _simple(TypeKind.BYTES)
NULL: Final = _simple(TypeKind.NULL)
TIMESTAMP: Final = _simple(TypeKind.TIMESTAMP)
DURATION: Final = _simple(TypeKind.DURATION)
TYPE: Final = _simple(TypeKind.TYPE)
LIST: Final = _simple(TypeKind.LIST)
MAP: Final = _simple(TypeKind.MAP)


def param(name: str) -> Type:
    """Return a type parameter."""
    return Type(TypeKind.PARAM, name)


def list_of(element: Type) -> Type:
    """Return a list type.

    >>> print(list_of(INT))
    list(int)
    """
    return Type(TypeKind.LIST, "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """Return a map type."""
    return Type(TypeKind.MAP, "map", (key, value))


def object_of(name: str, fields: Mapping[str, Type]) -> Type:
    """Return an object type with these fields."""
    return Type(TypeKind.OBJECT, name, (), fields)


def opaque(name: str, *params: Type) -> Type:
    """Return the opaque type of a library."""
    return Type(TypeKind.OPAQUE, name, params)


def optional_of(content: Type) -> Type:
    """Return an optional type."""
    return opaque("optional_type", content)


def is_optional(type_: Type) -> bool:
    """Report whether the type is an optional."""
    return type_.kind is TypeKind.OPAQUE and type_.name == "optional_type"


def type_of(target: Type) -> Type:
    """Return the type of a type."""
    return Type(TypeKind.TYPE, "type", (target,))


# ------------------------------------------------------------------ fitting types together
Bindings = dict[str, Type]
"""The bound types of type parameters, by name."""

_NULLABLE: Final = frozenset({TypeKind.NULL, TypeKind.TIMESTAMP, TypeKind.DURATION, TypeKind.OBJECT, TypeKind.OPAQUE})


def assignable(bindings: Bindings, left: Type, right: Type) -> bool:
    """Report whether two types can be unified, and add the bindings of type parameters to `bindings`."""
    if right.kind is TypeKind.PARAM:
        fits, bound = _bind(bindings, left, right)
        if fits or bound:
            return fits
    if left.kind is TypeKind.PARAM:
        return _bind(bindings, right, left)[0]
    if left.kind in _WILD or right.kind in _WILD:
        return True
    if left.kind is TypeKind.NULL:
        return right.kind in _NULLABLE
    if right.kind is TypeKind.NULL:
        return left.kind in _NULLABLE
    if left.kind is not right.kind:
        return False
    if left.kind is TypeKind.TYPE:
        return True
    if left.kind in (TypeKind.OBJECT, TypeKind.OPAQUE) and left.name != right.name:
        return False
    return assignable_all(bindings, left.params, right.params)


_WILD: Final = frozenset({TypeKind.DYN, TypeKind.ERROR})


def assignable_all(bindings: Bindings, left: tuple[Type, ...], right: tuple[Type, ...]) -> bool:
    """Report whether each type is assignable to its counterpart."""
    return len(left) == len(right) and all(map(lambda a, b: assignable(bindings, a, b), left, right))


def _bind(bindings: Bindings, type_: Type, parameter: Type) -> tuple[bool, bool]:
    """Report whether the parameter can be bound to the type, and whether it was bound before."""
    if type_ == parameter:
        return True, True
    bound = bindings.get(parameter.name)
    if bound is None:
        if _occurs(bindings, parameter, type_):
            return False, False
        bindings[parameter.name] = type_
        return True, False
    if type_ == bound:
        return True, True
    if not assignable(bindings, type_, bound):
        return False, True
    general = more_general(type_, bound)
    if not _occurs(bindings, parameter, general):
        bindings[parameter.name] = general
    return True, True


def _occurs(bindings: Bindings, parameter: Type, type_: Type) -> bool:
    """Report whether the type is or contains the parameter."""
    if type_ == parameter:
        return True
    if type_.kind is TypeKind.PARAM:
        bound = bindings.get(type_.name)
        return bound is not None and _occurs(bindings, parameter, bound)
    return any(_occurs(bindings, parameter, one) for one in type_.params)


def more_general(left: Type, right: Type) -> Type:
    """Return the more general type."""
    return left if _at_least_as_general(left, right) else right


def _at_least_as_general(left: Type, right: Type) -> bool:
    if left.kind in (TypeKind.DYN, TypeKind.PARAM):
        return True
    if right.kind in (TypeKind.DYN, TypeKind.PARAM) or left.kind is not right.kind:
        return False
    if left.kind is TypeKind.TYPE:
        return True
    if not left.params:
        return left == right
    return left.name == right.name and all(map(_at_least_as_general, left.params, right.params))


def substitute(bindings: Bindings, type_: Type, *, unknown_is_dyn: bool = False) -> Type:
    """Return the type with its type parameters replaced by their bindings."""
    if type_.kind is TypeKind.PARAM:
        bound = bindings.get(type_.name)
        if bound is not None:
            return substitute(bindings, bound, unknown_is_dyn=unknown_is_dyn)
        return DYN if unknown_is_dyn else type_
    if not type_.params:
        return type_
    params = tuple(substitute(bindings, one, unknown_is_dyn=unknown_is_dyn) for one in type_.params)
    return Type(type_.kind, type_.name, params, type_.fields)
