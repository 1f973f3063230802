"""Objects in three representations: typed, unstructured, and metadata only.

All three have ``api_version``, ``kind`` and ``metadata``. A decoded object remembers the JSON tree it came from.
`to_dict` uses that tree to keep fields that the class does not declare, so a read-modify-write never drops them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from types import NoneType
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import msgspec

from opsdk.apimachinery.duration import Duration
from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.apimachinery.meta import ListMeta, ObjectMeta, UnsetMap
from opsdk.apimachinery.model import HIDDEN, Model, decode_hook, to_builtins
from opsdk.apimachinery.quantity import Quantity
from opsdk.apimachinery.time import MicroTime
from opsdk.apimachinery.unbounded import convert_unbounded
from opsdk.apimachinery.unknown_fields import merge_unknown_fields
from opsdk.errors import DecodeError, EncodeError, UsageError
from opsdk.structured_merge.value import JSON_ERRORS, JsonObject, JsonValue

__all__ = ["TypedObject", "deep_copy", "to_dict"]

Spec = TypeVar("Spec")
Status = TypeVar("Status")

ORIGIN = "_origin"


class KubeObject(Protocol):
    """Any object in any representation (``client.Object`` in controller-runtime)."""

    api_version: str
    kind: str
    metadata: ObjectMeta


class TypedObject(Model, dict=True, kw_only=True, gc=True):
    """Base class of every typed kind. Kinds with spec and status derive from `Object`.

    Attributes:
        gvk: group, version and kind.
        namespaced: whether objects live in namespaces.
    """

    gvk: ClassVar[GroupVersionKind] = GroupVersionKind("", "", "")
    namespaced: ClassVar[bool] = True

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)

    def __post_init__(self) -> None:
        # The server sends list items of built-in kinds without kind and apiVersion.
        if not self.kind:
            self.kind = self.gvk.kind
            self.api_version = self.gvk.api_version


class Object(TypedObject, Generic[Spec, Status], dict=True, kw_only=True):
    """Base class of your own kinds with a spec and a status.

    >>> class SiteSpec(Model):
    ...     image: str
    >>> class SiteStatus(Model):
    ...     ready: bool = False
    >>> class Site(Object[SiteSpec, SiteStatus]):
    ...     gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Site")
    >>> Site(metadata=ObjectMeta(name="a"), spec=SiteSpec(image="nginx")).api_version
    'demo.opsdk.dev/v1'

    `opsdk.apimachinery.crd.crd_for` reads the class variables when it generates the definition.

    Attributes:
        plural: the resource; by default the plural of the kind in lower case, see `opsdk.apimachinery.plurals`.
        singular: by default the kind in lower case.
        list_kind: by default the kind plus "List".
        printer_columns: columns of ``kubectl get``, see `PrinterColumn`.
        scale: the scale subresource, see `Scale`.
        selectable_fields: JSON paths, such as ``.spec.color``, that field selectors may use.
        status_subresource: whether the status is written through a subresource; None means if the class has a status.
        served: whether the server serves this version.
        storage: whether objects are stored in this version; by default the first version is.
        deprecated: whether requests to this version return a warning.
        deprecation_warning: that warning; empty means the server's own text.
    """

    plural: ClassVar[str] = ""
    singular: ClassVar[str] = ""
    list_kind: ClassVar[str] = ""
    short_names: ClassVar[Sequence[str]] = ()
    categories: ClassVar[Sequence[str]] = ()
    printer_columns: ClassVar[Sequence[Any]] = ()
    scale: ClassVar[Any] = None
    selectable_fields: ClassVar[Sequence[str]] = ()
    status_subresource: ClassVar[bool | None] = None
    served: ClassVar[bool] = True
    storage: ClassVar[bool] = False
    deprecated: ClassVar[bool] = False
    deprecation_warning: ClassVar[str] = ""

    spec: Spec
    status: Status | None = None


class Unstructured(msgspec.Struct, dict=True):
    """An object of any kind, as a JSON tree (``unstructured.Unstructured`` in Go).

    `content` holds every member except ``apiVersion``, ``kind`` and ``metadata``. Subscripts read and write `content`.

    >>> o = Unstructured.from_tree({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {}})
    >>> o["data"]["k"] = "v"
    >>> to_dict(o)["data"]
    {'k': 'v'}
    """

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    content: JsonObject = msgspec.field(default_factory=dict)

    @classmethod
    def from_tree(cls, tree: JsonObject) -> Self:
        """Return an object that takes over `tree`. Raises ``msgspec.ValidationError`` if the metadata is malformed."""
        content = {k: v for k, v in tree.items() if k not in ("apiVersion", "kind", "metadata")}
        meta = _object_meta(tree.get("metadata"))
        obj = cls(str(tree.get("apiVersion") or ""), str(tree.get("kind") or ""), meta, content)
        retain_unknown_fields(obj, tree)
        return obj

    @property
    def gvk(self) -> GroupVersionKind:
        """The kind, from ``api_version`` and ``kind``."""
        return GroupVersionKind.parse(self.api_version, self.kind)

    def __repr__(self) -> str:
        secret = {"Secret": ("data", "stringData"), "TokenRequest": ("status",), "TokenReview": ("spec",)}
        hidden = secret.get(self.kind, ())
        content = {name: HIDDEN if name in hidden else value for name, value in self.content.items()}
        return f"Unstructured({self.api_version} {self.kind}, metadata={self.metadata!r}, content={content!r})"

    def __getitem__(self, key: str) -> JsonValue:
        return self.content[key]

    def __setitem__(self, key: str, value: JsonValue) -> None:
        self.content[key] = value

    def __contains__(self, key: object) -> bool:
        return key in self.content

    def get(self, *path: str | int, default: JsonValue = None) -> JsonValue:
        """Return the value at a path inside `content`, or `default` if a step is missing."""
        value: JsonValue = self.content
        for step in path:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return default
        return value


class PartialObjectMetadata(msgspec.Struct, rename="camel", dict=True):
    """An object with only its metadata. It can be patched and deleted, but not created or updated."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)

    @property
    def gvk(self) -> GroupVersionKind:
        """The kind, from ``api_version`` and ``kind``."""
        return GroupVersionKind.parse(self.api_version, self.kind)


