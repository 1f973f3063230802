"""A client certificate is valid only for the purpose of its CA, at the time of the request."""

from __future__ import annotations

import asyncio
import ssl
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from envtest.plane.certificates import Authority
from opsdk.apiserver.auth.certificate_chains import ChainVerifier, chain_validity
from opsdk.apiserver.auth.certificates import CertificateAuthenticator
from opsdk.apiserver.auth.front_proxy import FrontProxyAuthenticator
from opsdk.apiserver.auth.user import MASTERS
from opsdk.errors import UnauthorizedError
from opsdk.http.server.application import asgi
from opsdk.http.server.request import HttpRequest, Query
from opsdk.http.server.response import HttpResponse, text_response
from opsdk.http.server.server import ServeOptions, Tls, WebServer
from opsdk.structured_merge.value import JsonObject

HOUR = timedelta(hours=1)


@dataclass
class Issued:
    """A certificate with its key, which may issue others."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)

    @property
    def key_pem(self) -> bytes:
        plain = serialization.NoEncryption()
        return self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)


def issue(
    name: str,
    issuer: Issued | None = None,
    *,
    ca: bool = False,
    path_length: int | None = None,
    group: str = "",
    valid: timedelta = HOUR,
    key: ec.EllipticCurvePrivateKey | None = None,
) -> Issued:
    """Return a certificate of `issuer`, or a self-signed one."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    subject = x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer = issuer.key if issuer else key
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - HOUR)
        .not_valid_after(now + valid)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=path_length), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if not ca:
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
    return Issued(builder.sign(signer, hashes.SHA256()), key)


def request(leaf: Issued, *between: Issued, **headers: str) -> HttpRequest:
    """Return a request with this certificate and these intermediates."""

    async def receive() -> JsonObject:
        return {"type": "http.request", "body": b""}

    named_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    sent = [issued.der for issued in between]
    return HttpRequest("GET", "/", Query(), named_headers, receive, peer_certificate=leaf.der, peer_intermediates=sent)


USERS, PROXIES = issue("users", ca=True), issue("proxies", ca=True)
BETWEEN = issue("below", PROXIES, ca=True)


async def test_a_front_proxy_certificate_is_no_user() -> None:
    """A certificate whose chain ends at the front proxy CA is not a user, whatever group it has."""
    users = CertificateAuthenticator(ChainVerifier(USERS.pem))
    mallory = issue("mallory", BETWEEN, group=MASTERS)
    with pytest.raises(UnauthorizedError):
        await users.authenticate(request(mallory, BETWEEN))
    with pytest.raises(UnauthorizedError):
        await users.authenticate(request(issue("mallory", PROXIES, group=MASTERS)))
    alice = await users.authenticate(request(issue("alice", USERS)))
    assert alice is not None
    assert alice.name == "alice"


async def test_a_user_is_no_front_proxy() -> None:
    """A user's certificate with the name of a proxy cannot send user headers."""
    proxies = FrontProxyAuthenticator(ChainVerifier(PROXIES.pem))
    forged = request(issue("front-proxy-client", USERS), x_remote_user="admin")
    assert await proxies.authenticate(forged) is None
    below = request(issue("front-proxy-client", BETWEEN), BETWEEN, x_remote_user="alice")
    user = await proxies.authenticate(below)
    assert user is not None
    assert user.name == "alice"


def _chain(*issued: Issued) -> bool:
    leaf, *between = issued
    return chain_validity(leaf.der, tuple(i.der for i in between), USERS.pem) is not None


def test_only_authorities_with_a_chain_to_the_own_authority_sign() -> None:
    """A chain is verified by the signature of each certificate, not by names."""
    first = issue("b", USERS, ca=True)
    second = issue("c", first, ca=True)
    narrow = issue("d", USERS, ca=True, path_length=0)
    too_deep = issue("e", narrow, ca=True)
    imposter, leaf = issue("users", ca=True), issue("leaf", USERS)

    assert _chain(leaf)
    assert _chain(issue("a", first), first)
    assert _chain(issue("a", second), second, first)
    assert _chain(issue("a", narrow), narrow)
    assert not _chain(issue("a", first))
    assert not _chain(issue("a", imposter))
    assert not _chain(issue("a", imposter), imposter)
    assert not _chain(issue("a", leaf), leaf)
    assert not _chain(issue("a", too_deep), too_deep, narrow)


