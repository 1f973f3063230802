"""`ConnectionPools`: reused connections to other servers, over TLS or in process."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from opsdk.aio.closing import Closing
from opsdk.apiserver.webhook_client.endpoint import ClientConfigError
from opsdk.apiserver.webhook_client.in_process_upgrade import BidirectionalStream, upgrade_in_process
from opsdk.errors import ConnectionLostError
from opsdk.http.asgi_types import PEER_CERTIFICATE, App
from opsdk.http.body_stream import Body
from opsdk.http.client.connection import ClientConnection, Connected, connect
from opsdk.http.client.in_process import AsgiBackend
from opsdk.http.client.pool import ConnectionPool
from opsdk.http.client.request import ConnectionBackend, Pairs, ResponseStream
from opsdk.http.client.upgrade import UpgradeConnection, upgrade
from opsdk.http.pem import certificates_of, without_comments

MAX_POOLS = 64
DIAL_TIMEOUT = 30.0
"""Seconds to establish a connection."""


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A client certificate with its key, both PEM."""

    cert: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The address and trust of a server to call.

    Attributes:
        authority: the key of applications in this process, e.g. ``name.namespace.svc:443``.
        host: the DNS name that its certificate must have.
        ca: PEM certificates to trust; empty for the system's.
        insecure: do not verify the server's certificate.
    """

    authority: str
    host: str
    address: str
    port: int
    ca: bytes = field(default=b"", repr=False)
    insecure: bool = False

    @property
    def joined(self) -> str:
        """Address and port as in messages."""
        return joined(self.address, self.port)


class ConnectionPools(Closing):
    """Connection pools by endpoint. After `aclose`, requests fail.

    Args:
        apps: applications of this process by authority, called without sockets. The mapping is shared with the caller.
        identity: returns the client certificate; called on first use.
    """

    def __init__(self, apps: dict[str, App], *, identity: Callable[[], ClientCertificate] | None = None) -> None:
        self._apps = apps
        self._identity = identity
        self._contexts: dict[tuple[bytes, bool], ssl.SSLContext] = {}
        self._pools: OrderedDict[Endpoint, ConnectionPool] = OrderedDict()
        self._local: dict[str, tuple[App, AsgiBackend]] = {}

    def __repr__(self) -> str:
        return f"<ConnectionPools with {len(self._pools)} pools>"

    def inside(self, authority: str) -> bool:
        """Report whether an application of this process serves the authority."""
        return authority in self._apps

    async def exchange(
        self,
        endpoint: Endpoint,
        method: str,
        target: str,
        headers: Pairs,
        body: Body = b"",
        *,
        retry_if_closed: bool = False,
    ) -> ResponseStream:
        """Send one request and wait for the response head.

        With `retry_if_closed` the request is sent again if an idle connection turns out to be closed by the peer. A
        `BodyStream` gets a new connection, and is sent once.

        Raises:
            ClientConfigError: the CA cannot be parsed.
        """
        backend = self._backend_for(endpoint)
        may_be_stale = isinstance(backend, ConnectionPool) and isinstance(body, bytes) and backend.idle > 0
        try:
            return await backend.exchange(method, target, headers, body)
        except ConnectionLostError:
            if not (retry_if_closed and may_be_stale):
                raise
        return await backend.exchange(method, target, headers, body)

    async def upgrade(self, endpoint: Endpoint, method: str, target: str, headers: Pairs) -> BidirectionalStream:
        """Send one upgrade request on a new connection, and wait for the response head."""
        app = self._apps.get(endpoint.authority)
        if app is not None:
            return await upgrade_in_process(partial(self._in_process_backend, endpoint, app), method, target, headers)
        context = self._context(endpoint.ca, insecure=endpoint.insecure)
        return await upgrade(
            lambda: _dial(endpoint, context, partial(UpgradeConnection, endpoint.joined)), method, target, headers
        )

    def _backend_for(self, endpoint: Endpoint) -> ConnectionBackend:
        """Return the pool of an endpoint, or the application in this process that serves it."""
        app = self._apps.get(endpoint.authority)
        if app is not None:
            entry = self._local.get(endpoint.authority)
            if entry is None or entry[0] is not app:
                entry = self._local[endpoint.authority] = (app, self._in_process_backend(endpoint, app, {}))
            return entry[1]
        pool = self._pools.get(endpoint)
        if pool is None:
            context = self._context(endpoint.ca, insecure=endpoint.insecure)

            async def dial() -> ClientConnection:
                return await _dial(endpoint, context, partial(ClientConnection, endpoint.joined))

            pool = self._pools[endpoint] = ConnectionPool(dial)
            if len(self._pools) > MAX_POOLS:
                self._pools.popitem(last=False)[1].drain()
        self._pools.move_to_end(endpoint)
        return pool

    def _in_process_backend(self, endpoint: Endpoint, app: App, more: Mapping[str, Any]) -> AsgiBackend:
        extensions = dict(more)
        if self._identity is not None:
            extensions[PEER_CERTIFICATE] = ssl.PEM_cert_to_DER_cert(certificates_of(self._identity().cert))
        return AsgiBackend(app, _Origin(endpoint), extensions=extensions)

    def _context(self, ca: bytes, *, insecure: bool) -> ssl.SSLContext:
        context = self._contexts.get((ca, insecure))
        if context is None:
            if len(self._contexts) >= MAX_POOLS:
                self._contexts.clear()
            context = self._contexts[ca, insecure] = trusting(ca, insecure=insecure)
            if self._identity is not None:
                load_client_certificate(context, self._identity())
        return context

    async def aclose(self) -> None:
        """Cancel all calls and close all connections; idempotent."""
        pools, self._pools = list(self._pools.values()), OrderedDict()
        apps, self._local = list(self._local.values()), {}
        for pool in pools:
            await pool.aclose()
        for _, backend in apps:
            await backend.aclose()


class _Origin:
    scheme = "https"

    def __init__(self, endpoint: Endpoint) -> None:
        self.host = endpoint.host
        self.port = endpoint.port


def trusting(ca: bytes, *, insecure: bool = False) -> ssl.SSLContext:
    """Return a client's TLS context that trusts `ca`, else the system's CAs; `insecure` skips verification."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    if not ca:
        context.load_default_certs()
        return context
    # A bundle may contain the server's own certificate instead of its CA.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=certificates_of(ca))
    except (ssl.SSLError, ValueError):
        raise ClientConfigError("unable to load root certificates: unable to parse bytes as PEM block") from None
    return context


def load_client_certificate(context: ssl.SSLContext, identity: ClientCertificate) -> None:
    """Load a client certificate into the context."""
    # The standard library reads certificates from files only.
    with tempfile.TemporaryDirectory(prefix="opsdk-") as folder:
        cert, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
        cert.write_bytes(without_comments(identity.cert))
        key.touch(mode=0o600)
        key.write_bytes(without_comments(identity.key))
        context.load_cert_chain(cert, key)


async def _dial(endpoint: Endpoint, context: ssl.SSLContext, make: Callable[[], Connected]) -> Connected:
    async with asyncio.timeout(DIAL_TIMEOUT):
        return await connect(endpoint.address, endpoint.port, context, endpoint.host, make)


def joined(address: str, port: int) -> str:
    """Return ``address:port``, with brackets for IPv6."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
