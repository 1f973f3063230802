"""Capabilities of a storage, each a protocol: verbs, routes, discovery and OpenAPI follow from what it can do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol, runtime_checkable

from opsdk.api.selectors import FieldSelector, Selector
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.storage.ports import Preconditions, Tree, Watch
from opsdk.web.request import Request
from opsdk.web.response import Response


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which objects are meant."""

    labels: Selector = field(default_factory=Selector)
    fields: FieldSelector = field(default_factory=FieldSelector)

    @property
    def everything(self) -> bool:
        """Whether nothing is left out."""
        return not self.labels.requirements and not self.labels.nothing and not self.fields.requirements


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """A list: which objects, of which revision (None: now), from which key on, how many at most (0: all).

    The key is said without the beginning that all keys of the list have.
    """

    selection: Selection = field(default_factory=Selection)
    revision: int | None = None
    start: str = ""
    limit: int = 0


@dataclass(frozen=True, slots=True)
class Listed:
    """Objects of one snapshot; `next_key` (see `ListQuery`) where more follow, `remaining` if it is known how many."""

    items: Sequence[Tree]
    revision: int
    next_key: str = ""
    remaining: int | None = None


Validate = Callable[[Tree, Tree | None], Awaitable[None]]
"""Admission's last word on a new object and the old one; raises to refuse."""

Transform = Callable[[Tree | None], Awaitable[Tree]]
"""From the stored object (None: absent) to the wanted one."""


async def accept(obj: Tree, old: Tree | None) -> None:
    """No objection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """How to delete.

    Attributes:
        grace: seconds the object may take to end; None leaves it to the kind.
        propagation: ``Orphan``, ``Background``, ``Foreground``; empty is the kind's default.
    """

    grace: int | None = None
    propagation: str = ""
    preconditions: Preconditions = field(default_factory=Preconditions)


@dataclass(frozen=True, slots=True)
class Deleted:
    """The object's last state, and whether it is gone (or only marked)."""

    obj: Tree
    gone: bool


@runtime_checkable
class Getter(Protocol):
    """Reads one object."""

    async def get(self, context: Context, name: str) -> Tree:
        """The object, else `NotFoundError`."""
        ...


@runtime_checkable
class Lister(Protocol):
    """Reads many."""

    async def list(self, context: Context, query: ListQuery) -> Listed:
        """The selected objects."""
        ...


@runtime_checkable
class Creater(Protocol):
    """Makes objects. `name` is that of the path for subresources such as ``pods/binding``, else empty."""

    async def create(self, context: Context, name: str, obj: Tree, validate: Validate = accept) -> Tree:
        """The created object."""
        ...


@runtime_checkable
class Updater(Protocol):
    """Replaces objects; every PUT and patch comes through here."""

    async def update(
        self,
        context: Context,
        name: str,
        transform: Transform,
        validate: Validate = accept,
        *,
        force_create: bool = False,
        uid: str = "",
    ) -> tuple[Tree, bool]:
        """The stored object, and whether it was created (where the kind, or `force_create`, allows that).

        A `uid` that is not the stored object's is a conflict.
        """
        ...


@runtime_checkable
class Deleter(Protocol):
    """Removes one object."""

    async def delete(self, context: Context, name: str, options: DeleteOptions, validate: Validate = accept) -> Deleted:
        """Remove or mark it."""
        ...


@runtime_checkable
class CollectionDeleter(Protocol):
    """Removes many."""

    async def delete_collection(
        self, context: Context, options: DeleteOptions, query: ListQuery, validate: Validate = accept
    ) -> Listed:
        """Remove or mark the selected objects; returns them."""
        ...


@runtime_checkable
class Watcher(Protocol):
    """Tells of changes."""

    def watch(self, context: Context, name: str, revision: int | None) -> Watch:
        """Raw changes after `revision` (None: from now); `name` restricts them to one object."""
        ...

    def matches(self, selection: Selection, obj: Tree) -> bool:
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

    async def connect(self, context: Context, name: str, path: str, request: Request) -> Response:
        """Answer; `path` is what follows the subresource."""
        ...


@runtime_checkable
class Connected(Protocol):
    """A `Connecter` whose connections admission is asked about."""

    def connect_options(self, path: str, request: Request) -> Tree:
        """The options object of a request; `path` is what follows the subresource, with its slashes."""
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
