"""The boundary of an operator: its exchanges with API servers, which a recorder observes and a replay answers."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, Protocol

from opsdk.http.client.request import ConnectionBackend

__all__ = ["BOUNDARY", "Boundary"]


class Boundary(Protocol):
    """Stands between the transports of an operator and their connections."""

    def around(self, backend: ConnectionBackend, server: str) -> ConnectionBackend:
        """Return the backend of a transport.

        Args:
            backend: that carries out exchanges.
            server: host, port and path of the server.
        """
        ...


BOUNDARY: Final[ContextVar[Boundary | None]] = ContextVar("opsdk_boundary", default=None)
"""The boundary of transports that are created in this context; None for direct connections."""
