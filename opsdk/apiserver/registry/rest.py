"""REST protocols of a storage; they decide its verbs, routes, discovery and OpenAPI.

Upstream: k8s.io/apiserver/pkg/registry/rest/rest.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import Any, Protocol, TypedDict, runtime_checkable

import msgspec

from opsdk.apimachinery.selectors import FieldSelector, Selector
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.storage.ports import StoragePreconditions, StorageWatch
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse
from opsdk.structured_merge.value import JsonObject


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The label and field selectors of a request."""

    labels: Selector = msgspec.field(default_factory=Selector)
    fields: FieldSelector = msgspec.field(default_factory=FieldSelector)

    @property
    def everything(self) -> bool:
        """Report whether all objects are selected."""
        return not self.labels.requirements and not self.labels.nothing and not self.fields.requirements


class ListQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A list: which objects, of which revision (None: now), from which key on, how many at most (0: all).

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
"""Admission's last word on a new object and the old one; raises to refuse."""

Transform = Callable[[JsonObject | None], Awaitable[JsonObject]]
"""From the stored object (None: absent) to the wanted one."""


async def accept(obj: JsonObject, old: JsonObject | None) -> None:
    """No objection."""


class DeleteRequestOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The DeleteOptions of a request.

    Attributes:
        grace: seconds the object may take to end; None leaves it to the kind.
        propagation: ``Orphan``, ``Background``, ``Foreground``; empty is the kind's default.
    """

    grace: int | None = None
    propagation: str = ""
    preconditions: StoragePreconditions = msgspec.field(default_factory=StoragePreconditions)


class DeleteResult(msgspec.Struct, frozen=True):
    """The object's last state, and whether it is gone (or only marked)."""

    obj: JsonObject
    deleted_immediately: bool


@runtime_checkable
class Getter(Protocol):
    """Reads one object."""

    async def get(self, context: Context, name: str) -> JsonObject:
        """The object, else `NotFoundError`."""
        ...


@runtime_checkable
class Lister(Protocol):
    """Reads many."""

    async def list(self, context: Context, query: ListQuery) -> ListResult:
        """The selected objects."""
        ...


@runtime_checkable
class Creater(Protocol):
    """Makes objects. `name` is that of the path for subresources such as ``pods/binding``, else empty."""

    async def create(self, context: Context, name: str, obj: JsonObject, validate: Validate = accept) -> JsonObject:
        """The created object."""
        ...


class UpdateArguments(TypedDict, total=False):
    """The keyword arguments of `Updater.update`, for storages that only pass them on."""

    force_create: bool
    uid: str


@runtime_checkable
class Updater(Protocol):
    """Replaces objects, for PUT and PATCH requests."""

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
        """The stored object, and whether it was created (where the kind, or `force_create`, allows that).

        A `uid` that is not the stored object's is a conflict.
        """
        ...


@runtime_checkable
class Deleter(Protocol):
    """Removes one object."""

    async def delete(
        self, context: Context, name: str, options: DeleteRequestOptions, validate: Validate = accept
    ) -> DeleteResult:
        """Remove or mark it."""
        ...


@runtime_checkable
class CollectionDeleter(Protocol):
    """Removes many."""

    async def delete_collection(
        self, context: Context, options: DeleteRequestOptions, query: ListQuery, validate: Validate = accept
    ) -> ListResult:
        """Remove or mark the selected objects, and return them."""
        ...


@runtime_checkable
class Watcher(Protocol):
    """Tells of changes."""

    async def watch(self, context: Context, name: str, revision: int | None) -> StorageWatch:
        """Raw changes after `revision` (None: from now); `name` restricts them to one object."""
        ...

    def matches(self, selection: Selection, obj: JsonObject) -> bool:
        """Whether an object is selected."""
        ...


@runtime_checkable
class Connecter(Protocol):
    """Talks HTTP itself."""

    @property
    def connect_methods(self) -> tuple[str, ...]:
        """The methods it takes."""
        ...

    @property
    def connect_verbs(self) -> tuple[str, ...]:
        """The verbs that discovery lists."""
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
    """The verbs that a storage can do, as discovery lists them."""
    return _verbs_of_type(storage.__class__)


@cache
def _verbs_of_type(storage: type) -> tuple[str, ...]:
    """Asked once for each class: protocol checks were a third of the time that a server takes to start."""
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