AnyObject = TypedObject | Unstructured | PartialObjectMetadata
T = TypeVar("T", bound=AnyObject)
C = TypeVar("C", bound=AnyObject | Model)


class ObjectList(Generic[T]):
    """A list of objects with the metadata of the response.

    Attributes:
        items: in the server's order.
        metadata: resource version of the snapshot, and the continue token.
        undecodable: objects that do not decode into the requested class.
    """

    __slots__ = ("items", "metadata", "undecodable")

    def __init__(
        self, items: list[T], metadata: ListMeta | None = None, undecodable: list[Undecodable] | None = None
    ) -> None:
        self.items = items
        self.metadata: ListMeta = metadata or ListMeta()
        self.undecodable: list[Undecodable] = undecodable or []

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
    """An object that exists on the server but does not decode: its key, kind and the error."""

    key: ObjectKey
    gvk: GroupVersionKind
    error: str


# ------------------------------------------------------------------ names
def key_of(obj: KubeObject) -> ObjectKey:
    """Return namespace and name of an object."""
    return ObjectKey(obj.metadata.namespace, obj.metadata.name)


def gvk_of(obj: KubeObject) -> GroupVersionKind:
    """Return the kind of an object. Raises `UsageError` if ``api_version`` or ``kind`` is empty."""
    if not obj.api_version or not obj.kind:
        raise UsageError(f"this {type(obj).__name__} has no api_version or kind: set both")
    try:
        return GroupVersionKind.parse(obj.api_version, obj.kind)
    except (AttributeError, TypeError):
        if isinstance(obj, type):
            raise UsageError(f"{obj.__name__} is a class: pass an object, {obj.__name__}(...)") from None
        raise


