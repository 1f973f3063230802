"""A kind together with the Python representation of its objects: typed, unstructured or metadata only.

Methods accept a typed class directly. `unstructured_kind` and `metadata_only` select the other two representations:

>>> unstructured_kind("apps/v1", "Deployment")
Kind(apps/v1, Kind=Deployment as Unstructured)
"""

from __future__ import annotations

import inspect
import tokenize
from functools import lru_cache
from typing import Any, Generic, TypeVar

from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.object import AnyObject, PartialObjectMetadata, Unstructured, gvk_of
from opsdk.errors import UsageError

__all__ = ["metadata_only", "unstructured_kind"]

T = TypeVar("T", bound=AnyObject)
T_co = TypeVar("T_co", bound=AnyObject, covariant=True)


class Kind(Generic[T_co]):
    """A GroupVersionKind and the class that represents its objects. Equal if both are equal.

    Attributes:
        gvk: group, version and kind.
        representation: the class.
        name: the name of the kind, such as ``Deployment``.
        api_version: the ``apiVersion`` of its objects.
    """

    # Each decoded object is compared with name and apiVersion, so both are attributes.
    __slots__ = ("api_version", "gvk", "name", "representation")

    representation: type[T_co]

    def __init__(self, gvk: GroupVersionKind, representation: type[T_co]) -> None:
        self.gvk = gvk
        self.representation = representation
        self.name: str = gvk.kind
        self.api_version: str = gvk.api_version

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kind) and (self.gvk, self.representation) == (other.gvk, other.representation)

    def __hash__(self) -> int:
        return hash((self.gvk, self.representation))

    def __repr__(self) -> str:
        return f"Kind({self.gvk} as {self.representation.__name__})"


KindLike = type[T] | Kind[T]
"""The type of arguments that select a kind: a typed class or a `Kind`."""

AnyKind = type[Any] | Kind[Any]
"""One of several kinds. Type checkers infer ``list[StructMeta]`` for a list of classes, so a class is `type[Any]`."""


def unstructured_kind(api_version: str, kind: str) -> Kind[Unstructured]:
    """Return the kind with `Unstructured` objects, for kinds without a Python class."""
    return Kind(GroupVersionKind.parse(api_version, kind), Unstructured)


def metadata_only(kind: KindLike[T] | GroupVersionKind) -> Kind[PartialObjectMetadata]:
    """Return the kind with `PartialObjectMetadata` objects. Reads transfer only the metadata."""
    return Kind(kind if isinstance(kind, GroupVersionKind) else kind_of(kind).gvk, PartialObjectMetadata)


def as_unstructured(kind: Kind[Any]) -> Kind[Any]:
    """Return the kind without its class, for what must read objects that the class cannot decode.

    A kind of metadata stays one: reads of whole objects would need another cache.
    """
    if kind.representation is PartialObjectMetadata:
        return kind
    return Kind(kind.gvk, Unstructured)


def kind_of(kind: KindLike[T]) -> Kind[T]:
    """Return the `Kind` of a class, or the `Kind` itself. Raises `UsageError` for a class without a ``gvk``."""
    if isinstance(kind, Kind):
        return kind
    gvk = getattr(kind, "gvk", None)  # a property object on Unstructured and PartialObjectMetadata
    if isinstance(gvk, GroupVersionKind) and gvk.kind:
        return kind_for(gvk, kind)  # type: ignore[arg-type] # mypy misses that classes are hashable
    argument: object = kind  # what callers pass, whatever they annotate
    name, place = argument.__name__ if isinstance(argument, type) else repr(argument), class_place(argument)
    raise UsageError(
        f"{name} has no kind{f' ({place})' if place else ''}: pass a class with `gvk` set, "
        "unstructured_kind(apiVersion, kind) or metadata_only(class)"
    )


def class_place(value: object) -> str:
    """Return ``FILE:LINE`` of a class, for error messages. Empty if it has no source file, or `value` is not a class.

    >>> class_place(int)
    ''
    """
    if not isinstance(value, type):
        return ""
    try:
        return f"{inspect.getsourcefile(value)}:{inspect.getsourcelines(value)[1]}"
    except (OSError, SyntaxError, TypeError, tokenize.TokenError):
        # It is built-in or created by exec, or the file changed since its import.
        return ""


def kind_of_object(obj: T) -> Kind[T]:
    """Return the `Kind` of an object, with the object's class."""
    return kind_for(gvk_of(obj), type(obj))  # type: ignore[arg-type] # as above


@lru_cache(maxsize=1024)  # a process handles few kinds, and needs one for each read and write
def kind_for(gvk: GroupVersionKind, representation: type[T]) -> Kind[T]:
    """Return the `Kind` of these two. A `Kind` does not change, so calls share it."""
    return Kind(gvk, representation)
