"""Hostile members over TLS: each request ends with an error, in bounded time and memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from http_servers import make_ca

from opsdk.apiserver.storage.etcd import messages
from opsdk.apiserver.storage.etcd.client import EtcdClient, Repeat, Rpc
from opsdk.apiserver.storage.etcd.errors import EtcdError
from opsdk.apiserver.storage.etcd.options import EtcdOptions

pytestmark = pytest.mark.realtime
Respond = Callable[[Any], Awaitable[bytes]]


async def large(_: Any) -> bytes:
    """A valid response of 16 MiB."""
    kv = {"key": b"a", "value": bytes(16 << 20)}
    return bytes(messages.RangeResponse(kvs=[kv]).SerializeToString())


async def malformed(_: Any) -> bytes:
    """Bytes that are not a message."""
    return b"\xff" * 1000


async def deep(_: Any) -> bytes:
    """A length that goes beyond the message."""
    return b"\x12\xff\xff\xff\x7f"


async def silent(_: Any) -> bytes:
    """No response."""
    await asyncio.Event().wait()
    return b""


@asynccontextmanager
async def client_of(respond: Respond, folder: Path, name: str = "127.0.0.1") -> AsyncIterator[EtcdClient]:
    """A client of a member with a certificate for `name`."""
    authority = make_ca()
    ca, _ = authority.files(folder, "ca")
    cert, key = authority.issue("member", name).files(folder, "tls")
    others = asyncio.all_tasks()

    async def stream(_: Any, context: Any) -> AsyncIterator[bytes]:
        while True:
            yield await respond(context)

    async def unary(_: Any, context: Any) -> bytes:
        return await respond(context)

    server = grpc.aio.server()
    for rpc in Rpc:
        service, method = rpc.value[0].strip("/").split("/")
        handler = (
            grpc.stream_stream_rpc_method_handler(stream)
            if rpc is Rpc.WATCH
            else grpc.unary_unary_rpc_method_handler(unary)
        )
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, {method: handler})])
    credentials = grpc.ssl_server_credentials([(key.read_bytes(), cert.read_bytes())])
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(server.stop, None)
        options = EtcdOptions(
            endpoints=(f"https://127.0.0.1:{port}",), ca_file=ca, request_timeout=1.0, retry_timeout=2.0, page_limit=1
        )
        yield await stack.enter_async_context(EtcdClient(options))
    if tasks := asyncio.all_tasks() - others:
        await asyncio.wait(tasks, timeout=10)


@pytest.mark.parametrize("respond", [large, malformed, deep, silent])
@pytest.mark.parametrize("repeat", [Repeat.READ, Repeat.NEVER])
async def test_an_invalid_response_is_an_error(respond: Respond, repeat: Repeat, tmp_path: Path) -> None:
    """An invalid response is an error; the outcome of a write is then unknown."""
    async with client_of(respond, tmp_path) as client:
        with pytest.raises(EtcdError) as caught:
            await client.request(Rpc.RANGE, messages.RangeRequest(), repeat)
    assert caught.value.done is (repeat is Repeat.NEVER)


@pytest.mark.parametrize("respond", [large, malformed, deep])
async def test_an_invalid_event_ends_the_watch(respond: Respond, tmp_path: Path) -> None:
    """An invalid event ends the watch with an error, and the feed reads the storage again."""

    async def read(client: EtcdClient) -> None:
        async with client.watch(messages.WatchCreateRequest()) as responses:
            async for _ in responses:
                continue

    async with client_of(respond, tmp_path) as client:
        with pytest.raises(EtcdError):
            await read(client)


async def test_a_certificate_for_another_name_is_refused(tmp_path: Path) -> None:
    """No request is sent to such a member."""
    received: list[Any] = []

    async def record(context: Any) -> bytes:
        received.append(context)
        return b""

    async with client_of(record, tmp_path, name="etcd.example.com") as client:
        with pytest.raises(EtcdError) as caught:
            await client.request(Rpc.TXN, messages.TxnRequest(), Repeat.NEVER)
    assert not received
    assert not caught.value.done
