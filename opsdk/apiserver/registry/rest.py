"""REST protocols of a storage, which determine its verbs, routes, discovery and OpenAPI.

Upstream: k8s.io/apiserver/pkg/registry/rest/rest.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import Any, Protocol, runtime_checkable

import msgspec

from opsdk.apimachinery.selectors import FieldSelector, LabelRequirements
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.storage.ports import StoragePreconditions, StorageWatch
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse
from opsdk.structured_merge.value import JsonObject


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The label and field selectors of a request."""

    labels: LabelRequirements = msgspec.field(default_factory=LabelRequirements)
    fields: FieldSelector = msgspec.field(default_factory=FieldSelector)

    @property
    def everything(self) -> bool:
        """Report whether all objects are selected."""
        return not self.labels.requirements and not self.labels.nothing and not self.fields.requirements


class ListQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A list query: selection, revision (None: the current one), start key and limit (0: none).

    The key is relative to the prefix of the list.
    """

    selection: Selection = msgspec.field(default_factory=Selection)
    revision: int | None = None
    start: str = ""
    limit: int = 0


class ListResult(msgspec.Struct, frozen=True):
    """Objects of one snapshot; `next_key` (see `ListQuery`) if more follow, `remaining` if their count is known."""

    items: Sequence[JsonObject]
    revision: int
    next_key: str = ""
    remaining: int | None = None


Validate = Callable[[JsonObject, JsonObject | None], Awaitable[None]]
"""Validates an admitted object with its old state. Raises `ApiError` to reject it."""

Transform = Callable[[JsonObject | None], Awaitable[JsonObject]]
"""Returns the desired object for the stored one (None: absent)."""


async def accept(obj: JsonObject, old: JsonObject | None) -> None:
    """Accept all objects."""


class DeleteRequestOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The DeleteOptions of a request.

    Attributes:
        grace: grace period in seconds; None for the kind's default.
        propagation: ``Orphan``, ``Background``, ``Foreground``; empty for the kind's default.
    """

    grace: int | None = None
    propagation: str = ""
    preconditions: StoragePreconditions = msgspec.field(default_factory=StoragePreconditions)


class DeleteResult(msgspec.Struct, frozen=True):
    """The last state of the object, and whether it was removed or only marked."""

    obj: JsonObject
    deleted_immediately: bool


@runtime_checkable
class Getter(Protocol):
    """Reads one object."""

    async def get(self, context: Context, name: str) -> JsonObject:
        """Return the object. Raises `NotFoundError`."""
        ...


@runtime_checkable
class Lister(Protocol):
    """Lists objects."""

    async def list(self, context: Context, query: ListQuery) -> ListResult:
        """Return the selected objects."""
        ...


@runtime_checkable
class Creater(Protocol):
    """Creates objects. `name` is that of the path for subresources such as ``pods/binding``, else empty."""

    async def create(self, context: Context, name: str, obj: JsonObject, validate: Validate = accept) -> JsonObject:
        """Return the created object."""
        ...


@runtime_checkable
class Updater(Protocol):
    """Updates objects, for PUT and PATCH requests."""

    async def update(
        self,
        context: Context,
        name: str,
        transform: Transform,
        validate: Validate = accept,
        *,
        force_create: bool = False,
        uid: str = "",
    ) -> tuple[JsonObject, bool]:
        """Return the stored object, and whether it was created (if the kind or `force_create` allows it).

        A `uid` that differs from the stored object's is a conflict.
        """
        ...


@runtime_checkable
class Deleter(Protocol):
    """Deletes one object."""

    async def delete(
        self, context: Context, name: str, options: DeleteRequestOptions, validate: Validate = accept
    ) -> DeleteResult:
        """Remove the object or mark it as deleted."""
        ...


@runtime_checkable
class CollectionDeleter(Protocol):
    """Deletes a collection."""

    async def delete_collection(
        self, context: Context, options: DeleteRequestOptions, query: ListQuery, validate: Validate = accept
    ) -> ListResult:
        """Remove or mark the selected objects, and return them."""
        ...


@runtime_checkable
class Watcher(Protocol):
    """Watches objects."""

    async def watch(self, context: Context, name: str, revision: int | None) -> StorageWatch:
        """Watch changes after `revision` (None: from now); `name` restricts the watch to one object."""
        ...

    def matches(self, selection: Selection, obj: JsonObject) -> bool:
        """Report whether the selection matches an object."""
        ...


@runtime_checkable
class Connecter(Protocol):
    """Handles HTTP itself."""

    @property
    def connect_methods(self) -> tuple[str, ...]:
        """The supported HTTP methods."""
        ...

    @property
    def connect_verbs(self) -> tuple[str, ...]:
        """The verbs in discovery."""
        ...

    async def connect(self, context: Context, name: str, path: str, request: HttpRequest) -> HttpResponse:
        """Handle the connection; `path` follows the subresource."""
        ...


@runtime_checkable
class ConnectHandler(Protocol):
    """A `Connecter` whose connections pass admission."""

    def connect_options(self, path: str, request: HttpRequest) -> JsonObject:
        """Return the options object of a request; `path` follows the subresource and keeps its slashes."""
        ...


def verbs_of(storage: Any) -> tuple[str, ...]:
    """Return the verbs that a storage supports, in discovery order; a `Connecter` names its own."""
    own: tuple[str, ...] | None = getattr(storage, "connect_verbs", None)
    return _verbs_of_type(storage.__class__) if own is None else own


@cache
def _verbs_of_type(storage: type) -> tuple[str, ...]:
    """Return the verbs of a storage class; cached, because protocol checks took a third of a server's startup time."""
    able = {
        "get": issubclass(storage, Getter),
        "list": issubclass(storage, Lister),
        "create": issubclass(storage, Creater),
        "update": issubclass(storage, Updater),
        "patch": issubclass(storage, Updater) and issubclass(storage, Getter),
        "delete": issubclass(storage, Deleter),
        "deletecollection": issubclass(storage, CollectionDeleter),
        "watch": issubclass(storage, Watcher) and issubclass(storage, Lister),
    }
    return tuple(sorted(verb for verb, can in able.items() if can))
