"""Addresses of the manager's HTTP endpoints."""

from __future__ import annotations

import ipaddress

from opsdk.errors import ConfigError, UsageError


def is_enabled(address: str) -> bool:
    """Whether an address enables a server: empty and ``"0"`` disable it."""
    return address not in ("", "0")


def is_loopback(address: str) -> bool:
    """Whether an address is a loopback address.

    >>> is_loopback("127.0.0.1:8080"), is_loopback("localhost:0"), is_loopback(":8080")
    (True, True, False)
    """
    host, _ = parse_address(address)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_loopback_host(host: str) -> bool:
    """Whether an IP address, such as that of a client, is a loopback address.

    >>> is_loopback_host("::ffff:127.0.0.1"), is_loopback_host("10.0.0.1"), is_loopback_host("")
    (True, False, False)
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def parse_address(address: str) -> tuple[str, int]:
    """Return host and port of ``host:port``, or of ``:port``, whose host is empty: all interfaces.

    Raises `ConfigError` or `UsageError`.

    >>> parse_address(":8080"), parse_address("[::1]:0")
    (('', 8080), ('::1', 0))
    """
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ConfigError(f"{address!r} is not an address: write host:port, or :port for all interfaces")
    if host.startswith("[") != host.endswith("]"):
        raise UsageError(f"{address!r}: write an IPv6 host in brackets")
    return host.strip("[]"), int(port)


def is_direct_host(host: str) -> bool:
    """Whether a Host header is an IP address or ``localhost``: no DNS server can make another machine's name of it.

    >>> is_direct_host("127.0.0.1:8083"), is_direct_host("[::1]:80"), is_direct_host("example.com:1")
    (True, True, False)
    """
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    if name.lower() == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
