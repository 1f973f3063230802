"""A fake service with instances in memory: ``python fake_service.py [PORT]``."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import httpx
import msgspec

from database.api import Database
from database.operator import make_operator
from database.service import HttpDatabaseService, Instance, Order
from database.webhooks import add_webhooks
from opsdk import Request
from opsdk.apiserver import ServeOptions, WebServer
from opsdk.testing.doubles import ClusterSnapshot, Doubles


class FakeDatabaseService:
    """The service as an ASGI application.

    Attributes:
        seconds: how long a creation, a change or a deletion takes.
        instances: by id.
        orders: the accepted orders, the last one at the end.
        down: answer every request with 503.
    """

    def __init__(self, *, seconds: float = 5.0) -> None:
        self.seconds = seconds
        self.instances: dict[str, Instance] = {}
        self.orders: list[Order] = []
        self.down = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        status, answer = (503, None) if self.down else self.answer(scope["method"], scope["path"].split("/")[-1], body)
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": msgspec.json.encode(answer)})

    def answer(self, method: str, key: str, body: bytes) -> tuple[int, object]:
        """Return status and body for a request."""
        if method == "PUT":
            order = msgspec.json.decode(body, type=Order)
            if not order.password:
                return 422, "the password is empty"
            self.orders.append(order)
            self.instances[key] = order.instance
            self._later(key)
        elif method == "GET" and not key:
            return 200, self.instances
        elif key not in self.instances:
            return 404, None
        elif method == "DELETE" and self.instances[key].state != "deleting":
            self.instances[key].state = "deleting"
            self._later(key)
        return 200, self.instances[key]

    def _later(self, key: str) -> None:
        asyncio.get_running_loop().call_later(self.seconds, self._finish, key, self.instances[key])

    def _finish(self, key: str, instance: Instance) -> None:
        if self.instances.get(key) is not instance:
            return  # changed again meanwhile
        if instance.state == "deleting":
            del self.instances[key]
        else:
            instance.state, instance.endpoint = "available", f"{key}.example.com:5432"


def make_doubles(snapshot: ClusterSnapshot) -> Doubles[FakeDatabaseService]:
    """Return the operator with a service that has the Databases' instances: see ``doubles`` in pyproject.toml."""
    service = FakeDatabaseService()
    for database in snapshot.objects_of(Database):
        if database.status is not None and database.status.endpoint:
            service.instances[database.metadata.uid] = Instance(
                owner=str(Request.of(database)),
                engine=database.spec.engine,
                version=database.spec.version,
                size_gb=database.spec.size_gb,
                replicas=database.status.replicas,
                state="available",
                endpoint=database.status.endpoint,
            )
    http = httpx.AsyncClient(transport=httpx.ASGITransport(app=service), base_url="http://service")
    return Doubles(operator=lambda: add_webhooks(make_operator(HttpDatabaseService(http))), systems=service)


async def main(port: int = 8100) -> None:
    """Serve until the process ends."""
    async with WebServer(FakeDatabaseService(), ServeOptions(port=port)) as server:
        print(f"serving at {server.url}", flush=True)  # noqa: T201 - the program's only output
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
