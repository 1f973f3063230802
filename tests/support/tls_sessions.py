"""TLS contexts of a client and a server that trust each other, and sessions joined without sockets."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from http_servers import Pair, make_ca

from opsdk.http.tls_session import TlsSession, TlsState

NAME = "tls.test"


@dataclass(frozen=True)
class Contexts:
    """Both sides, with the CA that issued the server's certificate."""

    client: ssl.SSLContext
    server: ssl.SSLContext
    authority: Pair


@cache
def contexts(version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, *, client_certificate: bool = False) -> Contexts:
    """A server with a certificate for `NAME`. With `client_certificate`, it requires one that no client has."""
    authority = make_ca()
    with tempfile.TemporaryDirectory() as folder:
        pair = authority.issue(NAME, NAME, "127.0.0.1")
        server = pair.server_context(Path(folder), clients=authority if client_certificate else None)
    client = ssl.create_default_context(cadata=authority.cert.decode())
    client.maximum_version = version
    return Contexts(client, server, authority)


def sessions(both: Contexts) -> tuple[TlsSession, TlsSession]:
    """A client and a server whose handshake is complete."""
    client = TlsSession(both.client, server_hostname=NAME)
    server = TlsSession(both.server, server_side=True)
    client.start()
    exchange(client, server)
    assert (client.state, server.state) == (TlsState.OPEN, TlsState.OPEN)
    return client, server


def exchange(client: TlsSession, server: TlsSession) -> tuple[bytes, bytes]:
    """Carry ciphertext both ways until none is left; return what the client and the server read."""
    read = bytearray(), bytearray()
    while client.outgoing.pending or server.outgoing.pending:
        read[1].extend(server.receive(client.outgoing.read()))
        read[0].extend(client.receive(server.outgoing.read()))
    return bytes(read[0]), bytes(read[1])


async def read_some(reader: asyncio.StreamReader) -> bytes:
    """The next bytes. A loop that gets none at the end would never let another task run."""
    data = await reader.read(1 << 16)
    if not data:
        raise EOFError("the client has closed the connection")
    return data
