"""Event handlers: map events to requests.

Upstream: sigs.k8s.io/controller-runtime/pkg/handler
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import msgspec

from opsdk.apimachinery.gvk import GroupKind, GroupVersion
from opsdk.apimachinery.kinds import Kind, KindLike, kind_of
from opsdk.apimachinery.object import AnyObject
from opsdk.apimachinery.rest_mapper import RestMapper
from opsdk.cache.entry import OwnerRef
from opsdk.errors import UsageError
from opsdk.event.event import AnyEvent, Event, EventType
from opsdk.event.request import Request
from opsdk.telemetry.safe_logger import SafeLogger

__all__ = [
    "Enqueue",
    "EnqueueRequestForObject",
    "EnqueueRequestForOwner",
    "EnqueueRequestsFromMapFunc",
    "EventHandler",
    "Funcs",
]

log = SafeLogger(__name__)

T = TypeVar("T", bound=AnyObject)


class Enqueue(msgspec.Struct, frozen=True, kw_only=True):
    """A request with options of the queue, for handlers that choose a priority or a delay (``AddOpts``).

    Attributes:
        request: the request.
        priority: higher comes first. None is 0, or `opsdk.queue.core.LOW_PRIORITY` for initial lists and resyncs.
        after: seconds until the request is ready.
        rate_limited: wait for the rate limiter's delay instead of `after`.
    """

    request: Hashable
    priority: int | None = None
    after: float = 0.0
    rate_limited: bool = False


Mapped = Iterable[Hashable] | None
"""Requests, or `Enqueue`s with requests; None is the same as no request."""


@runtime_checkable
class EventHandler(Protocol):
    """Maps events to requests."""

    async def prepare(self, mapper: RestMapper) -> None:
        """Called once before the first event. It may send requests to the server."""
        ...

    def requests(self, event: AnyEvent) -> Mapped | Awaitable[Mapped]:
        """Return the requests for an event. An awaitable is awaited in the order of the events.

        If it raises, the event is retried with growing delays.
        """
        ...


class EnqueueRequestForObject:
    """Maps an event to a request for its own object."""

    async def prepare(self, mapper: RestMapper) -> None:
        """Do nothing."""

    def requests(self, event: AnyEvent) -> Mapped:
        """Return one request."""
        return (Request(*event.view.entry.key),)

    def __repr__(self) -> str:
        return "EnqueueRequestForObject()"


class EnqueueRequestForOwner:
    """Maps an event to requests for the object's owners of one kind, including owners before an update.

    Group and kind must match; the version does not matter.

    Args:
        owner: the kind of the owner.
        only_controller_owner: ignore owners that are not the controller.
    """

    def __init__(self, owner: KindLike[AnyObject], *, only_controller_owner: bool = True) -> None:
        self.owner: Kind[AnyObject] = kind_of(owner)
        self.only_controller_owner = only_controller_owner
        self._namespaced = True

    async def prepare(self, mapper: RestMapper) -> None:
        """Determine whether the owner's kind is namespaced."""
        self._namespaced = (await mapper.mapping_for(self.owner.gvk)).namespaced

    def requests(self, event: AnyEvent) -> Mapped:
        """Return one request for each owner."""
        requests: dict[Request, None] = {}
        for view in (event.old, event.new):
            for owner in view.owners if view is not None else ():
                if self._matches(owner):
                    namespace = event.view.key.namespace if self._namespaced else ""
                    requests[Request(namespace, owner.name)] = None
        return requests

    def _matches(self, owner: OwnerRef) -> bool:
        if self.only_controller_owner and not owner.controller:
            return False
        try:
            group = GroupVersion.parse(owner.api_version).group
        except UsageError:
            log.warning("an owner reference to %s %s has the apiVersion %r", owner.kind, owner.name, owner.api_version)
            return False
        return GroupKind(group, owner.kind) == self.owner.gvk.group_kind

    def __repr__(self) -> str:
        return f"EnqueueRequestForOwner({self.owner.gvk}{'' if self.only_controller_owner else ', any owner'})"


MapFunction = Callable[[Any], Mapped] | Callable[[Any], Awaitable[Mapped]]


class EnqueueRequestsFromMapFunc(Generic[T]):
    """Maps an event to the requests that a function returns for the object; for updates, for the old and the new one.

    Args:
        function: gets an object and returns requests. It may be ``async`` and read from the client, for example to find
            all objects that refer to this one.
    """

    def __init__(self, function: MapFunction) -> None:
        self.function = function

    async def prepare(self, mapper: RestMapper) -> None:
        """Do nothing."""

    def requests(self, event: Event[T]) -> Mapped | Awaitable[Mapped]:
        """Return the function's requests without duplicates."""
        views = [view for view in (event.old, event.new) if view is not None]
        if event.resync:  # old and new are the same object
            views = views[-1:]
        if is_async(self.function):
            return self._await_requests([view.object for view in views])
        requests: dict[Hashable, None] = {}
        for view in views:
            result = self.function(view.object)
            if inspect.isawaitable(result):
                if inspect.iscoroutine(result):
                    result.close()
                raise UsageError(f"{self!r} returned an awaitable: declare the function itself with `async def`")
            requests |= dict.fromkeys(result or ())
        return requests

    async def _await_requests(self, objects: list[T]) -> Mapped:
        requests: dict[Hashable, None] = {}
        for obj in objects:
            requests |= dict.fromkeys(await self.function(obj) or ())  # type: ignore[misc]
        return requests

    def __repr__(self) -> str:
        return f"EnqueueRequestsFromMapFunc({getattr(self.function, '__qualname__', self.function)})"


EventFunction = Callable[[Any], Mapped] | Callable[[Any], Awaitable[Mapped]]


class Funcs:
    """Maps events with one function for each event type. None ignores the events of that type.

    A function gets the `opsdk.event.event.Event` and may be ``async``.

    >>> deleted = Funcs(delete=lambda event: [Request(*event.view.key)])
    """

    def __init__(
        self,
        *,
        create: EventFunction | None = None,
        update: EventFunction | None = None,
        delete: EventFunction | None = None,
        generic: EventFunction | None = None,
    ) -> None:
        self._functions = {
            EventType.CREATE: create,
            EventType.UPDATE: update,
            EventType.DELETE: delete,
            EventType.GENERIC: generic,
        }

    async def prepare(self, mapper: RestMapper) -> None:
        """Do nothing."""

    def requests(self, event: AnyEvent) -> Mapped | Awaitable[Mapped]:
        """Return the requests of the function for the event's type."""
        function = self._functions[event.type]
        return function(event) if function is not None else None

    def __repr__(self) -> str:
        names = [event_type.value for event_type, function in self._functions.items() if function is not None]
        return f"Funcs({', '.join(names)})"


def as_handler(handler: MapFunction | EventHandler) -> EventHandler:
    """Return a handler, or a map function as one."""
    return handler if isinstance(handler, EventHandler) else EnqueueRequestsFromMapFunc[Any](handler)


def is_async(function: Any) -> bool:
    """Whether a call returns an awaitable, also for an object with an async ``__call__`` and for a partial."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
