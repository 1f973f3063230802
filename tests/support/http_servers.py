"""A small HTTP server under the test's control, on loopback, and certificates for it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from types import TracebackType
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Seen:
    """A request as the server saw it."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    connection: int
    reader: asyncio.StreamReader = field(repr=False)

    def header(self, name: str) -> str | None:
        """The last value of a header."""
        return {key.lower(): value for key, value in self.headers}.get(name.lower())

    async def gone(self) -> None:
        """Until the client has closed the connection."""
        with suppress(ConnectionError):
            await self.reader.read()


@asynccontextmanager
async def listening(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[asyncio.Server]:
    """Serve connections, and abort those that are open at the end.

    Since Python 3.12.1 `asyncio.Server.wait_closed` waits for every connection, so a client that leaks one would hang
    the test.
    """
    writers: list[asyncio.StreamWriter] = []

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Awaitable[None]:
        writers.append(writer)
        return serve(reader, writer)

    server = await asyncio.start_server(accept, host, port, ssl=tls)
    try:
        yield server
    finally:
        server.close()
        for writer in writers:
            # Python 3.11.2 cannot abort a TLS connection twice: its transport has lost its protocol by then.
            with suppress(AttributeError):
                writer.transport.abort()
        await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)


def port_of(server: asyncio.Server) -> int:
    """The port that a server listens on."""
    port: int = server.sockets[0].getsockname()[1]
    return port


Handler = Callable[[Seen, asyncio.StreamWriter], Awaitable[None]]


def answer(status: int = 200, body: bytes = b"ok", **headers: str) -> bytes:
    """The bytes of an answer with a length."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def always(data: bytes) -> Handler:
    """A handler that writes the same bytes."""

    async def handle(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return handle


def in_turn(*answers: bytes | None) -> Handler:
    """A handler that writes each of these once; None cuts the connection."""
    pending = list(answers)

    async def handle(seen: Seen, writer: asyncio.StreamWriter) -> None:
        data = pending.pop(0)
        if data is None:
            writer.transport.abort()
        else:
            writer.write(data)

    return handle


@dataclass
class Server:
    """Serves `handler` on 127.0.0.1; records requests, and counts connections."""

    handler: Handler
    tls: ssl.SSLContext | None = None
    seen: list[Seen] = field(default_factory=list)
    accepted: int = 0
    open: int = 0

    async def __aenter__(self) -> Self:
        self._listening = listening(self._serve, tls=self.tls)
        self._server = await self._listening.__aenter__()
        self.port = port_of(self._server)
        return self

    @property
    def host(self) -> str:
        """For a `RestConfig`."""
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self.open += 1
        number = self.accepted
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
                while True:
                    request = await _read_request(reader, number)
                    self.seen.append(request)
                    await self.handler(request, writer)
                    await writer.drain()
        finally:
            self.open -= 1
            writer.close()

    async def has_seen(self, count: int) -> None:
        """Until so many requests have come."""
        for _ in range(1000):
            if len(self.seen) >= count:
                return
            await asyncio.sleep(0.001)
        raise AssertionError(f"{len(self.seen)} requests instead of {count}")

    async def all_closed(self) -> None:
        """Until the server has noticed that every connection is gone."""
        for _ in range(200):
            if not self.open:
                return
            await asyncio.sleep(0.001)
        raise AssertionError(f"{self.open} connections are still open")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        try:
            if error is None:
                await self.all_closed()
        finally:
            await self._listening.__aexit__(None, None, None)


async def _read_request(reader: asyncio.StreamReader, number: int) -> Seen:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.strip().split("\r\n")
    headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
    method, target, _ = first.split(" ")
    return Seen(method, target, headers, await reader.readexactly(length), number, reader)


# ------------------------------------------------------------------ certificates
@dataclass(frozen=True)
class Pair:
    """A certificate and its key, PEM."""

    cert: bytes
    key: bytes
    certificate: x509.Certificate = field(repr=False)
    private_key: ec.EllipticCurvePrivateKey = field(repr=False)
    minimal: bool = False

    def files(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Written to disk."""
        cert, key = folder / f"{name}.crt", folder / f"{name}.key"
        cert.write_bytes(self.cert)
        key.write_bytes(self.key)
        return cert, key

    def issue(self, name: str, *sans: str) -> Pair:
        """A certificate signed by this one."""
        return _make(name, sans, self, minimal=self.minimal)

    def server_context(self, folder: Path, *, clients: Pair | None = None) -> ssl.SSLContext:
        """A server's TLS; `clients` is the CA of the certificates it asks for."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.files(folder, "server"))
        if clients is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=clients.cert.decode())
        return context


def make_ca(name: str = "test-ca", *, minimal: bool = False) -> Pair:
    """A self-signed CA. A minimal one, and what it issues, has basic constraints only, as EKS's cluster CA."""
    return _make(name, (), None, minimal=minimal)


def _san(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _identifiers(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, issuer: Pair | None
) -> x509.CertificateBuilder:
    """Add what RFC 5280 requires, and ``ssl.create_default_context`` since Python 3.13."""
    usage = x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=issuer is None, crl_sign=issuer is None, encipher_only=False,
        decipher_only=False,
    )  # fmt: skip
    issuer_key = (issuer.private_key if issuer else key).public_key()
    return (
        builder.add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False)
    )


def _make(name: str, sans: tuple[str, ...], issuer: Pair | None, *, minimal: bool) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if not minimal:
        builder = _identifiers(builder, key, issuer)
    if sans:
        builder = builder.add_extension(x509.SubjectAlternativeName([_san(san) for san in sans]), critical=False)
    cert = builder.sign(issuer.private_key if issuer else key, hashes.SHA256())
    return Pair(
        cert.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        cert,
        key,
        minimal,
    )
