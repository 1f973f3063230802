"""Requests through a SOCKS5 proxy, which is a small server of these tests (RFC 1928, RFC 1929)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from http_servers import Server, always, answer, listening, make_ca

from opsdk.errors import ConfigError, ConnectError
from opsdk.rest.config import RestConfig
from opsdk.rest.request import RestRequest
from opsdk.rest.transport import Transport

GET = RestRequest("GET", "/version", verb="get")
_NO_AUTHENTICATION, _PASSWORD, _NONE_FITS = 0, 2, 255


@dataclass
class SocksServer:
    """A proxy that connects every target to one local port.

    Attributes:
        target_port: the local port.
        credentials: that it wants; empty for none.
        reply: 0 connects, others refuse.
        port: where it listens.
        targets: what clients wanted: a name or an address, and a port.
    """

    target_port: int
    credentials: tuple[bytes, bytes] | None = None
    reply: int = 0
    port: int = 0
    targets: list[tuple[str, int]] = field(default_factory=list)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[SocksServer]:
        """Listen."""
        async with listening(self._serve) as server:
            self.port = server.sockets[0].getsockname()[1]
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, count = await reader.readexactly(2)
        methods = await reader.readexactly(count)
        expected = _PASSWORD if self.credentials else _NO_AUTHENTICATION
        writer.write(bytes([5, expected if expected in methods else _NONE_FITS]))
        if expected not in methods or (self.credentials and not await self._accepts(reader, writer)):
            writer.close()
            return
        _, _, _, kind = await reader.readexactly(4)
        if kind == 3:
            (length,) = await reader.readexactly(1)
            host = (await reader.readexactly(length)).decode()
        else:
            host = ".".join(map(str, await reader.readexactly(4)))
        self.targets.append((host, int.from_bytes(await reader.readexactly(2), "big")))
        writer.write(bytes([5, self.reply, 0, 1, 0, 0, 0, 0, 0, 0]))
        if self.reply:
            writer.close()
            return
        upstream, sink = await asyncio.open_connection("127.0.0.1", self.target_port)
        await asyncio.gather(_pump(reader, sink), _pump(upstream, writer))

    async def _accepts(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        parts = []
        await reader.readexactly(1)
        for _ in range(2):
            (length,) = await reader.readexactly(1)
            parts.append(await reader.readexactly(length))
        accepted = tuple(parts) == self.credentials
        writer.write(bytes([1, 0 if accepted else 1]))
        return accepted


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
async def test_the_proxy_resolves_the_name(scheme: str) -> None:
    """Requests are as without a proxy, and the name is not looked up here."""
    async with Server(always(answer())) as server, SocksServer(server.port).running() as proxy:
        config = RestConfig(host="http://api.invalid:8080/b", proxy_url=f"{scheme}://127.0.0.1:{proxy.port}")
        async with Transport(config) as transport:
            for _ in range(2):
                assert (await transport.send(GET)).status == 200
    assert proxy.targets == [("api.invalid", 8080)]
    assert [(each.target, each.header("host")) for each in server.seen] == [("/b/version", "api.invalid:8080")] * 2


async def test_tls_ends_at_the_api_server(tmp_path: Path) -> None:
    """The proxy sees no request; an address stays one."""
    ca = make_ca()
    async with (
        Server(always(answer()), tls=ca.issue("server", "127.0.0.1").server_context(tmp_path)) as server,
        SocksServer(server.port, credentials=(b"me", b"p:w")).running() as proxy,
    ):
        url = f"socks5://me:p%3Aw@127.0.0.1:{proxy.port}"
        config = RestConfig(host="https://127.0.0.1:6443", proxy_url=url, ca_data=ca.cert)
        async with Transport(config) as transport:
            assert (await transport.send(GET)).status == 200
    assert proxy.targets == [("127.0.0.1", 6443)]


async def test_what_fails_names_the_proxy() -> None:
    """A refused target, other credentials, no proxy: nothing was sent to the server."""
    async with (
        SocksServer(1, reply=5).running() as refusing,
        SocksServer(1, credentials=(b"a", b"b")).running() as closed,
    ):
        urls = {
            f"socks5://127.0.0.1:{refusing.port}": r"refuses a connection to api\.invalid:443: .*[Rr]efused",
            f"socks5://a:c@127.0.0.1:{closed.port}": r"refuses a connection to api\.invalid:443: .*authentication",
            "socks5://127.0.0.1:1": r"through socks5://127\.0\.0\.1:1: no connection",
        }
        for url, message in urls.items():
            async with Transport(RestConfig(host="https://api.invalid", proxy_url=url)) as transport:
                with pytest.raises(ConnectError, match=message):
                    await transport.send(GET)


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first request."""
    monkeypatch.setitem(sys.modules, "python_socks", None)
    with pytest.raises(ConfigError, match=r"a SOCKS5 proxy needs python_socks: pip install 'opsdk\[socks\]'"):
        Transport(RestConfig(host="https://api.invalid", proxy_url="socks5://p"))
