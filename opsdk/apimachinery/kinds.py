"""Kind tokens: which kind is meant, and in which form its objects are wanted.

A typed class is its own token. `unstructured` and `metadata_only` make tokens for the other two forms:

>>> unstructured("apps/v1", "Deployment")
Kind(apps/v1, Kind=Deployment as Unstructured)
"""

from __future__ import annotations

from typing import Generic, TypeVar

from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.object import AnyObject, PartialObjectMetadata, Unstructured, gvk_of
from opsdk.errors import UsageError

T = TypeVar("T", bound=AnyObject)


class Kind(Generic[T]):
    """A kind and the form of its objects. Equal where both are."""

    __slots__ = ("gvk", "representation")

    def __init__(self, gvk: GroupVersionKind, form: type[T]) -> None:
        self.gvk = gvk
        self.representation = form

    @property
    def name(self) -> str:
        """The kind's name, e.g. ``Deployment``."""
        return self.gvk.kind

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kind) and (self.gvk, self.representation) == (other.gvk, other.representation)

    def __hash__(self) -> int:
        return hash((self.gvk, self.representation))

    def __repr__(self) -> str:
        return f"Kind({self.gvk} as {self.representation.__name__})"


KindLike = type[T] | Kind[T]
"""What methods accept: a typed class, or a token."""


def unstructured(api_version: str, kind: str) -> Kind[Unstructured]:
    """The kind, with its objects as trees."""
    return Kind(GroupVersionKind.parse(api_version, kind), Unstructured)


def metadata_only(kind: KindLike[T] | GroupVersionKind) -> Kind[PartialObjectMetadata]:
    """The kind, with only the metadata of its objects."""
    return Kind(kind if isinstance(kind, GroupVersionKind) else kind_of(kind).gvk, PartialObjectMetadata)


def kind_of(kind: KindLike[T]) -> Kind[T]:
    """The token of a class or token; `UsageError` for classes that name no kind."""
    if isinstance(kind, Kind):
        return kind
    gvk = getattr(kind, "gvk", None)  # a property object on the forms that have no kind of their own
    if isinstance(gvk, GroupVersionKind) and gvk.kind:
        return Kind(gvk, kind)
    name = getattr(kind, "__name__", repr(kind))
    raise UsageError(
        f"{name} names no kind: pass a class with `gvk` set, unstructured(apiVersion, kind) or metadata_only(class)"
    )


def kind_of_object(obj: T) -> Kind[T]:
    """The token of an object: its own kind, in its own form."""
    return Kind(gvk_of(obj), type(obj))
