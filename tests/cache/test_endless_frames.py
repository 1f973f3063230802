"""A server whose watch sends an event without an end: the informer reports an error, and lists again."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

import pytest
from http_servers import Seen, Server, answer

from opsdk.apimachinery.gvk import GroupVersionKind, GroupVersionResource
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import Unstructured
from opsdk.apimachinery.rest_mapper import RestMapping
from opsdk.base.limits import LIMITS
from opsdk.cache.informer import Informer, InformerOptions
from opsdk.cache.list_watch import RestListerWatcher
from opsdk.rest.config import RestConfig
from opsdk.rest.transport import Transport

pytestmark = pytest.mark.realtime
MAPPING = RestMapping(
    gvk=GroupVersionKind("", "v1", "ConfigMap"), resource=GroupVersionResource("", "v1", "configmaps"), namespaced=True
)
_BUFFERS = 16 << 20
"""Bytes that the sockets of both sides may hold."""


class EndlessWatch:
    """Lists are empty; the first watch sends an event without an end, and later ones are silent."""

    def __init__(self) -> None:
        self.lists = 0
        self.watches = 0
        self.sent = 0

    async def handle(self, seen: Seen, writer: asyncio.StreamWriter) -> None:
        """Serve one request."""
        if "watch=" not in seen.target:
            self.lists += 1
            meta = {"resourceVersion": str(self.lists)}
            body = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": meta, "items": []}
            writer.write(answer(body=json.dumps(body).encode(), content_type="application/json"))
            return
        self.watches += 1
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")
        if self.watches > 1:
            await seen.gone()
            return
        writer.write(b'{"type":"ADDED","object":{"data":{"a":"')
        with suppress(ConnectionError):
            while not seen.reader.at_eof() and seen.reader.exception() is None:
                writer.write(b"x" * 65536)
                await writer.drain()
                self.sent += 65536
                await asyncio.sleep(0)


async def test_an_event_without_an_end_is_an_error_and_leads_to_a_new_list() -> None:
    """The client takes no more than one event may have; the informer is current again afterwards."""
    endless = EndlessWatch()
    async with Server(endless.handle) as server, Transport(RestConfig(host=server.host)) as transport:
        source = RestListerWatcher(transport, MAPPING, Kind(MAPPING.gvk, Unstructured))
        async with Informer(source, InformerOptions(watch_list=False)) as informer:
            errors = []
            async with asyncio.timeout(30):
                while endless.lists < 2 or endless.watches < 2:
                    health = informer.health()
                    if health.last_error is not None and not errors:
                        errors.append(str(health.last_error))
                    await asyncio.sleep(0)
            assert informer.health().errors == 1
    assert "without an end" in errors[0]
    assert LIMITS.watch_object_bytes <= endless.sent + _BUFFERS
    assert endless.sent <= LIMITS.watch_object_bytes + _BUFFERS