# ------------------------------------------------------------------ trees
def retain_unknown_fields(obj: AnyObject, tree: JsonObject | bytes) -> None:
    """Remember the JSON tree (or its bytes) that `obj` was decoded from."""
    obj.__dict__[ORIGIN] = tree


class _StatusWritten(msgspec.Struct, frozen=True, gc=False):
    """The origin of an object whose status was written since it was read, see `retain_status`."""

    read: bytes
    response: bytes
    resource_version: str

    def tree(self) -> JsonObject:
        """Return the tree that was read, with the status that was written."""
        tree: JsonObject = _decode_tree(self.read)
        tree["status"] = _decode_tree(self.response).get("status")
        tree.setdefault("metadata", {})["resourceVersion"] = self.resource_version
        return tree


class _ComparedMeta(msgspec.Struct, rename="camel", gc=False):
    """The metadata that a status write of another client leaves unchanged. Values are compared as they are sent."""

    uid: object = None
    generation: int = 0
    creation_timestamp: object = None
    deletion_timestamp: object = None
    deletion_grace_period_seconds: object = None
    labels: object = None
    annotations: object = None
    owner_references: object = None
    finalizers: object = None


class _Compared(msgspec.Struct, gc=False):
    metadata: _ComparedMeta = msgspec.field(default_factory=_ComparedMeta)


_COMPARED = msgspec.json.Decoder(_Compared)


@lru_cache(maxsize=1024)
def status_class(cls: type[TypedObject]) -> type | None:
    """Return the class of the status, or None for a kind without a status."""
    hints = {field.name: field.type for field in msgspec.structs.fields(cls)}
    parts = getattr(hints.get("status"), "__args__", (hints.get("status"),))
    return next((part for part in parts if isinstance(part, type) and part is not NoneType), None)


def retain_status(obj: Any, response: Any, *, sole_change: bool = False) -> None:
    """Take over the status of the response to a status write, and its resource version if only the status differs.

    If another writer has changed more since `obj` was read, `obj` keeps its version: a later update of `obj` then
    raises `ConflictError` and does not undo that change.

    Args:
        obj: the object before the write.
        response: the object after it.
        sole_change: the write named the version of `obj`, so no other writer has changed it since.
    """
    if isinstance(obj, Unstructured):
        obj.content["status"] = response.content.get("status")
    else:
        obj.status = response.status
    read, received = obj.__dict__.get(ORIGIN), response.__dict__.get(ORIGIN)
    if isinstance(read, _StatusWritten):
        read = read.read
    if not isinstance(read, bytes) or not isinstance(received, bytes):
        obj.metadata.resource_version = response.metadata.resource_version
        return
    if sole_change or _only_status_differs(read, received):
        obj.metadata.resource_version = response.metadata.resource_version
    obj.__dict__[ORIGIN] = _StatusWritten(read, received, obj.metadata.resource_version)


def retain_annotation(obj: Any, response: Any, name: str) -> None:
    """Take over one annotation and the resource version of the response to a write.

    Args:
        obj: the object before the write, perhaps with changes that are not written yet. They stay.
        response: the object after it. The write named the version of `obj`, so they differ in the annotation alone.
        name: of the annotation.
    """
    annotations = {key: value for key, value in (obj.metadata.annotations or {}).items() if key != name}
    if (value := response.metadata.annotations.get(name)) is not None:
        annotations[name] = value
    obj.metadata.annotations = annotations
    obj.metadata.resource_version = response.metadata.resource_version
    if ORIGIN in response.__dict__:
        obj.__dict__[ORIGIN] = response.__dict__[ORIGIN]


