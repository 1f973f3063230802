"""The external service: its port and its HTTP client."""

from __future__ import annotations

from typing import Literal, Protocol

import httpx
import msgspec

from opsdk.errors import OpsdkError


class ServiceError(OpsdkError):
    """The service does not respond, or fails; retry later."""


class RejectedError(OpsdkError):
    """The service rejects the request; a retry of the same request fails too."""


class Instance(msgspec.Struct, kw_only=True, rename="camel"):
    """A database of the service. `owner` is namespace and name of its Database."""

    owner: str
    engine: str
    version: str
    size_gb: int
    replicas: int
    state: Literal["creating", "available", "deleting"] = "creating"
    endpoint: str = ""


class Order(msgspec.Struct, kw_only=True):
    """A request for an instance."""

    instance: Instance
    username: str
    password: str


class DatabaseService(Protocol):
    """The service. All methods raise `ServiceError`, and are idempotent."""

    async def instances(self) -> dict[str, Instance]:
        """Return all instances by id."""
        ...

    async def find(self, key: str) -> Instance | None:
        """Return an instance, or None if it does not exist."""
        ...

    async def put(self, key: str, order: Order) -> Instance:
        """Create or change an instance. Raises `RejectedError`."""
        ...

    async def delete(self, key: str) -> bool:
        """Begin the deletion of an instance. Returns True if it no longer exists."""
        ...


class HttpDatabaseService:
    """The service over HTTP. The client has its URL and a timeout."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def instances(self) -> dict[str, Instance]:
        """See `DatabaseService`."""
        return msgspec.json.decode(await self._send("GET", "") or b"{}", type=dict[str, Instance])

    async def find(self, key: str) -> Instance | None:
        """See `DatabaseService`."""
        body = await self._send("GET", key)
        return None if body is None else msgspec.json.decode(body, type=Instance)

    async def put(self, key: str, order: Order) -> Instance:
        """See `DatabaseService`."""
        return msgspec.json.decode(await self._send("PUT", key, msgspec.json.encode(order)) or b"", type=Instance)

    async def delete(self, key: str) -> bool:
        """See `DatabaseService`."""
        return await self._send("DELETE", key) is None

    async def _send(self, method: str, key: str, body: bytes = b"") -> bytes | None:
        try:
            response = await self._client.request(method, f"/instances/{key}", content=body)
        except httpx.HTTPError as error:
            raise ServiceError(f"{method} instance {key}: {error!r}") from error
        if response.status_code == 404:
            return None
        if response.status_code == 422:
            raise RejectedError(response.text)
        if response.is_error:
            raise ServiceError(f"{method} instance {key}: HTTP {response.status_code}")
        return response.content
