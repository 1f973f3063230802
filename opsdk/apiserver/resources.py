"""Resource names, and the interfaces of a kind's codec and printer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from opsdk.structured_merge.value import JsonObject, JsonValue


def group_version(group: str, version: str) -> str:
    """Return ``apps/v1``, or ``v1`` for the core group."""
    return f"{group}/{version}" if group else version


_PREFIXES = {
    "services": "services/specs/",
    "endpoints": "services/endpoints/",
    "nodes": "minions/",
    "ingresses": "ingress/",
    "replicationcontrollers": "controllers/",
}
_GROUPED = frozenset({"apiextensions.k8s.io", "apiregistration.k8s.io"})


def shown_prefix(group: str, resource: str, *, custom: bool = False) -> str:
    """Return the prefix of etcd keys after ``/registry/``, which messages show.

    >>> shown_prefix("apps", "deployments"), shown_prefix("example.com", "widgets", custom=True)
    ('deployments/', 'example.com/widgets/')
    """
    if custom or group in _GROUPED:
        return f"{group}/{resource}/"
    return _PREFIXES.get(resource, f"{resource}/")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceInfo:
    """The names and properties of a resource in one version.

    ``kind_group`` and ``kind_version`` are set if the body is of another group than the path, e.g. for scale.
    """

    group: str
    version: str
    resource: str
    kind: str
    namespaced: bool
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresource: str = ""
    kind_group: str | None = None
    kind_version: str | None = None
    deprecation: str = ""
    """The warning for requests to a deprecated kind."""
    raw_field: str = ""
    """A field that keeps its original JSON text (see `opsdk.apiserver.serializer.raw`)."""

    api_version: str = field(init=False, repr=False, compare=False)
    """The ``apiVersion`` of the path."""
    kind_api_version: str = field(init=False, repr=False, compare=False)
    """The ``apiVersion`` of request and response bodies."""
    path: str = field(init=False, repr=False, compare=False)
    """``pods`` or ``pods/status``."""

    def __post_init__(self) -> None:
        """Join the names once, because each request reads them several times."""
        own = group_version(self.group, self.version)
        of_kind = own if self.kind_group is None else group_version(self.kind_group, self.kind_version or self.version)
        path = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        for name, text in (("api_version", own), ("kind_api_version", of_kind), ("path", path)):
            object.__setattr__(self, name, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """A table column; columns with a priority above zero are only in wide output."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0

    def wire(self) -> JsonObject:
        """Return the ``TableColumnDefinition``."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


class Printer(Protocol):
    """Prints objects as table rows.

    Attributes:
        evaluates_paths: whether cells are expressions of users: their number and time have no limit of their own, so
            `cells` calls `opsdk.aio.large_work.check_time` between steps, and stops when `is_spent`.
    """

    evaluates_paths: bool = False

    @property
    def columns(self) -> Sequence[TableColumn]:
        """The column definitions."""
        ...

    def cells(self, obj: JsonObject, now: float) -> list[JsonValue]:
        """Return the cells of a row; `now` is Unix time in seconds, for ages."""
        ...

    def conditions(self, obj: JsonObject) -> Sequence[JsonObject]:
        """Return the row's conditions, such as ``Completed``."""
        return ()

    def arranged(self, objects: Sequence[JsonObject]) -> Sequence[JsonObject]:
        """Return the objects of a list in row order."""
        return objects


@dataclass(frozen=True, slots=True)
class DecodedBody:
    """A decoded body; `problems` are the errors of strict decoding."""

    obj: JsonObject
    problems: Sequence[str] = ()


class ResourceModel(Protocol):
    """A kind's codec: decoding, defaulting, conversion, merging and printing."""

    @property
    def typed(self) -> bool:
        """Whether it is a built-in type: list items omit their kind, and strategic merge patch is supported."""
        ...

    @property
    def shape(self) -> Any:
        """The schema for patches and field ownership (`opsdk.structured_merge.schema.Schema`)."""
        ...

    @property
    def printer(self) -> Printer:
        """The printer of tables."""
        ...

    def type_named(self, api_version: str, kind: str) -> str:
        """Return the Go name of a built-in type (``v1.Secret``); empty for unknown kinds."""
        ...

    def decode(self, body: JsonObject, *, memory: bool = False) -> DecodedBody:
        """Check types and drop unknown fields. Raises `DecodeError`.

        `memory` means that the body is a merged object and not text, which changes error messages.

        `body` is not changed. The result shares with it only parts that `default` and the strategy never change.
        """
        ...

    def from_protobuf(self, body: bytes) -> JsonObject:
        """Decode a protobuf body. Raises `UnsupportedMediaTypeError` if the kind has no protobuf form."""
        ...

    def default(self, obj: JsonObject, *, nulls: bool = False) -> JsonObject:
        """Return the object with defaults; may change `obj`.

        For custom objects, nulls of non-nullable fields are dropped; with `nulls` they stay, and validation fails.
        """
        ...

    def to_storage(self, obj: JsonObject) -> JsonObject:
        """Convert from the served to the storage version."""
        ...

    def from_storage(self, obj: JsonObject) -> JsonObject:
        """Convert from the storage to the served version; the result shares parts with the argument."""
        ...

    @property
    def blank(self) -> JsonObject:
        """The fields besides metadata of an empty object of this kind."""
        ...


class ResourceVersions(Protocol):
    """All versions of a resource, for managedFields entries, whose fields depend on the version."""

    @property
    def shapes(self) -> Mapping[str, Any]:
        """The schemas by apiVersion."""
        ...

    @property
    def remote(self) -> bool:
        """Whether conversion changes more than the ``apiVersion``."""
        ...

    async def convert(self, obj: JsonObject, api_version: str) -> JsonObject:
        """Convert an object to another apiVersion. Raises `ApiError`."""
        ...


@dataclass(slots=True, weakref_slot=True)
class InstalledResource:
    """A resource with its storage and model, as handlers use it."""

    info: ResourceInfo
    storage: Any
    model: ResourceModel
    verbs: tuple[str, ...] = field(default=())
    storage_version: str = ""
    versions: ResourceVersions | None = None
    field_manager: Any = field(default=None, init=False, repr=False, compare=False)
    """The `FieldManager` of a built-in kind, created at first use."""

    custom: bool = field(init=False, repr=False, compare=False)
    """Whether it belongs to a custom resource; true for its scale too, whose type is built in."""
    convertible_to_table: bool = field(init=False, repr=False, compare=False)
    """Whether there is a Table form. Storages that only create, such as access reviews, have none."""

    def __post_init__(self) -> None:
        """Derive the flags once, because each request reads them."""
        storage = self.storage
        self.custom = bool(getattr(getattr(storage, "strategy", None), "custom", False))
        only_creates = hasattr(storage, "create") and not hasattr(storage, "update") and not hasattr(storage, "list")
        self.convertible_to_table = not only_creates
