"""A hostile API server: what an informer holds of bodies and lists that do not end.

The operator is a process of its own: ``python -m benchmarks.runtime.hostile URL`` starts an informer.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from benchmarks.runtime.unread import resident
from opsdk.apimachinery.gvk import GroupVersionKind, GroupVersionResource
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import Unstructured
from opsdk.apimachinery.rest_mapper import RestMapping
from opsdk.cache.informer import Informer
from opsdk.cache.list_watch import RestListerWatcher
from opsdk.rest.config import RestConfig
from opsdk.rest.transport import Transport

SECONDS: Final = 12.0
"""Seconds that each attack lasts."""
_ITEMS: Final = 500


@dataclass(frozen=True, slots=True)
class HostileRow:
    """One attack: the most resident memory of the operator in MiB, and the requests that it sent."""

    name: str
    before: float
    most: float
    requests: int


def _page(start: int, token: str) -> bytes:
    items = [
        {"metadata": {"name": f"n{number}", "namespace": "a", "uid": f"u{number}", "resourceVersion": "1"}, "data": "x"}
        for number in range(start, start + _ITEMS)
    ]
    meta = {"resourceVersion": "1", "continue": token}
    return json.dumps({"kind": "ThingList", "apiVersion": "example.com/v1", "metadata": meta, "items": items}).encode()


def _endless_body(_: int) -> Iterator[bytes]:
    yield b'{"kind":"ThingList","apiVersion":"example.com/v1","items":[{"data":"'
    while True:
        yield b"x" * (1 << 20)


ATTACKS: Final[dict[str, Callable[[int], Iterator[bytes]]]] = {
    "endless body": _endless_body,
    "endless pages": lambda number: iter((_page(number * _ITEMS, f"t{number}"),)),
    "page that names itself": lambda _: iter((_page(0, "again"),)),
}


@asynccontextmanager
async def _serve(attack: Callable[[int], Iterator[bytes]], requests: list[bytes]) -> AsyncIterator[int]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                requests.append(head)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
                for piece in attack(len(requests)):
                    writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                    await writer.drain()
                writer.write(b"0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        server.close()


async def attack_operator(name: str) -> HostileRow:
    """Play one attack against an informer in another process."""
    requests: list[bytes] = []
    async with _serve(ATTACKS[name], requests) as port:
        command = (sys.executable, "-m", "benchmarks.runtime.hostile", f"http://127.0.0.1:{port}")
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        await process.stdout.readline()
        before = most = resident(process.pid)
        for _ in range(int(SECONDS * 10)):
            await asyncio.sleep(0.1)
            most = max(most, resident(process.pid))
        process.kill()
        await process.wait()
    return HostileRow(name, before, most, len(requests))


async def _operate(host: str) -> None:
    logging.disable(logging.CRITICAL)
    kind = Kind(GroupVersionKind("example.com", "v1", "Thing"), Unstructured)
    resource = GroupVersionResource("example.com", "v1", "things")
    mapping = RestMapping(gvk=kind.gvk, resource=resource, namespaced=True)
    async with Transport(RestConfig(host=host)) as transport:
        print("ready", flush=True)
        async with Informer(RestListerWatcher(transport, mapping, kind)):
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_operate(sys.argv[1]))
