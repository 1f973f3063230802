"""Selects the proxy for a host, from the usual environment variables. Pure.

Upstream: golang.org/x/net/http/httpproxy/proxy.go
"""

from __future__ import annotations

import contextlib
from base64 import b64encode
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import unquote, urlsplit

import msgspec

from opsdk.errors import ConfigError
from opsdk.rest.config import Endpoint


class ProxyServer(msgspec.Struct, frozen=True):
    """An HTTP proxy. `authorization` is the header's value, empty without authentication."""

    scheme: str
    host: str
    port: int
    authorization: str = ""

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
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError(f"the proxy must be http(s)://host:port; {parts.scheme}:// is not supported")
    authorization = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {b64encode(pair.encode()).decode()}"
    return ProxyServer(parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80), authorization)


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
