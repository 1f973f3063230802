"""A fake DNS service with records in memory: ``python fake_dns.py [PORT]``."""

from __future__ import annotations

import asyncio
import itertools
import sys
from typing import Any

import httpx
import msgspec

from application.api import Application
from application.dns import DnsClient, Record, desired_record
from application.operator import make_operator
from opsdk.apiserver import ServeOptions, WebServer
from opsdk.testing.doubles import ClusterSnapshot, Doubles


class FakeDns:
    """The service as an ASGI application.

    Attributes:
        seconds: how long it takes until a record is active.
        records: by id.
        down: answer every request with 503.
    """

    def __init__(self, *, seconds: float = 5.0) -> None:
        self.seconds = seconds
        self.records: dict[str, Record] = {}
        self.down = False
        self._ids = itertools.count(1)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        answer = None if self.down else self.answer(scope["method"], scope["path"], body)
        status = 503 if self.down else 200 if answer is not None else 404
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": msgspec.json.encode(answer)})

    def answer(self, method: str, path: str, body: bytes) -> Record | None:
        """Return the record of a request; None if it does not exist."""
        _, collection, *rest = path.split("/")
        key = "/".join(rest)
        if collection == "tokens":
            return next((record for record in self.records.values() if record.token == key), None)
        if method == "POST":
            record = msgspec.json.decode(body, type=Record)
            existing = self.answer("GET", f"/tokens/{record.token}", b"")
            return existing or self._store(msgspec.structs.replace(record, id=self._new_id()))
        if key not in self.records:
            return None
        if method == "PUT":
            return self._store(msgspec.json.decode(body, type=Record))
        return self.records.pop(key) if method == "DELETE" else self.records[key]

    def _new_id(self) -> str:
        return next(key for number in self._ids if (key := f"r-{number}") not in self.records)

    def _store(self, record: Record) -> Record:
        record.state = "pending"
        self.records[record.id] = record
        asyncio.get_running_loop().call_later(self.seconds, self._activate, record)
        return record

    def _activate(self, record: Record) -> None:
        if self.records.get(record.id) is record:  # not changed or deleted meanwhile
            record.state = "active"


def make_doubles(snapshot: ClusterSnapshot) -> Doubles[FakeDns]:
    """Return the operator with a DNS that has the records of the Applications: see ``doubles`` in pyproject.toml."""
    dns = FakeDns()
    for app in snapshot.objects_of(Application):
        if app.status is not None and (key := app.status.record.id):
            dns.records[key] = desired_record(app, Record(id=key, token=key, host="", target="", state="active"))
    http = httpx.AsyncClient(transport=httpx.ASGITransport(app=dns), base_url="http://dns")
    return Doubles(operator=lambda: make_operator(DnsClient(http)), systems=dns)


async def main(port: int = 8200) -> None:
    """Serve until the process ends."""
    async with WebServer(FakeDns(), ServeOptions(port=port)) as server:
        print(f"serving at {server.url}", flush=True)  # noqa: T201 - the program's only output
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
