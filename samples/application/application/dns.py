"""The name in the DNS: a resource outside Kubernetes, and the HTTP client of its service."""

from __future__ import annotations

from typing import Literal

import httpx
import msgspec

from application.api import Application
from application.children import meta
from opsdk.controller.external import ExternalRef, ExternalResource
from opsdk.errors import OpsdkError


class DnsError(OpsdkError):
    """The service does not respond, or fails; retry later."""


class Record(msgspec.Struct, kw_only=True):
    """A record of the service. `token` is the idempotency key of its creation."""

    id: str = ""
    token: str
    host: str
    target: str
    state: Literal["pending", "active"] = "pending"


class DnsClient:
    """The service over HTTP. The client has its URL and a timeout. All methods raise `DnsError`."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def get(self, key: str) -> Record | None:
        """Return a record, or None if it does not exist."""
        return await self._send("GET", f"/records/{key}")

    async def find(self, token: str) -> Record | None:
        """Return the record that was created with a token, or None."""
        return await self._send("GET", f"/tokens/{token}")

    async def create(self, record: Record) -> Record:
        """Create a record, or return the one that was created with its token."""
        return await self._write("POST", "/records", record)

    async def change(self, record: Record) -> Record:
        """Change a record."""
        return await self._write("PUT", f"/records/{record.id}", record)

    async def delete(self, key: str) -> None:
        """Delete a record, if it exists."""
        await self._send("DELETE", f"/records/{key}")

    async def _write(self, method: str, path: str, record: Record) -> Record:
        answer = await self._send(method, path, msgspec.json.encode(record))
        if answer is None:
            raise DnsError(f"{method} {path}: the record no longer exists")
        return answer

    async def _send(self, method: str, path: str, body: bytes = b"") -> Record | None:
        try:
            response = await self._client.request(method, path, content=body)
        except httpx.HTTPError as error:
            raise DnsError(f"{method} {path}: {error!r}") from error
        if response.status_code == 404:
            return None
        if response.is_error:
            raise DnsError(f"{method} {path}: HTTP {response.status_code}")
        return msgspec.json.decode(response.content, type=Record)


class DnsRecord(ExternalResource[Application, Record]):
    """The record of an Application. Its id is in ``status.record``."""

    name = "record"
    poll = 30.0

    def __init__(self, client: DnsClient) -> None:
        self._client = client

    async def observe(self, _obj: Application, ref: ExternalRef) -> Record | None:
        """Return the record, or None if it does not exist."""
        return await (self._client.get(ref.id) if ref.id else self._client.find(ref.token))

    async def create(self, obj: Application, ref: ExternalRef) -> Record:
        """Create it."""
        return await self._client.create(desired_record(obj, Record(token=ref.token, host="", target="")))

    async def update(self, obj: Application, _ref: ExternalRef, observed: Record) -> Record | None:
        """Change its host or its target."""
        desired = desired_record(obj, observed)
        return None if desired == observed else await self._client.change(desired)

    async def delete(self, _obj: Application, ref: ExternalRef) -> None:
        """Delete it."""
        await self._client.delete(ref.id)


def desired_record(app: Application, record: Record) -> Record:
    """Return a record with the host and the target of an Application."""
    target = f"{meta(app, 'web').name}.{app.metadata.namespace}.svc"
    return msgspec.structs.replace(record, host=app.spec.host, target=target)


def is_active(record: Record) -> bool:
    """Whether name servers answer with the record."""
    return record.state == "active"