def _only_status_differs(read: bytes, received: bytes) -> bool:
    try:
        before, after = _COMPARED.decode(read).metadata, _COMPARED.decode(received).metadata
    except JSON_ERRORS:  # the classes may ignore what does not decode
        return False
    if before != after:
        return False
    if after.generation:  # the server counts changes of everything but metadata and status
        return True
    ignored_trees = [{**_decode_tree(data), "metadata": None, "status": None} for data in (read, received)]
    return bool(ignored_trees[0] == ignored_trees[1])


def was_decoded(obj: AnyObject) -> bool:
    """Whether `obj` has an origin: it was decoded, not created in Python."""
    return ORIGIN in obj.__dict__


def origin_of(obj: AnyObject) -> JsonObject | None:
    """Return the tree that `obj` was decoded from, or None for an object created in Python."""
    origin: JsonObject | bytes | _StatusWritten | None = obj.__dict__.get(ORIGIN)
    if isinstance(origin, _StatusWritten):
        return origin.tree()
    return _decode_tree(origin) if isinstance(origin, bytes) else origin


def _decode_tree(data: bytes) -> JsonObject:
    """Decode a whole object. A class ignores fields that it does not have, so their values are decoded only here."""
    try:
        return msgspec.json.decode(data, type=JsonObject)
    except JSON_ERRORS as error:
        raise DecodeError(f"unreadable object: {error}: it starts with {data[:80]!r}") from error


class _StatusOnly(msgspec.Struct):
    status: JsonObject | None = None


_STATUS_DECODER = msgspec.json.Decoder(_StatusOnly)


def status_as_read(obj: AnyObject) -> JsonObject | None:
    """Return the status of `origin_of`, without decoding the rest of it."""
    origin: JsonObject | bytes | _StatusWritten | None = obj.__dict__.get(ORIGIN)
    if isinstance(origin, dict):
        return origin.get("status")
    data = origin.response if isinstance(origin, _StatusWritten) else origin
    return None if data is None else _STATUS_DECODER.decode(data).status


def tree_as_read(obj: AnyObject) -> JsonObject:
    """Return `obj` as it was decoded, without later changes.

    Raises:
        UsageError: the object was created in Python, so that its earlier state is unknown.
    """
    origin = origin_of(obj)
    # An unstructured object that was made from a tree shares it, so the tree follows its changes.
    if origin is None or (isinstance(obj, Unstructured) and isinstance(obj.__dict__[ORIGIN], dict)):
        raise UsageError(
            f"{obj.kind} {key_of(obj)} was not read from a server, so its changes are unknown: "
            "pass the object before the change, MergeFrom(before)"
        )
    return origin


def _known_tree(obj: AnyObject) -> JsonObject:
    """Return the tree of the fields that the class declares."""
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


def to_dict(obj: AnyObject) -> JsonObject:
    """Return `obj` as a JSON tree, including the fields of its origin that its class does not declare.

    The tree shares nothing with `obj`. Raises `EncodeError`.
    """
    if isinstance(obj, Unstructured) or was_decoded(obj):
        tree: JsonObject = _deep_copy(shared_tree(obj))
        return tree
    return _known_tree(obj)


def shared_tree(obj: AnyObject, origin: JsonObject | None = None) -> JsonObject:
    """Return the tree of `to_dict` without a copy: it shares parts with `obj` and with its origin. Do not change it.

    Args:
        obj: the object.
        origin: its origin if the caller has decoded it.
    """
    tree = _known_tree(obj)
    origin = origin_of(obj) if origin is None else origin
    if origin is None:
        return tree
    if isinstance(obj, Unstructured):
        metadata = origin.get("metadata") or {}
        before = to_builtins(_object_meta(metadata))
        tree["metadata"] = merge_unknown_fields(metadata, before, tree["metadata"])
        return tree
    # The fields of the origin that the class declares; all others are unknown fields.
    known_fields = _known_tree(convert(origin, type(obj)))
    merged: JsonObject = merge_unknown_fields(origin, known_fields, tree)
    return merged


