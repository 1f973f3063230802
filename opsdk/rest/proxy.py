"""Selects the proxy for a host, from the usual environment variables. Pure.

Upstream: golang.org/x/net/http/httpproxy/proxy.go
"""

from __future__ import annotations

import contextlib
from base64 import b64encode
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

from opsdk.errors import ConfigError
from opsdk.rest.config import Endpoint

SOCKS5: Final = "socks5"
_PORTS: Final = {"http": 80, "https": 443, SOCKS5: 1080}


class ProxyServer(msgspec.Struct, frozen=True):
    """An HTTP or SOCKS5 proxy. `username` is empty without authentication."""

    scheme: str
    host: str
    port: int
    username: str = ""
    password: str = ""

    @property
    def authorization(self) -> str:
        """The value of the header for an HTTP proxy; empty without authentication."""
        if not (self.username or self.password):
            return ""
        return f"Basic {b64encode(f'{self.username}:{self.password}'.encode()).decode()}"

    def __repr__(self) -> str:
        return f"<ProxyServer {self}>"  # without the credentials, for logs

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def parse_proxy(url: str) -> ProxyServer:
    """Parse a proxy URL; the default scheme is ``http``. Raises `ConfigError`."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"the proxy URL cannot be read: {error}") from None
    # Go's transport reads both as SOCKS5 whose proxy resolves names.
    scheme = SOCKS5 if parts.scheme == "socks5h" else parts.scheme
    if scheme not in _PORTS or not parts.hostname:
        raise ConfigError(f"the proxy must be http(s):// or socks5://host:port; {parts.scheme}:// is not supported")
    username, password = unquote(parts.username or ""), unquote(parts.password or "")
    return ProxyServer(scheme, parts.hostname, port or _PORTS[scheme], username, password)


def proxy_for(endpoint: Endpoint, *, proxy_url: str, env: Mapping[str, str]) -> ProxyServer | None:
    """Return the proxy for `endpoint`: the configured one, else the environment's.

    ``NO_PROXY`` lists names (including their subdomains), ``.suffixes``, addresses and networks, each with an optional
    port, or ``*``. The local host uses a proxy only if one is configured.
    """
    if proxy_url:
        return parse_proxy(proxy_url)
    name = f"{endpoint.scheme}_proxy"
    proxy = env.get(name.upper()) or env.get(name) or ""
    if not proxy or _is_local(endpoint.host):
        return None
    listed = env.get("NO_PROXY") or env.get("no_proxy") or ""
    if any(_excludes(entry, endpoint) for entry in listed.replace(",", " ").lower().split()):
        return None
    return parse_proxy(proxy)


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _excludes(entry: str, endpoint: Endpoint) -> bool:
    """Whether one entry of ``NO_PROXY`` matches `endpoint`."""
    if entry == "*":
        return True
    try:
        # An address is a network of one.
        network = ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        pass
    else:
        with contextlib.suppress(ValueError):
            return ip_address(endpoint.host) in network
        return False
    name, colon, port = entry.rpartition(":")
    if colon and port.isdigit():
        if int(port) != endpoint.port:
            return False
        entry = name.strip("[]")
    host = endpoint.host.lower()
    if entry.startswith(("*.", ".")):
        return host.endswith(entry.removeprefix("*"))
    return host == entry or host.endswith(f".{entry}")
