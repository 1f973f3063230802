"""``Object{...}`` and ``JSONPatch{...}`` values of mutating policies.

Upstream: k8s.io/apiserver/pkg/cel/mutation (v1.36).
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from opsdk.cel.errors import CelEvaluationError
from opsdk.cel.times import show_timestamp
from opsdk.cel.types import DYN, STRING, Type, TypeKind, Value, list_of, object_of, opaque
from opsdk.cel.values import CelObject, Duration, Listed, Mapped, Opaque, Optional, Timestamp, equal, type_of
from opsdk.errors import PatchError
from opsdk.structured_merge.value import JsonObject

_OBJECT: Final = "Object"


class _AnyField(Mapping[str, Type]):
    """A mapping in which every field exists with type dyn."""

    def __getitem__(self, name: str) -> Type:
        return DYN

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


_ANY_FIELD: Final = _AnyField()
OBJECT: Final = object_of(_OBJECT, _ANY_FIELD)


class _PatchFields(dict[str, Type]):
    """The fields of ``JSONPatch``. Unknown fields have a type that no value is assignable to."""

    def get(self, name: str, default: Value = None) -> Value:
        return super().get(name, default or opaque(""))


JSON_PATCH: Final = object_of("JSONPatch", _PatchFields({"op": STRING, "path": STRING, "from": STRING, "value": DYN}))


class MutationTypes(Mapping[str, Type]):
    """``JSONPatch``, ``Object`` and the types of nested objects, named by their paths; lists add no segment.

    Args:
        root: the type of the object; DYN if every field exists, as in a server.
    """

    def __init__(self, root: Type = DYN) -> None:
        self._root = root

    def __getitem__(self, name: str) -> Type:
        if name == JSON_PATCH.name:
            return JSON_PATCH
        first, *steps = name.split(".")
        if first != _OBJECT:
            raise KeyError(name)
        type_ = self._root
        for step in steps:
            if type_.kind is not TypeKind.OBJECT:
                break
            type_ = _element(type_.fields[step])
        return _constructed(type_, name) if type_.kind is TypeKind.OBJECT else object_of(name, _ANY_FIELD)

    def __iter__(self) -> Iterator[str]:
        return iter((_OBJECT, JSON_PATCH.name))

    def __len__(self) -> int:
        return 2


def _element(type_: Type) -> Type:
    """Return the innermost element type of lists."""
    while type_.kind is TypeKind.LIST:
        type_ = type_.params[0]
    return type_


def _constructed(type_: Type, path: str) -> Type:
    """Return the type of an expression that constructs a value. A map may be constructed as an object too."""
    match type_.kind:
        case TypeKind.OBJECT:
            fields = type_.fields.items()
            return object_of(path, {name: _constructed(below, f"{path}.{name}") for name, below in fields})
        case TypeKind.LIST:
            return list_of(_constructed(type_.params[0], path))
        case TypeKind.MAP:
            return DYN
    return type_


class ConstructedObject(CelObject):
    """An object that an expression constructs."""

    __slots__ = ("_type", "fields")

    def __init__(self, type_: Type, fields: Mapping[str, Value]) -> None:
        self._type = type_
        self.fields = fields

    @property
    def cel_type(self) -> Type:
        return self._type

    def find(self, field: str) -> Optional:
        return Optional.of(self.fields[field]) if field in self.fields else Optional.none()

    def size(self) -> int:
        return len(self.fields)

    def equals(self, other: Value) -> bool:
        if (
            not isinstance(other, ConstructedObject)
            or self._type != other.cel_type
            or self.fields.keys() != other.fields.keys()
        ):
            return False
        return all(equal(value, other.fields[name]) for name, value in self.fields.items())


def construct(type_: Type, fields: JsonObject) -> ConstructedObject:
    """Construct an object; see `opsdk.cel.evaluate.Construct`."""
    if type_.name == JSON_PATCH.name:
        for name in ("op", "path", "from"):
            if not isinstance(fields.get(name, ""), str):
                raise CelEvaluationError(f"unexpected type for JSONPatchType '{name}' field")
    return ConstructedObject(type_, fields)


# ------------------------------------------------------------------ conversion
def misnamed(value: Value, path: str) -> Iterator[str]:
    """Yield the paths of objects whose type name differs from their path; lists and maps add no segment."""
    if isinstance(value, ConstructedObject):
        name = value.cel_type.name
        if name != path:
            text = f'unexpected type name "{name}", expected "{path}"'
            yield f"{text}, which matches field name path from root Object type"
        for field, below in value.fields.items():
            yield from misnamed(below, f"{path}.{field}")
    elif isinstance(value, Listed):
        for below in value:
            yield from misnamed(below, path)
    elif isinstance(value, Mapped):
        for below in value.values():
            yield from misnamed(below, path)


def check_names(value: Value) -> None:
    """Check that nested objects have the type names of their paths.

    Raises:
        PatchError: a type name differs.
    """
    misnamed_fields = list(misnamed(value, value.cel_type.name)) if isinstance(value, ConstructedObject) else []
    if misnamed_fields:
        raise PatchError("type mismatch: " + "\n".join(misnamed_fields))


def as_tree(value: Value) -> Value:
    """Convert an apply configuration to JSON.

    Raises:
        PatchError: a value has no JSON form.
    """
    return _tree(value, _key, _plain)


def as_json(value: Value) -> Value:
    """Convert the value of a JSON patch operation to JSON: integers beyond float precision become strings.

    Raises:
        PatchError: a value has no JSON form.
    """
    try:
        return _tree(value, _json_key, _json_scalar)
    except PatchError as error:
        raise PatchError(
            f"JSONPath valueExpression evaluated to a type that could not marshal to JSON: {error}"
        ) from None


def _tree(value: Value, key: Callable[[Value], str], scalar: Callable[[Value], Value]) -> Value:
    if isinstance(value, ConstructedObject):
        return {name: _tree(below, key, scalar) for name, below in value.fields.items()}
    if isinstance(value, Listed):
        return [_tree(below, key, scalar) for below in value]
    if isinstance(value, Mapped):
        return {key(name): _tree(below, key, scalar) for name, below in value.items()}
    if isinstance(value, Optional):
        return _tree(value.value, key, scalar) if value.has_value else None
    return scalar(value)


def _key(key: Value) -> str:
    if not isinstance(key, str):
        raise PatchError(f"map key {key!r} is not a string")
    return key


def _json_key(key: Value) -> str:
    if isinstance(key, bool):
        raise PatchError("type conversion error from bool to 'string'")
    if not isinstance(key, str):
        raise PatchError(f"unsupported type conversion from '{type_of(key).runtime_name}' to string")
    return key


def _plain(value: Value) -> Value:
    if value is None or isinstance(value, bool | str | float):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Timestamp):
        return show_timestamp(value)
    if isinstance(value, Duration):
        return f"{value.nanoseconds / 1e9:g}s"
    raise PatchError(f"a value of type {type_of(value).runtime_name} has no JSON form")


_SAFE: Final = 2**53
"""Smaller integers are exact as floats."""


def _json_scalar(value: Value) -> Value:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _SAFE:
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        what = "NaN" if math.isnan(value) else f"{'+' if value > 0 else '-'}Inf"
        reason = f"proto: google.protobuf.Value.number_value: invalid {what} value"
        raise PatchError(f"json: error calling MarshalJSON for type *structpb.Value: {reason}")
    if isinstance(value, Type):
        raise PatchError("type conversion not supported for 'type'")
    if isinstance(value, Opaque):
        name = value.cel_type.name.rpartition(".")[2]
        raise PatchError(f"type conversion error from '{name}' to '*structpb.Value'")
    return _plain(value)
