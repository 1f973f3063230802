"""The boundary of an operator: what a recorder observes there, a replay answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from opsdk.http.client.request import ConnectionBackend

if TYPE_CHECKING:  # start-up time: each transport has a boundary, and few programs have a webhook
    from opsdk.http.server.request import HttpRequest
    from opsdk.http.server.response import HttpResponse

__all__ = ["BOUNDARY", "Boundary", "ExternalCall", "RequestHandler", "listens"]

T = TypeVar("T")

RequestHandler = Callable[["HttpRequest"], Awaitable["HttpResponse"]]
"""Answers a request to a webhook."""


class ExternalCall(Protocol):
    """A call of a system outside of Kubernetes."""

    @property
    def name(self) -> str:
        """Of the system and its method, such as ``dns.create``."""
        ...

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Of the method."""
        ...

    @property
    def returns(self) -> Any:
        """The type of the result."""
        ...

    async def run(self) -> Any:
        """Call the system."""
        ...


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