def convert(tree: JsonObject, kind: type[T], *, bounds: bool = False) -> T:
    """Return `tree` as an object of class `kind`, without an origin. Raises ``msgspec.ValidationError``.

    Servers send null for empty lists and maps (``rules: null``), so a tree that does not fit is tried again without
    its nulls, and, unless `bounds` must hold, without the bounds of its fields.
    """
    if issubclass(kind, Unstructured):
        return kind.from_tree(tree)
    try:
        return msgspec.convert(tree, kind, dec_hook=decode_hook)
    except msgspec.ValidationError:
        without = without_nulls(tree)
    try:
        return msgspec.convert(without, kind, dec_hook=decode_hook)
    except msgspec.ValidationError:
        if bounds:
            raise
        return convert_unbounded(without, kind)


def _object_meta(tree: JsonValue) -> ObjectMeta:
    """Decode the metadata of an Unstructured, see `convert`; None is empty metadata."""
    if tree is None:
        return ObjectMeta()
    try:
        return msgspec.convert(tree, ObjectMeta)
    except msgspec.ValidationError:
        return msgspec.convert(without_nulls(tree), ObjectMeta)


def without_nulls(tree: JsonValue) -> JsonValue:
    """Return `tree` without object members whose value is null."""
    if isinstance(tree, dict):
        return {k: without_nulls(v) for k, v in tree.items() if v is not None}
    if isinstance(tree, list):
        return [without_nulls(v) for v in tree]
    return tree


def deep_copy(obj: C) -> C:
    """Return an independent copy of an object, or of a part of it such as its metadata.

    The copy of an object keeps the fields that its class does not know.

    >>> site = PartialObjectMetadata(metadata=ObjectMeta(name="a", labels={"tier": "web"}))
    >>> metadata = deep_copy(site.metadata)
    >>> metadata.labels["tier"] = "db"
    >>> site.metadata.labels
    {'tier': 'web'}
    """
    clone: C = _deep_copy(obj)
    attributes: dict[str, Any] = getattr(obj, "__dict__", {})  # nested parts have no ``__dict__``
    if (origin := attributes.get(ORIGIN)) is not None:
        clone.__dict__[ORIGIN] = origin  # shared: opsdk never changes an origin
    return clone


def _deep_copy(value: Any) -> Any:
    """Return a deep copy of a tree of structs and JSON values, several times faster than `copy.deepcopy`."""
    if isinstance(value, msgspec.Struct) and not value.__struct_config__.frozen:
        clone = value.__copy__()  # type: ignore[attr-defined] # its stubs miss it; `copy.copy` takes twice as long
        for name in value.__struct_fields__:
            part = getattr(value, name)
            if type(part) not in _IMMUTABLE:
                setattr(clone, name, _deep_copy(part))
        return clone
    if type(value) is dict:
        return {key: part if type(part) in _IMMUTABLE else _deep_copy(part) for key, part in value.items()}
    if type(value) is UnsetMap:
        return UnsetMap(value)
    if type(value) is list:
        return [part if type(part) in _IMMUTABLE else _deep_copy(part) for part in value]
    return value if type(value) in _IMMUTABLE else copy.deepcopy(value)


# The types of most attributes; the check here saves most of the calls.
_IMMUTABLE = frozenset({str, int, float, bool, bytes, type(None), datetime, Quantity, MicroTime, Duration})


@lru_cache(maxsize=4096)
def _without_kind(fields: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in fields if name not in {"api_version", "kind"})


def assign(target: T, source: T) -> None:
    """Make `target` equal to `source`, in place. Writes use it to return the server's state of the object.

    `target` keeps its ``api_version`` and ``kind`` if `source` has none.
    """
    for name in _without_kind(target.__struct_fields__):
        setattr(target, name, getattr(source, name))
    if source.kind:
        target.kind = source.kind
    if source.api_version:
        target.api_version = source.api_version
    target.__dict__.pop(ORIGIN, None)
    if (origin := source.__dict__.get(ORIGIN)) is not None:
        target.__dict__[ORIGIN] = origin
