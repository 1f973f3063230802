"""Named handlers of one kind: registration, order, transactions.

Upstream: github.com/rancher/lasso/pkg/controller/sharedhandler.go, github.com/rancher/norman/controller
(HandlerTransaction)
Deviates: a registration is an async context manager; upstream removes a handler when its Go context ends.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from opsdk.aio.closing import Closing
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import AnyObject, gvk_of, key_of
from opsdk.controller.declaration import place_of
from opsdk.errors import UsageError
from opsdk.event.handlers import is_async
from opsdk.event.request import Request
from opsdk.lifecycle.errors import WrongObjectError

T = TypeVar("T", bound=AnyObject)

HandlerFunction = Callable[..., Awaitable[Any]]
"""``async def handler(request, obj)`` or ``async def handler(request, obj, ctx)``.

It gets the `Request`, the object (None if it is gone) and a `Context`. It returns the object for the next handler, or
None to leave it as it was.
"""


def takes_context(function: Any, arguments: int) -> bool:
    """Whether an async function takes a `Context` after its `arguments`.

    Raises `UsageError` if the function is not async or takes another number of arguments; the message has its place.
    """
    name = getattr(function, "__qualname__", repr(function))
    if not is_async(function):
        raise UsageError(f"{name} ({place_of(function)}) is not async: declare it with `async def`")
    try:
        inspect.signature(function).bind(*[None] * (arguments + 1))
    except TypeError:
        pass
    else:
        return True
    try:
        inspect.signature(function).bind(*[None] * arguments)
    except TypeError as error:
        raise UsageError(
            f"{name}{inspect.signature(function)} ({place_of(function)}) cannot be called: it must take {arguments} "
            "positional arguments, and optionally a Context as the last one"
        ) from error
    return False


def check_returned(handler: str, returned: Any, *, kind: Kind[T], request: Request, given: T | None) -> T:
    """Return the object that a handler returned, after a check.

    Raises `WrongObjectError` if it is not the object of `request`, or its uid differs from that of `given`.
    """
    same = isinstance(returned, kind.representation) and gvk_of(returned) == kind.gvk
    if same and key_of(returned) == request.key and (given is None or returned.metadata.uid == given.metadata.uid):
        return cast("T", returned)
    described = repr(returned)
    if isinstance(returned, AnyObject):
        described = f"{returned.kind} {key_of(returned)} (uid {returned.metadata.uid or 'none'})"
    raise WrongObjectError(
        f"{handler} returned {described} for {kind.name} {request}: return the object that was passed, or None"
    )


class NamedHandler(Closing):
    """A handler of a controller. An async context manager: the end of the block removes the handler.

    Attributes:
        name: unique in its controller.
        function: see `HandlerFunction`.
        timeout: seconds for one call; 0 for no limit.
        when: objects for which it is called; a deleted object always passes.
        enabled: whether it is called at all, read before each call.
        active: False before the commit of its transaction, and after its removal.
        timeouts: number of consecutive calls that timed out.
    """

    def __init__(
        self,
        name: str,
        function: HandlerFunction,
        *,
        timeout: float,
        when: Callable[[Any], bool] | None = None,
        enabled: Callable[[], bool] | None = None,
        on_remove: Callable[[NamedHandler], None] | None = None,
    ) -> None:
        self.name = name
        self.function = function
        self.timeout = timeout
        self.when = when
        self.enabled = enabled
        self.active = False
        self.timeouts = 0
        self._takes_context = takes_context(function, 2)
        self._on_remove = on_remove
        self._calls: set[asyncio.Task[Any] | None] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    def selects(self, obj: Any) -> bool:
        """Whether the handler is called for `obj`; None is a deleted object."""
        if not self.active or (self.enabled is not None and not self.enabled()):
            return False
        return obj is None or self.when is None or self.when(obj)

    async def call(self, request: Any, obj: Any, ctx: Any) -> Any:
        """Call the function."""
        task = asyncio.current_task()
        self._calls.add(task)
        self._idle.clear()
        try:
            arguments = (request, obj, ctx) if self._takes_context else (request, obj)
            return await self.function(*arguments)
        finally:
            self._calls.discard(task)
            if not self._calls:
                self._idle.set()

    def remove(self) -> None:
        """Stop calling the handler. Running calls continue. Idempotent."""
        self.active = False
        if self._on_remove is not None:
            self._on_remove(self)
            self._on_remove = None

    async def aclose(self) -> None:
        """Remove the handler, and wait until its calls have ended; does not wait if the handler itself calls it."""
        self.remove()
        if asyncio.current_task() not in self._calls:
            await self._idle.wait()

    def __repr__(self) -> str:
        return f"<handler {self.name}{'' if self.active else ', inactive'}: {place_of(self.function)}>"


class HandlerTransaction:
    """Several registrations, also of several controllers, that become active together.

    A context manager: its end commits, an exception rolls back.

    >>> with HandlerTransaction() as transaction:
    ...     pass  # controller.add_handler("dns", handle, transaction=transaction)
    >>> transaction
    <HandlerTransaction committed: 0 handlers>
    """

    def __init__(self) -> None:
        self._pending: list[tuple[NamedHandler, Callable[[NamedHandler], None]]] = []
        self._state = "open"
        self._size = 0

    def add(self, registration: NamedHandler, activate: Callable[[NamedHandler], None]) -> None:
        """Add a registration. Controllers call it. Raises `UsageError` after the end of the transaction."""
        if self._state != "open":
            raise UsageError(f"the transaction is {self._state}: begin a new one for handler {registration.name}")
        self._pending.append((registration, activate))
        self._size += 1

    def commit(self) -> None:
        """Activate all registrations atomically, without an await. Does nothing after the end."""
        pending = self._end("committed")
        for registration, _ in pending:
            registration.active = True
        for registration, activate in pending:
            activate(registration)

    def rollback(self) -> None:
        """Drop all registrations; no handler has been called. Does nothing after the end."""
        for registration, _ in self._end("rolled back"):
            registration.remove()

    def _end(self, state: str) -> list[tuple[NamedHandler, Callable[[NamedHandler], None]]]:
        pending, self._pending = self._pending, []
        if self._state == "open":
            self._state = state
        return pending

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()
        else:
            self.rollback()

    def __repr__(self) -> str:
        return f"<HandlerTransaction {self._state}: {self._size} handlers>"


class HandlerList:
    """The handlers of one controller, in the order of their registration."""

    def __init__(self, controller: str) -> None:
        self._controller = controller
        self._handlers: dict[str, NamedHandler] = {}

    def add(self, registration: NamedHandler) -> None:
        """Add a handler. Raises `UsageError` if the name is taken."""
        if registration.name in self._handlers:
            other = place_of(self._handlers[registration.name].function)
            raise UsageError(
                f"{self._controller} already has a handler {registration.name!r} ({other}): choose another name"
            )
        self._handlers[registration.name] = registration

    def discard(self, registration: NamedHandler) -> None:
        """Remove a handler, if it is registered."""
        if self._handlers.get(registration.name) is registration:
            del self._handlers[registration.name]

    def get(self, name: str) -> NamedHandler | None:
        """Return a handler that is registered; it may be inactive."""
        return self._handlers.get(name)

    def __iter__(self) -> Iterator[NamedHandler]:
        """Iterate over a snapshot of the handlers."""
        return iter(list(self._handlers.values()))

    def __len__(self) -> int:
        return len(self._handlers)
