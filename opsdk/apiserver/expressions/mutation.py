"""``Object{...}`` and ``JSONPatch{...}``: what expressions of mutating policies are made of."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final

from opsdk.cel.times import show_timestamp
from opsdk.cel.types import DYN, STRING, Type, object_of
from opsdk.cel.values import Duration, Listed, Mapped, ObjectView, Optional, Timestamp, equal
from opsdk.errors import CelEvaluationError, PatchError

_OBJECT: Final = "Object"


class _AnyField(Mapping[str, Type]):
    """Every field is there, and may be anything."""

    def __getitem__(self, name: str) -> Type:
        return DYN

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


_ANY_FIELD: Final = _AnyField()
OBJECT: Final = object_of(_OBJECT, _ANY_FIELD)
JSON_PATCH: Final = object_of("JSONPatch", {"op": STRING, "path": STRING, "from": STRING, "value": DYN})


class _MutationTypes(Mapping[str, Type]):
    """``JSONPatch``, ``Object`` and the types of whatever may be in an object, named after the path to it."""

    def __getitem__(self, name: str) -> Type:
        if name == JSON_PATCH.name:
            return JSON_PATCH
        if name == _OBJECT or name.startswith(f"{_OBJECT}."):
            return object_of(name, _ANY_FIELD)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter((_OBJECT, JSON_PATCH.name))

    def __len__(self) -> int:
        return 2


MUTATION_TYPES: Final = _MutationTypes()


class Made(ObjectView):
    """An object that an expression made."""

    __slots__ = ("_type", "fields")

    def __init__(self, type_: Type, fields: Mapping[str, Any]) -> None:
        self._type = type_
        self.fields = fields

    @property
    def cel_type(self) -> Type:
        """See `ObjectView`."""
        return self._type

    def find(self, field: str) -> Optional:
        """See `ObjectView`."""
        return Optional.of(self.fields[field]) if field in self.fields else Optional.none()

    def size(self) -> int:
        """See `ObjectView`."""
        return len(self.fields)

    def equals(self, other: Any) -> bool:
        """See `ObjectView`."""
        if not isinstance(other, Made) or self._type != other.cel_type or self.fields.keys() != other.fields.keys():
            return False
        return all(equal(value, other.fields[name]) for name, value in self.fields.items())


def construct(type_: Type, fields: dict[str, Any]) -> Made:
    """Make an object; see `opsdk.cel.evaluate.Construct`."""
    if type_.name == JSON_PATCH.name:
        for name in ("op", "path", "from"):
            if not isinstance(fields.get(name, ""), str):
                raise CelEvaluationError(f"unexpected type for JSONPatchType '{name}' field")
    return Made(type_, fields)


# ------------------------------------------------------------------ what becomes of them
def misnamed(value: Any, path: str) -> Iterator[str]:
    """Where an object stands whose type is named after another place; lists and maps on the way do not count."""
    if isinstance(value, Made):
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


def check_names(value: Any) -> None:
    """See that the types of objects within an object are named after their places.

    Raises:
        PatchError: they are not.
    """
    found = list(misnamed(value, value.cel_type.name)) if isinstance(value, Made) else []
    if found:
        raise PatchError("type mismatch: " + "\n".join(found))


def as_tree(value: Any) -> Any:
    """The JSON of a value.

    Raises:
        PatchError: it has none.
    """
    if isinstance(value, Made):
        return {name: as_tree(below) for name, below in value.fields.items()}
    if isinstance(value, Listed):
        return [as_tree(below) for below in value]
    if isinstance(value, Mapped):
        return {_key(key): as_tree(below) for key, below in value.items()}
    if isinstance(value, Optional):
        return as_tree(value.value) if value.has_value else None
    return _scalar(value)


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise PatchError(f"map key {key!r} is not a string")
    return key


def _scalar(value: Any) -> Any:
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
    raise PatchError(f"a value of type {type(value).__name__} has no JSON form")
