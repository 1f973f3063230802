"""Objects in three forms: typed, unstructured, and metadata only.

All three have ``api_version``, ``kind`` and ``metadata``, so that helpers work on any of them. An object decoded
from the wire remembers the tree it came from; `to_tree` uses it to keep fields that the type does not know, so a
typed read-modify-write never loses what a newer server or another version wrote.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import msgspec

from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.apimachinery.meta import ListMeta, ObjectMeta
from opsdk.apimachinery.model import Model, to_builtins
from opsdk.apimachinery.unknown_fields import merge_unknown_fields
from opsdk.errors import EncodeError, UsageError
from opsdk.structured_merge.value import JsonObject

Spec = TypeVar("Spec")
Status = TypeVar("Status")

_ORIGIN = "_origin"


class KubeObject(Protocol):
    """Any object in any form."""

    api_version: str
    kind: str
    metadata: ObjectMeta


class TypedObject(Model, dict=True, kw_only=True):
    """The base of every typed kind, generated or your own; see `Object` for the usual one with spec and status."""

    gvk: ClassVar[GroupVersionKind] = GroupVersionKind("", "", "")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)

    def __post_init__(self) -> None:
        # Items of built-in lists come without the two; typed objects always have them.
        if not self.kind:
            self.kind = self.gvk.kind
            self.api_version = self.gvk.api_version


class Object(TypedObject, Generic[Spec, Status], dict=True, kw_only=True):
    """A kind of your own with a spec and a status.

    >>> class SiteSpec(Model):
    ...     image: str
    >>> class SiteStatus(Model):
    ...     ready: bool = False
    >>> class Site(Object[SiteSpec, SiteStatus]):
    ...     gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Site")
    >>> Site(metadata=ObjectMeta(name="a"), spec=SiteSpec(image="nginx")).api_version
    'demo.opsdk.dev/v1'

    The other class variables only matter for the definition that `opsdk.apimachinery.crd.crd_for` makes of the class.
    """

    plural: ClassVar[str] = ""
    short_names: ClassVar[Sequence[str]] = ()
    categories: ClassVar[Sequence[str]] = ()
    namespaced: ClassVar[bool] = True
    printer_columns: ClassVar[Sequence[Any]] = ()

    spec: Spec
    status: Status | None = None


class Unstructured(msgspec.Struct, dict=True):
    """An object of any kind, as a tree.

    Everything but ``apiVersion``, ``kind`` and ``metadata`` stands in `content` and is reached by subscription.

    >>> o = Unstructured.from_tree({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {}})
    >>> o["data"]["k"] = "v"
    >>> to_tree(o)["data"]
    {'k': 'v'}
    """

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    content: JsonObject = msgspec.field(default_factory=dict)

    @classmethod
    def from_tree(cls, tree: JsonObject) -> Self:
        """Take over `tree`; raises ``msgspec.ValidationError`` where the metadata is not metadata."""
        content = {k: v for k, v in tree.items() if k not in ("apiVersion", "kind", "metadata")}
        raw = tree.get("metadata")
        meta = msgspec.convert(without_nulls(raw) if raw is not None else {}, ObjectMeta)
        obj = cls(str(tree.get("apiVersion") or ""), str(tree.get("kind") or ""), meta, content)
        retain_unknown_fields(obj, tree)
        return obj

    @property
    def gvk(self) -> GroupVersionKind:
        """From ``api_version`` and ``kind``."""
        return GroupVersionKind.parse(self.api_version, self.kind)

    def __getitem__(self, key: str) -> Any:
        return self.content[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.content[key] = value

    def __contains__(self, key: object) -> bool:
        return key in self.content

    def get(self, *path: str | int, default: Any = None) -> Any:
        """The value at a path inside `content`, or `default` where a step is missing."""
        value: Any = self.content
        for step in path:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return default
        return value


class PartialObjectMetadata(msgspec.Struct, rename="camel", dict=True):
    """An object of which only the metadata was read; it can be patched and deleted, but not created or updated."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)

    @property
    def gvk(self) -> GroupVersionKind:
        """From ``api_version`` and ``kind``."""
        return GroupVersionKind.parse(self.api_version, self.kind)


AnyObject = TypedObject | Unstructured | PartialObjectMetadata
T = TypeVar("T", bound=AnyObject)


class ObjectList(Generic[T]):
    """A list of objects and the metadata of the answer it came in.

    Attributes:
        items: in the server's order.
        metadata: the snapshot's revision and the continue token.
        undecodable: what could not be decoded into the wanted type: the rest of the list is still good.
    """

    __slots__ = ("items", "metadata", "undecodable")

    def __init__(
        self, items: list[T], metadata: ListMeta | None = None, undecodable: list[Undecodable] | None = None
    ) -> None:
        self.items = items
        self.metadata = metadata or ListMeta()
        self.undecodable = undecodable or []

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> T:
        return self.items[index]

    def __repr__(self) -> str:
        bad = f", {len(self.undecodable)} undecodable" if self.undecodable else ""
        return f"<ObjectList of {len(self.items)} at {self.metadata.resource_version or '?'}{bad}>"


