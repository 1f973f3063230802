"""The boundary of an operator: what a recorder observes there, a replay answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol, get_type_hints

import msgspec

from opsdk.http.client.request import ConnectionBackend

if TYPE_CHECKING:  # start-up time: each transport has a boundary, and few programs have a webhook
    from opsdk.http.server.request import HttpRequest
    from opsdk.http.server.response import HttpResponse

__all__ = ["BOUNDARY", "Boundary", "ExternalCall", "Method", "RequestHandler", "listens"]

RequestHandler = Callable[["HttpRequest"], Awaitable["HttpResponse"]]
"""Answers a request to a webhook."""


Method = Callable[..., Coroutine[Any, Any, Any]]


class ExternalCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of an async method of a system outside of Kubernetes.

    Attributes:
        name: of the system and its method, such as ``dns.create``.
        method: to call.
        arguments: of the method.
        keywords: of the method.
    """

    name: str
    method: Method
    arguments: tuple[Any, ...]
    keywords: dict[str, Any] = {}

    @property
    def returns(self) -> Any:
        """The annotated type of the result; `Any` if there is none."""
        try:
            return get_type_hints(self.method).get("return", Any)
        except (NameError, TypeError):  # names that only a type checker knows
            return Any

    async def run(self) -> Any:
        """Call the method."""
        return await self.method(*self.arguments, **self.keywords)


class Boundary(Protocol):
    """Stands between an operator and everything outside of its process."""

    @property
    def listens(self) -> bool:
        """Whether servers open their ports."""
        ...

    def around(self, backend: ConnectionBackend, server: str) -> ConnectionBackend:
        """Return the backend of a transport.

        Args:
            backend: that carries out exchanges.
            server: host, port and path of the server.
        """
        ...

    def serve(self, handler: RequestHandler) -> RequestHandler:
        """Return the handler of requests to webhooks."""
        ...

    async def call(self, call: ExternalCall) -> Any:
        """Return the result of a call, or raise its exception."""
        ...


BOUNDARY: Final[ContextVar[Boundary | None]] = ContextVar("opsdk_boundary", default=None)
"""The boundary of what is created in this context; None for none."""


def listens() -> bool:
    """Whether servers of this context open their ports."""
    boundary = BOUNDARY.get()
    return boundary is None or boundary.listens
