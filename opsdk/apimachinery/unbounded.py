"""Converts trees whose values violate the bounds of their class.

Bounds (`msgspec.Meta`) restrict new objects. An object that was stored before a bound was added must stay
readable: its finalizers have to run, and an update may repair it. The server checks bounds on writes.

Upstream: none; Go's types have no bounds.
"""

from __future__ import annotations

import functools
import operator
import types
import typing
from typing import Any, TypeVar

import msgspec

from opsdk.apimachinery.model import decode_hook
from opsdk.structured_merge.value import JsonValue

T = TypeVar("T")

# Attribute of a class without bounds: the original class.
_ORIGINAL = "_bounded_class"


def convert_unbounded(tree: JsonValue, cls: type[T]) -> T:
    """Return `tree` as an object of `cls`, without enforcing the bounds of its fields.

    Raises:
        msgspec.ValidationError: a value has the wrong type, or a required field is missing.

    >>> class Site(msgspec.Struct):
    ...     size: typing.Annotated[int, msgspec.Meta(le=5)] = 1
    >>> convert_unbounded({"size": 9}, Site)
    Site(size=9)
    """
    hashable: Any = cls
    result: T = _restored(msgspec.convert(tree, _class_without_bounds(hashable), dec_hook=decode_hook))
    return result


@functools.lru_cache(maxsize=1024)
def _class_without_bounds(cls: Any) -> Any:
    """Return a class with the same fields without bounds; `cls` itself if it has no bounds."""
    fields = msgspec.structs.fields(cls)
    unbounded = [_without_bounds(field.type) for field in fields]
    if all(stripped is field.type for field, stripped in zip(fields, unbounded, strict=True)):
        return cls
    definitions = []
    for field, stripped in zip(fields, unbounded, strict=True):
        words: dict[str, Any] = {"default": field.default, "default_factory": field.default_factory}
        definitions.append((field.name, stripped, msgspec.field(**words, name=field.encode_name)))
    return msgspec.defstruct(cls.__name__, definitions, kw_only=True, namespace={_ORIGINAL: cls})


def _without_bounds(annotation: Any) -> Any:
    """Return an annotation without ``Annotated``; the same object if nothing changes."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return _class_without_bounds(annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _without_bounds(arguments[0])
    if origin is None or origin is typing.Literal:
        return annotation
    stripped = tuple(_without_bounds(argument) for argument in arguments)
    if all(one is other for one, other in zip(stripped, arguments, strict=True)):
        return annotation
    if origin in (typing.Union, types.UnionType):
        return functools.reduce(operator.or_, stripped)
    return origin[stripped]


def _restored(value: Any) -> Any:
    """Replace objects of classes without bounds by those of the original classes. Constructors check no bounds."""
    original = getattr(type(value), _ORIGINAL, None)
    if original is not None:
        return original(**{name: _restored(getattr(value, name)) for name in value.__struct_fields__})
    if isinstance(value, msgspec.Struct):
        return value
    if isinstance(value, dict):
        return {key: _restored(item) for key, item in value.items()}
    if isinstance(value, list | set | frozenset | tuple):
        return type(value)(_restored(item) for item in value)
    return value
