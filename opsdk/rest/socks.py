"""Connects through a SOCKS5 proxy, which also resolves the name of the API server.

Upstream: golang.org/x/net/proxy (SOCKS5), which client-go uses for ``proxy-url: socks5://``
"""

from __future__ import annotations

from functools import partial

from opsdk.base.extras import RequiredExtra
from opsdk.errors import ConnectError
from opsdk.http.client.checked_socket import CheckedSocket
from opsdk.rest.proxy import ProxyServer


class SocksDialer:
    """Opens sockets through one proxy.

    Args:
        proxy: of the scheme ``socks5``.

    Raises:
        ConfigError: the extra ``socks`` is not installed.
    """

    def __init__(self, proxy: ProxyServer) -> None:
        with RequiredExtra("socks", "a SOCKS5 proxy"):
            from python_socks import ProxyError, ProxyType
            from python_socks.async_.asyncio import Proxy
        self._proxy = proxy
        self._refusal = ProxyError
        self._make = partial(
            Proxy,
            ProxyType.SOCKS5,
            proxy.host,
            proxy.port,
            username=proxy.username or None,
            password=proxy.password or None,
            rdns=True,
        )

    async def open_socket(self, host: str, port: int, *, within: float) -> CheckedSocket:
        """Return a socket that the proxy has connected to an address.

        Raises:
            ConnectError: the proxy refuses.
            OSError: the proxy cannot be reached, or does not answer `within` seconds.
        """
        try:
            plain = await self._make().connect(host, port, timeout=within)
        except self._refusal as error:
            raise ConnectError(f"the proxy {self._proxy} refuses a connection to {host}:{port}: {error}") from error
        sock = CheckedSocket(fileno=plain.detach())
        sock.setblocking(False)
        return sock
