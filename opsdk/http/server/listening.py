"""Listening sockets: one address, or all interfaces in both families.

Upstream: net/ipsock.go (favoriteAddrFamily, Go 1.25)
"""

from __future__ import annotations

import errno
import socket
import sys
from typing import Final

from opsdk.errors import ConfigError

_ALL: Final = ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0"))  # noqa: S104 - what an empty host means
_WITHOUT_IPV6: Final = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT})
_UNSENT_BYTES: Final = 128 * 1024
"""Bytes that the kernel holds for a client whose window is full; without a limit up to 4 MiB (``tcp_wmem``)."""


def listen(host: str, port: int, backlog: int) -> socket.socket:
    """Return a listening socket that does not block.

    An empty host is all interfaces: IPv6 and IPv4 in one socket, or IPv4 alone where the machine has no IPv6.

    Raises:
        ConfigError: the address cannot be bound.
    """
    choices = _ALL if not host else ((socket.AF_INET6 if ":" in host else socket.AF_INET, host),)
    for family, address in choices:
        try:
            return _bound(family, address, port, backlog, both=not host)
        except OSError as error:
            if not host and family == socket.AF_INET6 and error.errno in _WITHOUT_IPV6:
                continue
            where = f"{address}:{port}"
            raise ConfigError(f"cannot listen on {where}: {error}; choose another address or port 0") from error
    raise AssertionError("the last choice returns or raises")


def _bound(family: int, address: str, port: int, backlog: int, *, both: bool) -> socket.socket:
    """Bind and listen. With `both`, a socket of IPv6 takes connections of IPv4 too."""
    # asyncio turns Nagle's algorithm off only where the protocol is named; with it each answer waits 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sys.platform == "linux":  # accepted sockets inherit it
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
        if both and family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listening.bind((address, port))
        listening.listen(backlog)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening
