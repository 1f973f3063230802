"""How a response without a length ends."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest
from http_servers import listening, port_of
from tls_sessions import NAME, contexts, read_some

from opsdk.errors import ConnectionLostError, TlsError
from opsdk.http.client.connection import ClientConnection, connect
from opsdk.http.client.request import encode_request
from opsdk.http.tls_session import TlsSession, TlsState

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


class Ending:
    """A server that sends the first part of a body, and then ends the connection in one of three ways."""

    def __init__(self, ending: str, *, encrypted: bool) -> None:
        self._ending = ending
        self._tls = TlsSession(contexts().server, server_side=True) if encrypted else None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """See `asyncio.start_server`."""
        body = HEAD + b"part"
        if self._tls is None:
            await reader.readuntil(b"\r\n\r\n")
        else:
            request = b""
            while not request:
                request = self._tls.receive(await read_some(reader))
                writer.write(self._tls.outgoing.read())
            self._tls.write(body)
            if self._ending == "closed":
                self._tls.close()
            body = self._tls.outgoing.read()
        writer.write(body)
        await writer.drain()
        if self._ending == "reset":
            # The client must have the bytes: a reset discards what it has not read.
            await asyncio.sleep(1)
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        writer.close()


async def read_all(connection: ClientConnection) -> bytes:
    """The whole body."""
    body = b""
    while part := await connection.read():
        body += part
    return body


@pytest.mark.parametrize(
    ("encrypted", "ending", "complete"),
    [
        (False, "closed", True),
        (False, "reset", False),
        (True, "closed", True),
        (True, "cut", False),
        (True, "reset", False),
    ],
)
async def test_a_response_without_length_needs_a_clean_end(encrypted: bool, ending: str, complete: bool) -> None:
    """A response without length is complete only after a clean end, which in TLS is a close_notify."""
    async with listening(Ending(ending, encrypted=encrypted).serve) as server:
        port = port_of(server)
        context = contexts().client if encrypted else None
        connection = await connect("127.0.0.1", port, context, NAME, lambda: ClientConnection("server"))
        connection.send("GET", encode_request("GET", "/", [("Host", "a")], b""))
        await connection.head()
        assert connection.socket is not None
        assert connection.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), "a request waits for nothing"
        if complete:
            assert await read_all(connection) == b"part"
        else:
            with pytest.raises(ConnectionLostError, match="server: the connection broke"):
                await read_all(connection)
        assert not connection.reusable
        connection.abort()
        await connection.wait_closed()


async def test_a_client_certificate_that_the_server_requires() -> None:
    """In TLS 1.3 the connection opens before the server refuses it: the request fails with the server's alert."""
    tls = TlsSession(contexts(client_certificate=True).server, server_side=True)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while tls.state is not TlsState.CLOSED:
            tls.receive(await read_some(reader))
            writer.write(tls.outgoing.read())
        await reader.read()
        writer.close()

    async with listening(serve) as server:
        port = port_of(server)
        context = contexts(client_certificate=True).client
        connection = await connect("127.0.0.1", port, context, NAME, lambda: ClientConnection("server"))
        connection.send("GET", encode_request("GET", "/", [("Host", "a")], b""))
        with pytest.raises(TlsError, match="TLSV13_ALERT_CERTIFICATE_REQUIRED"):
            await connection.head()
        await connection.wait_closed()
