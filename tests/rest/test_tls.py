"""Laws of `opsdk.rest.tls` and of TLS through `opsdk.rest.dial`."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest
from http_servers import Pair, Server, always, answer, listening, make_ca, port_of

from opsdk.errors import ConfigError, ConnectError, ConnectionLostError, TlsError
from opsdk.rest.config import RestConfig
from opsdk.rest.request import RestRequest
from opsdk.rest.tls import RELOAD_EVERY, ClientCert, TlsContexts
from opsdk.rest.transport import Transport
from opsdk.structured_merge.value import JsonObject

GET = RestRequest("GET", "/a")
POST = RestRequest("POST", "/a", body=b"x")
CA = make_ca()
SERVER = CA.issue("server", "127.0.0.1", "kubernetes.default")
CLIENT = CA.issue("jane")


def _ignore() -> None:
    """Somebody who does not care about new certificates."""


def _server(folder: Path, pair: Pair = SERVER, *, clients: Pair | None = None) -> Server:
    return Server(always(answer()), tls=pair.server_context(folder, clients=clients))


async def test_a_trusted_server_responds(tmp_path: Path) -> None:
    """Requests to a server with a certificate of the CA succeed, on one kept connection."""
    async with _server(tmp_path) as server, Transport(RestConfig(host=server.host, ca_data=CA.cert)) as transport:
        for _ in range(2):
            assert (await transport.send(GET)).body == b"ok"
        assert server.accepted == 1


async def test_a_ca_with_basic_constraints_only_is_trusted(tmp_path: Path) -> None:
    """Go's clients accept the CA of EKS; Python 3.13's default context requires key identifiers."""
    authority = make_ca(minimal=True)
    async with (
        _server(tmp_path, authority.issue("server", "127.0.0.1")) as server,
        Transport(RestConfig(host=server.host, ca_data=authority.cert)) as transport,
    ):
        assert (await transport.send(GET)).body == b"ok"


@pytest.mark.parametrize(
    "settings", [{"ca_data": make_ca("other").cert}, {"ca_data": b""}, {"tls_server_name": "other"}]
)
async def test_an_untrusted_server_is_a_tls_error(tmp_path: Path, settings: JsonObject) -> None:
    """A certificate of another CA, or for another name, fails the call before anything is sent."""
    async with _server(tmp_path) as server:
        async with Transport(RestConfig(host=server.host, **{"ca_data": CA.cert, **settings})) as transport:
            with pytest.raises(TlsError, match="not trusted") as caught:
                await transport.send(GET)
            assert not caught.value.retryable
        assert not server.seen


@pytest.mark.parametrize(
    "settings", [{"insecure_skip_tls_verify": True}, {"ca_data": CA.cert, "tls_server_name": "kubernetes.default"}]
)
async def test_verification_can_be_disabled(tmp_path: Path, settings: JsonObject) -> None:
    """Without verification any server will do; with a server name, that name must be in the certificate."""
    async with _server(tmp_path) as server, Transport(RestConfig(host=server.host, **settings)) as transport:
        assert (await transport.send(GET)).status == 200


async def test_a_client_certificate_is_sent(tmp_path: Path) -> None:
    """A server that requires certificates gets ours, from data or from files; without one it closes the connection."""
    cert, key = CLIENT.files(tmp_path, "client")
    with_data = {"client_cert_data": CLIENT.cert, "client_key_data": CLIENT.key}
    with_files = {"client_cert_file": str(cert), "client_key_file": str(key)}
    async with _server(tmp_path, clients=CA) as server:
        for settings in (with_data, with_files):
            async with Transport(RestConfig(host=server.host, ca_data=CA.cert, **settings)) as transport:
                assert (await transport.send(GET)).status == 200
        # asyncio's server hangs up without the alert that others send.
        async with Transport(RestConfig(host=server.host, ca_data=CA.cert)) as transport:
            with pytest.raises((TlsError, ConnectionLostError, ConnectError)):
                await transport.send(POST)


async def test_plain_server_behind_https(tmp_path: Path) -> None:
    """TLS with a server that speaks none fails as TLS or as a connection, never as an answer."""
    async with Server(always(answer())) as server:
        host = server.host.replace("http:", "https:")
        async with Transport(RestConfig(host=host, insecure_skip_tls_verify=True)) as transport:
            with pytest.raises((TlsError, ConnectError)):
                await transport.send(POST)


async def test_replaced_certificates_are_used_within_five_minutes(tmp_path: Path) -> None:
    """New files mean new connections, also where the old one is still open."""
    cert, key = CLIENT.files(tmp_path, "client")
    async with _server(tmp_path, clients=CA) as server:
        config = RestConfig(host=server.host, ca_data=CA.cert, client_cert_file=str(cert), client_key_file=str(key))
        async with Transport(config) as transport:
            await transport.send(GET)
            CA.issue("joe").files(tmp_path, "client")
            await transport.send(GET)
            assert server.accepted == 1
            await asyncio.sleep(RELOAD_EVERY - 240)
            await transport.send(GET)
            assert server.accepted == 1
            for _ in range(5):
                await asyncio.sleep(50)
                await transport.send(GET)
        assert server.accepted == 2


async def test_a_tls_failure_reads_the_ca_again_at_once(tmp_path: Path) -> None:
    """After a TLS failure the files are read again before the error is raised."""
    file = tmp_path / "ca.crt"
    file.write_bytes(make_ca("old").cert)
    async with _server(tmp_path) as server, Transport(RestConfig(host=server.host, ca_file=str(file))) as transport:
        with pytest.raises(TlsError):
            await transport.send(POST)
        file.write_bytes(CA.cert)
        assert (await transport.send(POST)).status == 200


async def test_deleted_files_keep_the_old_certificates(tmp_path: Path) -> None:
    """A file that cannot be read later changes nothing; unreadable at first, it is a configuration error."""
    file = tmp_path / "ca.crt"
    file.write_bytes(CA.cert)
    changes: list[None] = []
    contexts = TlsContexts(RestConfig(host="https://x", ca_file=str(file)), on_change=lambda: changes.append(None))
    first = contexts.context()
    for broken in (b"", b"garbage"):
        file.write_bytes(broken)
        assert not contexts.refresh(force=True)
        assert contexts.context() is first
    file.unlink()
    assert not contexts.refresh(force=True)
    assert changes == []
    with pytest.raises(ConfigError, match=str(file)):
        TlsContexts(RestConfig(host="https://x", ca_file=str(file)), on_change=_ignore).context()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ca_data": b"garbage"}, "certificate authority ca_data: not PEM"),
        ({"ca_data": b"\xff"}, "not PEM"),
        ({"client_cert_data": b"s3cret", "client_key_data": b"s3cret"}, "not a matching PEM pair"),
        ({"client_cert_data": CLIENT.cert, "client_key_data": SERVER.key}, "not a matching PEM pair"),
        ({"client_cert_file": "/none", "client_key_file": "/none"}, "client certificate /none: cannot be read"),
    ],
)
async def test_unusable_certificates_are_named(settings: JsonObject, words: str) -> None:
    """Certificates that cannot be used are a configuration error that names them and quotes nothing."""
    with pytest.raises(ConfigError, match=words) as caught:
        TlsContexts(RestConfig(host="https://x", **settings), on_change=_ignore).context()
    assert "s3cret" not in str(caught.value)


async def test_an_issued_certificate_changes_the_context() -> None:
    """A certificate from a plugin replaces the one before, and the same again changes nothing."""
    changes: list[None] = []
    contexts = TlsContexts(RestConfig(host="https://x"), on_change=lambda: changes.append(None))
    contexts.use(None)
    contexts.context()
    for _ in range(2):
        contexts.use(ClientCert(CLIENT.cert, CLIENT.key))
    assert len(changes) == 1


def test_loading_a_key_leaks_no_file_descriptor() -> None:
    """Making contexts leaks no open file."""
    config = RestConfig(host="https://x", client_cert_data=CLIENT.cert, client_key_data=CLIENT.key)

    async def make() -> None:
        TlsContexts(config, on_change=_ignore).context()

    asyncio.run(make())
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        asyncio.run(make())
    assert len(list(Path("/proc/self/fd").iterdir())) == before


# ------------------------------------------------------------------ through a proxy
class _Tunnel:
    """A CONNECT proxy: it joins the two sockets."""

    def __init__(self) -> None:
        self.targets: list[str] = []

    async def __aenter__(self) -> Self:
        self._listening = listening(self._serve)
        self.port = port_of(await self._listening.__aenter__())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._listening.__aexit__(None, None, None)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        target = head.split(" ")[1]
        self.targets.append(target)
        host, _, port = target.rpartition(":")
        upstream_reader, upstream_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(_pipe(reader, upstream_writer), _pipe(upstream_reader, writer))


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


async def test_https_goes_through_a_tunnel(tmp_path: Path) -> None:
    """TLS is end to end: the proxy sees only the address, the server's certificate is verified for its own name."""
    async with _Tunnel() as tunnel, _server(tmp_path) as server:
        proxy = f"http://127.0.0.1:{tunnel.port}"
        async with Transport(RestConfig(host=server.host, ca_data=CA.cert, proxy_url=proxy)) as transport:
            for _ in range(2):
                assert (await transport.send(GET)).body == b"ok"
        assert tunnel.targets == [f"127.0.0.1:{server.port}"]
        async with Transport(RestConfig(host=server.host, ca_data=make_ca().cert, proxy_url=proxy)) as transport:
            with pytest.raises(TlsError, match="not trusted"):
                await transport.send(GET)


async def test_cancelling_a_dial_at_every_iteration_leaks_nothing(tmp_path: Path) -> None:
    """Wherever a tunnelled TLS dial is cancelled, no task and no socket stay."""
    async with _Tunnel() as tunnel, _server(tmp_path) as server:
        proxy = f"http://127.0.0.1:{tunnel.port}"
        config = RestConfig(host=server.host, ca_data=CA.cert, proxy_url=proxy)
        for turn in range(60):
            async with Transport(config) as transport:
                task = asyncio.create_task(transport.send(POST))
                for _ in range(turn):
                    await asyncio.sleep(0)
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
                assert "0 busy" in repr(transport)
            await server.all_closed()
