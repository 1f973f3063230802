"""Laws of `opsdk.rest.tls_resumption`, with the transport's own connections."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from pathlib import Path

import pytest
from http_servers import Pair, Server, always, answer, make_ca
from tls_sessions import NAME, contexts, exchange, sessions

from opsdk.errors import TransportError
from opsdk.http.tls_session import TlsSession, TlsState
from opsdk.rest import tls
from opsdk.rest.config import RestConfig
from opsdk.rest.request import RestRequest
from opsdk.rest.tls_resumption import RESUME_SECONDS, TlsResumption
from opsdk.rest.transport import Transport

GET = RestRequest("GET", "/a")
CA = make_ca()
SERVER = CA.issue("server", "127.0.0.1")
CLIENT = CA.issue("jane")


class Handshakes:
    """Counts the handshakes of one client: full ones, and resumed ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = self.resumed = 0
        opened = TlsResumption.opened

        def count(resumption: TlsResumption, connection: ssl.SSLObject) -> None:
            self.resumed += bool(connection.session_reused)
            self.full += not connection.session_reused
            opened(resumption, connection)

        monkeypatch.setattr(TlsResumption, "opened", count)

    @property
    def counts(self) -> tuple[int, int]:
        """Full and resumed handshakes."""
        return self.full, self.resumed


def _server(folder: Path, *, clients: Pair | None = None) -> Server:
    return Server(always(answer()), tls=SERVER.server_context(folder, clients=clients))


async def test_further_connections_resume_the_first_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After one full handshake, other connections resume its session, also with a client certificate."""
    async with _server(tmp_path, clients=CA) as server:
        config = RestConfig(host=server.host, ca_data=CA.cert, client_cert_data=CLIENT.cert, client_key_data=CLIENT.key)
        async with Transport(config) as transport:
            handshakes = Handshakes(monkeypatch)
            await transport.send(GET)
            answers = await asyncio.gather(*(transport.send(GET) for _ in range(5)))
            assert {answer.status for answer in answers} == {200}
            assert handshakes.counts == (1, 4)


async def test_the_certificate_is_verified_again_after_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session does not extend its own life: five minutes after the full handshake, there is another one."""
    async with _server(tmp_path) as server, Transport(RestConfig(host=server.host, ca_data=CA.cert)) as transport:
        handshakes = Handshakes(monkeypatch)
        await transport.send(GET)
        counts = []
        for _ in range(3):
            await asyncio.gather(*(transport.send(GET) for _ in range(2)))
            counts.append(handshakes.counts)
            await asyncio.sleep(RESUME_SECONDS / 2)
        assert counts == [(1, 1), (1, 3), (3, 3)]


async def test_new_certificates_make_a_full_handshake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """New CA certificates cause a full handshake, so the old verification is not reused."""
    file = tmp_path / "ca.crt"
    file.write_bytes(CA.cert)
    async with _server(tmp_path) as server, Transport(RestConfig(host=server.host, ca_file=str(file))) as transport:
        await transport.send(GET)
        await asyncio.gather(*(transport.send(GET) for _ in range(2)))  # one of them resumes the session
        file.write_bytes(make_ca("other").cert)
        monkeypatch.setattr(tls, "RELOAD_EVERY", 0)
        with pytest.raises(TransportError, match="not trusted"):
            await transport.send(GET)


def test_a_server_that_does_not_know_the_session_is_verified() -> None:
    """A server that does not know the session makes a full handshake."""
    both = contexts()
    client, server = sessions(both)
    server.write(b"the tickets come before it")
    exchange(client, server)
    session = client.object.session
    assert session is not None
    with tempfile.TemporaryDirectory() as folder:
        restarted = both.authority.issue(NAME, NAME).server_context(Path(folder))
    for context, reused in ((both.server, True), (restarted, False)):
        client = TlsSession(both.client, server_hostname=NAME, resumed=session)
        client.start()
        exchange(client, TlsSession(context, server_side=True))
        assert client.state is TlsState.OPEN
        assert client.object.session_reused is reused


async def test_tls_1_2_is_not_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TLS 1.2 sessions are not resumed, because resumed connections share one secret."""
    server = _server(tmp_path)
    assert server.tls is not None
    server.tls.maximum_version = ssl.TLSVersion.TLSv1_2
    async with server, Transport(RestConfig(host=server.host, ca_data=CA.cert)) as transport:
        handshakes = Handshakes(monkeypatch)
        await asyncio.gather(*(transport.send(GET) for _ in range(3)))
        assert handshakes.resumed == 0
