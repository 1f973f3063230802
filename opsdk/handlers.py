"""Which requests an event leads to."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from opsdk.apimachinery.gvk import GroupKind, GroupVersion
from opsdk.apimachinery.kinds import Kind, KindLike, kind_of
from opsdk.apimachinery.object import AnyObject
from opsdk.apimachinery.rest_mapper import RestMapper
from opsdk.cache.store import OwnerRef
from opsdk.errors import UsageError
from opsdk.event.event import AnyEvent, Event
from opsdk.event.request import Request

log = logging.getLogger(__name__)

T = TypeVar("T", bound=AnyObject)
Mapped = Iterable[Request] | None
"""Requests; None for none."""


@runtime_checkable
class EventHandler(Protocol):
    """Maps events to requests."""

    async def prepare(self, mapper: RestMapper) -> None:
        """Called once before the first event; may ask the server."""
        ...

    def requests(self, event: AnyEvent) -> Mapped | Awaitable[Mapped]:
        """The requests for an event, without duplicates. An awaitable is awaited in the order of the events."""
        ...


class EnqueueRequestForObject:
    """The object itself."""

    async def prepare(self, mapper: RestMapper) -> None:
        """Nothing to prepare."""

    def requests(self, event: AnyEvent) -> Mapped:
        """One request."""
        return (Request(*event.view.key),)

    def __repr__(self) -> str:
        return "EnqueueObject()"


class EnqueueRequestForOwner:
    """The owners of a kind that the object has, or had before an update.

    Group and kind must match; the version does not matter.

    Args:
        owner: the kind of the owner.
        controller_only: only the controlling owner counts.
    """

    def __init__(self, owner: KindLike[AnyObject], *, only_controller_owner: bool = True) -> None:
        self.owner: Kind[AnyObject] = kind_of(owner)
        self.only_controller_owner = only_controller_owner
        self._namespaced = True

    async def prepare(self, mapper: RestMapper) -> None:
        """Learn whether owners live in namespaces."""
        self._namespaced = (await mapper.mapping_for(self.owner.gvk)).namespaced

    def requests(self, event: AnyEvent) -> Mapped:
        """One request for each owner."""
        requests: dict[Request, None] = {}
        for view in (event.old, event.new):
            for owner in view.owners if view is not None else ():
                if self._is_ours(owner):
                    namespace = event.view.key.namespace if self._namespaced else ""
                    requests[Request(namespace, owner.name)] = None
        return requests

    def _is_ours(self, owner: OwnerRef) -> bool:
        if self.only_controller_owner and not owner.controller:
            return False
        try:
            group = GroupVersion.parse(owner.api_version).group
        except UsageError:
            log.warning("an owner reference to %s %s has the apiVersion %r", owner.kind, owner.name, owner.api_version)
            return False
        return GroupKind(group, owner.kind) == self.owner.gvk.group_kind

    def __repr__(self) -> str:
        return f"EnqueueOwner({self.owner.gvk}{'' if self.only_controller_owner else ', any owner'})"


MapFunction = Callable[[Any], Mapped] | Callable[[Any], Awaitable[Mapped]]


class EnqueueRequestsFromMapFunc(Generic[T]):
    """What a function makes of the object; in updates of the old and the new one.

    The function may be ``async`` and read from the client, e.g. to find all objects that refer to this one.
    """

    def __init__(self, function: MapFunction) -> None:
        self.function = function

    async def prepare(self, mapper: RestMapper) -> None:
        """Nothing to prepare."""

    def requests(self, event: Event[T]) -> Mapped | Awaitable[Mapped]:
        """The function's requests."""
        views = [view for view in (event.old, event.new) if view is not None]
        if event.resync:  # twice the same object
            views = views[-1:]
        if _is_async(self.function):
            return self._wait([view.object for view in views])
        requests: dict[Request, None] = {}
        for view in views:
            answer = self.function(view.object)
            if inspect.isawaitable(answer):
                if inspect.iscoroutine(answer):
                    answer.close()
                raise UsageError(f"{self!r} answered an awaitable: declare the function itself with `async def`")
            requests |= dict.fromkeys(answer or ())
        return requests

    async def _wait(self, objects: list[T]) -> Mapped:
        requests: dict[Request, None] = {}
        for obj in objects:
            requests |= dict.fromkeys(await self.function(obj) or ())  # type: ignore[misc]
        return requests

    def __repr__(self) -> str:
        return f"EnqueueMapped({getattr(self.function, '__qualname__', self.function)})"


def _is_async(function: Any) -> bool:
    """Whether calling it gives an awaitable: also an object whose ``__call__`` is async, or a partial of either."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