def test_a_mesh_of_intermediates_costs_a_bounded_number_of_signatures() -> None:
    """Ten intermediates with one name and key cost a bounded number of verifications."""
    key = ec.generate_private_key(ec.SECP256R1())
    first = issue("x", ca=True, key=key)
    mesh = [first, *(issue("x", first, ca=True, key=key) for _ in range(9))]
    assert not _chain(issue("a", first), *mesh)


async def test_validity_is_checked_at_each_request() -> None:
    """The validity of the leaf and of each intermediate is checked at every request."""
    between = issue("short", USERS, ca=True, valid=HOUR / 2)
    for leaf, sent in ((issue("a", USERS, valid=HOUR / 2), ()), (issue("a", between), (between,))):
        now = datetime.now(UTC).timestamp()
        times = iter([now, now + 1700, now + 1900])
        users = CertificateAuthenticator(ChainVerifier(USERS.pem, now=lambda times=times: next(times)))  # type: ignore[misc]
        for _ in range(2):
            assert await users.authenticate(request(leaf, *sent)) is not None
        with pytest.raises(UnauthorizedError):
            await users.authenticate(request(leaf, *sent))


# ------------------------------------------------------------------ sockets
async def _shown(request: HttpRequest) -> HttpResponse:
    user = await CertificateAuthenticator(ChainVerifier(USERS.pem)).authenticate(request)
    return text_response(user.name if user else "")


def _server(folder: Path) -> WebServer:
    cert, key = Authority.load_or_create(None).serving("127.0.0.1").write(folder, "tls")
    authorities = folder / "clients.crt"
    authorities.write_bytes(USERS.pem + PROXIES.pem)
    return WebServer(asgi(_shown), ServeOptions(tls=Tls(cert_file=cert, key_file=key, client_ca_file=authorities)))


def _client(folder: Path, version: ssl.TLSVersion, *chain: Issued) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = version
    (folder / "client.pem").write_bytes(b"".join(i.pem for i in chain) + chain[0].key_pem)
    context.load_cert_chain(folder / "client.pem")
    return context


def _ask(port: int, context: ssl.SSLContext, session: ssl.SSLSession | None) -> tuple[bytes, ssl.SSLSession | None]:
    import socket

    with context.wrap_socket(socket.create_connection(("127.0.0.1", port), 10), session=session) as connection:
        try:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            heard = b"".join(iter(lambda: connection.recv(65536), b""))
        except OSError:
            heard = b""
        return heard, connection.session


@pytest.mark.realtime
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_session_with_a_client_certificate_is_never_resumed(version: ssl.TLSVersion, tmp_path: Path) -> None:
    """No session ticket is sent, and a session that is resumed by id is closed."""
    between = issue("b", USERS, ca=True)
    async with _server(tmp_path) as server:
        context = _client(tmp_path, version, issue("alice", between), between)
        heard, session = await asyncio.to_thread(_ask, server.port, context, None)
        assert heard.endswith(b"alice")
        assert session is None or not session.has_ticket
        again, _ = await asyncio.to_thread(_ask, server.port, context, session)
        assert again == b"" or again.endswith(b"alice")


@pytest.mark.realtime
async def test_a_certificate_that_expires_ends_its_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next request after the expiry of the certificate closes the connection."""
    async with _server(tmp_path) as server:
        context = _client(tmp_path, ssl.TLSVersion.TLSv1_3, issue("alice", USERS))
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
        get = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        writer.write(get)
        await reader.readuntil(b"alice")
        later = time.time() + timedelta(days=365 * 100).total_seconds()
        monkeypatch.setattr("time.time", lambda: later)
        writer.write(get)
        assert await reader.read() == b""
        writer.close()
