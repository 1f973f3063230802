"""Opens connections: direct or through a proxy, plain or TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from functools import partial

from opsdk.errors import ConnectError, ConnectionLostError
from opsdk.http.client.connection import TLS_TIMEOUT, ClientConnection, Connected, connect
from opsdk.http.client.errors import TRANSPORT_ERRORS, translate
from opsdk.http.client.request import Pairs, encode_request
from opsdk.http.tls_session import TlsSession
from opsdk.http.tls_transport import start_tls
from opsdk.rest.config import Endpoint
from opsdk.rest.proxy import SOCKS5, ProxyServer
from opsdk.rest.socks import SocksDialer
from opsdk.rest.tls import TlsContexts

DIAL_TIMEOUT = 30.0


class Dialer:
    """Connects to one endpoint. Every failure is a `ConnectError` or a `TlsError`."""

    def __init__(self, endpoint: Endpoint, tls: TlsContexts, *, proxy: ProxyServer | None = None) -> None:
        self._endpoint = endpoint
        self._tls = tls
        self._socks = SocksDialer(proxy) if proxy is not None and proxy.scheme == SOCKS5 else None
        self._proxy = proxy

    @property
    def absolute_targets(self) -> bool:
        """Whether requests name the full URL: plain HTTP through a proxy."""
        return self._proxy is not None and self._socks is None and self._endpoint.scheme == "http"

    @property
    def extra_headers(self) -> Pairs:
        """Headers that the proxy requires in each forwarded request."""
        if self.absolute_targets and self._proxy is not None and self._proxy.authorization:
            return (("Proxy-Authorization", self._proxy.authorization),)
        return ()

    async def dial(self) -> ClientConnection:
        """Return a new connection, with TLS if the endpoint is https."""
        return await self.dial_as(ClientConnection)

    async def dial_as(self, make: Callable[[str], Connected]) -> Connected:
        """Return a new connection of another class, such as one for an upgrade. See `dial`."""
        where = str(self._endpoint)
        if self._proxy is not None:
            where = f"{where} through {self._proxy}"
        try:
            async with asyncio.timeout(DIAL_TIMEOUT):
                if self._proxy is not None and self._socks is None:
                    return await self._dial_proxy(self._proxy, where, make)
                return await self._dial_direct(where, make)
        except TimeoutError as error:
            raise ConnectError(f"{where}: no connection within {DIAL_TIMEOUT:g} s") from error
        except TRANSPORT_ERRORS as error:
            raise translate(error, sent=False, where=where) from error

    async def _dial_direct(self, where: str, make_named: Callable[[str], Connected]) -> Connected:
        """Connect to the API server, also through SOCKS5, and resume its last TLS session."""
        endpoint, make = self._endpoint, partial(make_named, where)
        sock = None
        if self._socks is not None:
            sock = await self._socks.open_socket(endpoint.host, endpoint.port, within=DIAL_TIMEOUT)
        if endpoint.scheme == "http":
            return await connect(endpoint.host, endpoint.port, None, "", make, sock=sock)
        context, resumption = self._tls.context(), self._tls.resumption
        resumed = resumption.session_for(context)
        try:
            connection = await connect(
                endpoint.host, endpoint.port, context, self._tls.server_name, make, resumed=resumed, sock=sock
            )
        except BaseException:
            if resumed is not None:
                resumption.forget()  # it may be the reason of the failure
            raise
        assert connection.transport is not None
        resumption.opened(connection.transport.get_extra_info("ssl_object"))
        return connection

    async def _dial_proxy(self, proxy: ProxyServer, where: str, make: Callable[[str], Connected]) -> Connected:
        """Connect through a proxy: with CONNECT for https, else with absolute targets."""
        # The proxy's own certificate is verified against the system, not against the cluster's CA.
        context = _proxy_context() if proxy.scheme == "https" else None
        connection = await connect(proxy.host, proxy.port, context, "", partial(make, where))
        if self._endpoint.scheme == "http":
            return connection
        try:
            await self._tunnel(connection, proxy)
        except BaseException:
            connection.abort()
            await connection.wait_closed()
            raise
        assert connection.transport is not None
        inner = make(where)
        inner.socket = connection.socket
        session = TlsSession(self._tls.context(), server_hostname=self._tls.server_name or self._endpoint.host)
        await start_tls(connection.transport, inner, session, handshake_timeout=TLS_TIMEOUT)
        return inner

    async def _tunnel(self, connection: ClientConnection, proxy: ProxyServer) -> None:
        """Open a tunnel through the proxy (CONNECT)."""
        host = f"[{self._endpoint.host}]" if ":" in self._endpoint.host else self._endpoint.host
        target = f"{host}:{self._endpoint.port}"
        headers = [("Host", target)]
        if proxy.authorization:
            headers.append(("Proxy-Authorization", proxy.authorization))
        connection.send("CONNECT", encode_request("CONNECT", target, headers, b""))
        try:
            await connection.head()
        except ConnectionLostError as error:
            # Only the tunnel is lost: the request was not sent.
            raise ConnectError(str(error)) from error
        if not 200 <= connection.reader.status < 300:
            raise ConnectError(f"the proxy {proxy} refuses a tunnel to {target}: HTTP {connection.reader.status}")


def _proxy_context() -> ssl.SSLContext:
    # Not create_default_context, as in opsdk.rest.tls.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_default_certs()
    return context
