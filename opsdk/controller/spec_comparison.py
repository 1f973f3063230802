"""Compares the spec that was last reconciled with the present one. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

from opsdk.apimachinery.object import TypedObject, convert
from opsdk.base.closest_name import closest_name
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject, JsonValue
from opsdk.telemetry.safe_logger import SafeLogger

__all__ = ["SpecChange"]

log = SafeLogger(__name__)


class SpecChange(msgspec.Struct, frozen=True):
    """A difference between the spec that was last reconciled and the present one.

    Attributes:
        path: such as ``spec.size``, in the names of the class.
        old: the previous value; None if there was none.
        new: the present value; None if it is absent.
    """

    path: str
    old: Any
    new: Any


class SpecComparison:
    """The spec that was last reconciled, and the present one.

    Args:
        cls: the class of the objects; None for unstructured ones, whose paths are not checked.
        uid: of the object.
        last: the spec as it was; None at first.
        present: the spec.
    """

    def __init__(self, cls: type[TypedObject] | None, uid: str, last: JsonObject | None, present: JsonObject) -> None:
        self._cls = cls
        self.uid = uid
        self.present = present
        self._last_spec = self._decode(last) if last else None
        self._spec = self._decode(present)

    def _decode(self, spec: JsonObject) -> Any:
        """Return the spec as the class has it; None if it does not fit, because the class has changed."""
        if self._cls is None:
            return spec
        try:
            return getattr(convert({"metadata": {}, "spec": spec}, self._cls), "spec", None)
        except msgspec.ValidationError as error:
            log.info(
                "a spec of %s does not fit the class, so all of it counts as changed: %s", self._cls.__name__, error
            )
            return None

    @property
    def last(self) -> Any:
        """The spec as it was; None at first."""
        return self._last_spec

    def changed(self, path: str) -> bool:
        """Whether the value of a path differs; True before the first success. Raises `UsageError` for a wrong path."""
        names = check_path(self._cls, path)
        return self._last_spec is None or _value(self._last_spec, names) != _value(self._spec, names)

    def difference(self) -> list[SpecChange]:
        """Return each changed value; at first, the whole spec as one change."""
        return list(_changes("spec", self._last_spec, self._spec))


def check_path(cls: type[TypedObject] | None, path: object) -> list[str]:
    """Return the attributes and keys below the spec that a path names.

    Raises `UsageError` for a path that does not exist in the class; the message has the closest name.
    """
    if not isinstance(path, str) or not re.fullmatch(r"spec(\.[^.]+)*", path):
        raise UsageError(f'{path!r} is not a path in the spec: write "spec", or "spec.size"')
    names = path.split(".")[1:]
    if cls is None:
        return names
    hint: Any = spec_class(cls)
    resolved: list[str] = []
    for position, name in enumerate(names):
        parts = members_of(hint)
        structs = [part for part in parts if isinstance(part, type) and issubclass(part, msgspec.Struct)]
        if structs:
            types = {form: field.type for part in structs for field in fields_of(part) for form in (field.name,)}
            wire = {field.encode_name: field.name for part in structs for field in fields_of(part)}
            attribute = name if name in types else wire.get(name, name)
            if attribute not in types:
                where = ".".join(["spec", *names[:position]])
                close = closest_name(name, types) or min(types)
                raise UsageError(f"{where} has no {name!r} ({path!r}): did you mean {where}.{close}?")
            resolved.append(attribute)
            hint = types[attribute]
        elif any(get_origin(part) in (dict, Mapping) for part in parts):
            resolved.append(name)
            hint = next(get_args(part)[1] for part in parts if get_origin(part) in (dict, Mapping))
        elif any(part in (Any, dict, JsonValue, object) for part in parts):
            return resolved + names[position:]
        else:
            where = ".".join(["spec", *names[:position]])
            raise UsageError(f"{where} has no fields ({path!r}): name {where} itself")
    return resolved


@lru_cache(maxsize=1024)
def spec_class(cls: type[TypedObject]) -> Any:
    """Return the type of the spec; None for a class without one."""
    return next((field.type for field in fields_of(cls) if field.name == "spec"), None)


@lru_cache(maxsize=1024)
def fields_of(cls: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Return the fields of a class. Resolving their annotations takes a millisecond."""
    return msgspec.structs.fields(cls)


def members_of(hint: Any) -> list[Any]:
    """Return the members of a union except None, or the type itself."""
    if get_origin(hint) in (Union, UnionType):
        return [part for part in get_args(hint) if part is not NoneType]
    return [hint]


def _value(value: Any, names: Sequence[str]) -> Any:
    """Return the value of a path; None where something on the way is missing."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    return value


def _changes(path: str, old: Any, new: Any) -> Iterator[SpecChange]:
    if isinstance(old, msgspec.Struct) and type(old) is type(new):
        for name in old.__struct_fields__:
            yield from _changes(f"{path}.{name}", getattr(old, name), getattr(new, name))
    elif isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(old.keys() | new.keys()):
            yield from _changes(f"{path}.{name}", old.get(name), new.get(name))
    elif old != new:
        yield SpecChange(path, old, new)
