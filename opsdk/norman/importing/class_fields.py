"""The fields of a class: of a dataclass, a msgspec struct, a TypedDict or a pydantic model."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, NewType, NotRequired, Required

import msgspec

from opsdk.apimachinery.model import to_builtins
from opsdk.apimachinery.pydantic_models import is_pydantic
from opsdk.errors import UsageError
from opsdk.norman.importing.names import field_name
from opsdk.structured_merge.value import JsonValue

_SKIPPED: Final = frozenset({"links", "actions", "managedFields"})
"""Names that the server sets itself, or that clients do not see."""


class _Unwrapped(msgspec.Struct, frozen=True, kw_only=True):
    """An annotation without the wrappers of its type.

    Attributes:
        types: the types of the union, without None.
        nullable: None is one of them.
        metadata: the arguments of ``Annotated``, outermost first.
        required: True for Required, False for NotRequired, or None.
    """

    types: Sequence[Any]
    nullable: bool = False
    metadata: Sequence[Any] = ()
    required: bool | None = None


class ClassField(msgspec.Struct, frozen=True, kw_only=True):
    """A field of a class.

    Attributes:
        name: in JSON.
        attribute: in the class.
        annotation: its type, as annotated.
        default: as JSON; None without a default.
        required: the class has no default.
        description: one sentence, or empty.
        metadata: metadata that a library stores outside the annotation.
    """

    name: str
    attribute: str
    annotation: Any
    default: JsonValue = None
    required: bool = False
    description: str = ""
    metadata: Sequence[Any] = ()


def is_structured(cls: object) -> bool:
    """Return whether `fields_of` can read a class.

    >>> from opsdk.apimachinery.meta import ObjectMeta
    >>> is_structured(ObjectMeta), is_structured(str)
    (True, False)
    """
    return isinstance(cls, type) and (
        issubclass(cls, msgspec.Struct) or dataclasses.is_dataclass(cls) or typing.is_typeddict(cls) or is_pydantic(cls)
    )


def fields_of(cls: type) -> Sequence[ClassField]:
    """Return the fields of a class, in its order.

    Names are those that the class has in JSON, such as ``rename`` of msgspec or an alias of pydantic. Other attributes
    are turned to camelCase, and ``ID`` at the end to ``Id``.

    Raises:
        UsageError: the class is not supported, or an annotation cannot be resolved.
    """
    try:
        if is_pydantic(cls):
            fields = list(_of_pydantic(cls))
        elif issubclass(cls, msgspec.Struct):
            fields = list(_of_struct(cls))
        elif dataclasses.is_dataclass(cls):
            fields = list(_of_dataclass(cls))
        elif typing.is_typeddict(cls):
            fields = list(_of_typed_dict(cls))
        else:
            raise UsageError(
                f"{cls.__name__} has no fields: use a dataclass, msgspec.Struct, TypedDict or pydantic model"
            )
    except NameError as error:
        raise UsageError(f"{cls.__name__}: {error}; import the name where the class is defined") from error
    return [field for field in fields if field.name not in _SKIPPED]


def unwrap(annotation: Any) -> _Unwrapped:
    """Return the types of an annotation without Annotated, Optional, Required, NewType and aliases.

    >>> unwrapped = unwrap(Annotated[int | None, "a note"])
    >>> unwrapped.types, unwrapped.nullable, unwrapped.metadata
    ((<class 'int'>,), True, ('a note',))
    """
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        inner = unwrap(annotation.__origin__)
        return msgspec.structs.replace(inner, metadata=(*annotation.__metadata__, *inner.metadata))
    if origin in (Required, NotRequired):
        return msgspec.structs.replace(unwrap(typing.get_args(annotation)[0]), required=origin is Required)
    if origin in (typing.Union, types.UnionType):
        parts = [unwrap(part) for part in typing.get_args(annotation)]
        return _Unwrapped(
            types=tuple(each for part in parts for each in part.types),
            nullable=any(part.nullable for part in parts),
            metadata=tuple(each for part in parts for each in part.metadata),
        )
    if isinstance(annotation, NewType):
        return unwrap(annotation.__supertype__)
    if type(annotation).__name__ == "TypeAliasType":
        return unwrap(annotation.__value__)
    if annotation in (None, type(None)):
        return _Unwrapped(types=(), nullable=True)
    return _Unwrapped(types=() if annotation is msgspec.UnsetType else (annotation,))


# ------------------------------------------------------------------ kinds of classes
def _of_struct(cls: type[msgspec.Struct]) -> Iterator[ClassField]:
    for each in msgspec.structs.fields(cls):
        yield ClassField(
            name=each.encode_name if each.encode_name != each.name else field_name(each.name),
            attribute=each.name,
            annotation=each.type,
            default=_default(cls, each.name, each.default, each.default_factory, msgspec.NODEFAULT),
            required=each.required,
        )


def _of_dataclass(cls: type) -> Iterator[ClassField]:
    hints = typing.get_type_hints(cls, include_extras=True)
    for each in dataclasses.fields(cls):
        yield ClassField(
            name=field_name(each.name),
            attribute=each.name,
            annotation=hints[each.name],
            default=_default(cls, each.name, each.default, each.default_factory, dataclasses.MISSING),
            required=each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING,
            description=str(each.metadata.get("description", "")),
        )


def _of_typed_dict(cls: type) -> Iterator[ClassField]:
    required: frozenset[str] = getattr(cls, "__required_keys__", frozenset())
    for name, annotation in typing.get_type_hints(cls, include_extras=True).items():
        # The keys are not known to be optional where annotations are strings.
        explicit = unwrap(annotation).required
        yield ClassField(
            name=field_name(name),
            attribute=name,
            annotation=annotation,
            required=name in required if explicit is None else explicit,
        )


def _of_pydantic(cls: Any) -> Iterator[ClassField]:
    """Yield the fields of a pydantic model; the alias that it writes counts first."""
    fields: Mapping[str, Any] = cls.model_fields
    for name, each in fields.items():
        alias = each.serialization_alias or each.alias
        factory = each.default_factory or msgspec.NODEFAULT
        default = msgspec.NODEFAULT if each.is_required() or each.default_factory else each.default
        yield ClassField(
            name=alias or field_name(name),
            attribute=name,
            annotation=each.annotation,
            default=_default(cls, name, default, factory, msgspec.NODEFAULT),
            required=each.is_required(),
            description=each.description or "",
            metadata=tuple(each.metadata),
        )


def _default(cls: type, name: str, value: Any, factory: Any, nothing: object) -> JsonValue:
    """Return a default as JSON; None without a default, and for empty strings, lists and objects."""
    try:
        if factory is not nothing:
            value = factory()
        if value is nothing or value is msgspec.UNSET:
            return None
        default = to_builtins(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{cls.__name__}.{name}: the default has no JSON form: {error}") from error
    return None if default in ("", [], {}) else default
