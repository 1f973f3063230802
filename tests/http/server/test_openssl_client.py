"""The server with openssl's client, which can do what Python's `ssl` cannot start."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from pathlib import Path

import pytest
from http_servers import make_ca

from opsdk.http.server.application import asgi
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse, text_response
from opsdk.http.server.server import ServeOptions, WebServer

pytestmark = [
    pytest.mark.realtime,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command"),
]
REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


async def handler(_: HttpRequest) -> HttpResponse:
    """Answer everything alike."""
    return text_response("served")


class Client:
    """``openssl s_client``: lines that begin with K or R are commands."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.seen = b""

    @classmethod
    async def start(cls, port: int, version: str) -> Client:
        """Connect, and return when the handshake is complete."""
        process = await asyncio.create_subprocess_exec(
            *("openssl", "s_client", "-connect", f"127.0.0.1:{port}", version),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        client = cls(process)
        await client.until(b"Verify return code")
        return client

    async def say(self, data: bytes, *, until: bytes) -> None:
        """Write to the standard input, and return when the output has `until`."""
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        await self.until(until)

    async def until(self, text: bytes) -> None:
        """Return when the output has `text`, which is removed with all before it."""
        assert self._process.stdout is not None
        while text not in self.seen:
            data = await asyncio.wait_for(self._process.stdout.read(1 << 16), 20)
            assert data, f"{text!r} is missing in {self.seen!r}"
            self.seen += data
        self.seen = self.seen.partition(text)[2]

    async def end(self) -> None:
        """Close the input and wait for the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await asyncio.wait_for(self._process.wait(), 20)


def context(folder: Path) -> ssl.SSLContext:
    """A server's."""
    return make_ca().issue("127.0.0.1", "127.0.0.1").server_context(folder)


async def test_a_tls_key_update_keeps_the_connection(tmp_path: Path) -> None:
    """After a TLS key update of both sides, the next request is served."""
    async with WebServer(asgi(handler), ServeOptions(tls=context(tmp_path))) as server:
        client = await Client.start(server.port, "-tls1_3")
        await client.say(REQUEST, until=b"served")
        for _ in range(3):
            await client.say(b"K\n", until=b"KEYUPDATE")
            await client.say(REQUEST, until=b"served")
        await client.end()


async def test_a_renegotiation(tmp_path: Path) -> None:
    """The server refuses it, as Go's does, and serves the next client."""
    async with WebServer(asgi(handler), ServeOptions(tls=context(tmp_path))) as server:
        client = await Client.start(server.port, "-tls1_2")
        await client.say(REQUEST, until=b"served")
        await client.say(b"R\n", until=b"no renegotiation")
        await client.end()
        client = await Client.start(server.port, "-tls1_2")
        await client.say(REQUEST, until=b"served")
        await client.end()