class Undecodable(msgspec.Struct, frozen=True, kw_only=True):
    """An object that is there but cannot be decoded into its type: where it is, and why."""

    key: ObjectKey
    gvk: GroupVersionKind
    error: str


# ------------------------------------------------------------------ names
def key_of(obj: KubeObject) -> ObjectKey:
    """Namespace and name of an object."""
    return ObjectKey(obj.metadata.namespace, obj.metadata.name)


def gvk_of(obj: KubeObject) -> GroupVersionKind:
    """The kind of an object; `UsageError` if it does not say."""
    if not obj.api_version or not obj.kind:
        raise UsageError(f"this {type(obj).__name__} has no apiVersion and kind: set both")
    return GroupVersionKind.parse(obj.api_version, obj.kind)


# ------------------------------------------------------------------ trees
def retain_unknown_fields(obj: AnyObject, tree: JsonObject | bytes) -> None:
    """Remember the tree (or its JSON) that `obj` was decoded from."""
    obj.__dict__[_ORIGIN] = tree


def origin_of(obj: AnyObject) -> JsonObject | None:
    """The tree `obj` was decoded from, or None for an object made here."""
    origin: JsonObject | bytes | None = obj.__dict__.get(_ORIGIN)
    if isinstance(origin, bytes):
        origin = msgspec.json.decode(origin, type=JsonObject)
        obj.__dict__[_ORIGIN] = origin
    return origin


def _known_tree(obj: AnyObject) -> JsonObject:
    """The tree of what the type knows."""
    try:
        if isinstance(obj, Unstructured):
            metadata = to_builtins(obj.metadata)
            return {"apiVersion": obj.api_version, "kind": obj.kind, **obj.content, "metadata": metadata}
        tree: JsonObject = to_builtins(obj)
    except (TypeError, ValueError) as error:
        raise EncodeError(f"{obj.kind} {key_of(obj)} cannot be encoded: {error}") from error
    tree.setdefault("apiVersion", obj.api_version)
    tree.setdefault("kind", obj.kind)
    tree.setdefault("metadata", {})
    return tree


def to_tree(obj: AnyObject) -> JsonObject:
    """`obj` as a JSON tree, with the fields of its origin that its type does not know.

    The tree shares nothing with `obj`.
    """
    tree = _known_tree(obj)
    origin = origin_of(obj)
    if isinstance(obj, Unstructured):
        tree = copy.deepcopy(tree)
        if origin is not None:
            before = _metadata_baseline(origin)
            tree["metadata"] = merge_unknown_fields(origin.get("metadata") or {}, before, tree["metadata"])
        return tree
    if origin is None:
        return tree
    merged: JsonObject = merge_unknown_fields(origin, _baseline(type(obj), origin), tree)
    return merged


def _baseline(kind: type[AnyObject], origin: JsonObject) -> Any:
    """What the type alone makes of the origin: the difference to it is what the type does not know."""
    decoded = convert(origin, kind)
    return _known_tree(decoded)


def _metadata_baseline(origin: JsonObject) -> Any:
    return to_builtins(msgspec.convert(without_nulls(origin.get("metadata") or {}), ObjectMeta))


def convert(tree: JsonObject, kind: type[T]) -> T:
    """`tree` as an object of type `kind`, without an origin; raises ``msgspec.ValidationError``.

    Servers send null for lists and maps that are empty (``rules: null``, ``creationTimestamp: null``): a tree that
    does not fit is tried again without its nulls.
    """
    from opsdk.apimachinery.model import decode_hook  # noqa: PLC0415 - kept beside its only use

    if issubclass(kind, Unstructured):
        return kind.from_tree(tree)
    try:
        return msgspec.convert(tree, kind, dec_hook=decode_hook)
    except msgspec.ValidationError:
        return msgspec.convert(without_nulls(tree), kind, dec_hook=decode_hook)


def without_nulls(tree: Any) -> Any:
    """`tree` without object members that are null."""
    if isinstance(tree, dict):
        return {k: without_nulls(v) for k, v in tree.items() if v is not None}
    if isinstance(tree, list):
        return [without_nulls(v) for v in tree]
    return tree


def deep_copy(obj: T) -> T:
    """An independent copy, origin included."""
    clone = copy.deepcopy(obj)
    if (origin := obj.__dict__.get(_ORIGIN)) is not None:
        clone.__dict__[_ORIGIN] = origin  # never mutated, so it may be shared
    return clone


def assign(target: T, source: T) -> None:
    """Make `target` equal to `source`, in place: how a write hands back what the server made of the object.

    `target` keeps its ``apiVersion`` and ``kind`` where `source` has none.
    """
    api_version, kind = target.api_version, target.kind
    for name in target.__struct_fields__:
        setattr(target, name, getattr(source, name))
    target.api_version = source.api_version or api_version
    target.kind = source.kind or kind
    target.__dict__.pop(_ORIGIN, None)
    if (origin := source.__dict__.get(_ORIGIN)) is not None:
        target.__dict__[_ORIGIN] = origin
