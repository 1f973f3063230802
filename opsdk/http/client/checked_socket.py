"""A socket that checks, right before each send, whether the request may still go out.

asyncio and TLS take tens of microseconds between a request and its system call, and a socket that does not take all
bytes gets the rest later. A process that is stopped there (SIGSTOP, a paused virtual machine) would send when it goes
on. Measured on busy cores, over TLS, SIGSTOP at random moments of a busy writer: of 2,000 stops 5 were followed by a
write without leadership when the last check was above TLS, of 6,000 stops 2 with the check here. What is left is the
time between two instructions of this file.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from typing import Any

from opsdk.http.client.request import Check


class CheckedSocket(socket.socket):
    """A TCP socket for asyncio's selector loops, which send through `send` and `sendmsg`.

    Other loops (uvloop) use the file descriptor only: there a request is checked once, before it is encrypted.

    Attributes:
        check: called before each send; None allows everything.
        refusal: the exception of `check`. The connection cannot be used after it.
    """

    check: Check | None = None
    refusal: BaseException | None = None

    def send(self, data: Any, flags: int = 0, /) -> int:
        """See `socket.socket.send`. Raises `ConnectionAbortedError` if the check raises."""
        if self.check is not None:
            self._pass(self.check)
        return super().send(data, flags)

    def sendmsg(self, buffers: Iterable[Any], /, *args: Any) -> int:
        """See `socket.socket.sendmsg`. Raises `ConnectionAbortedError` if the check raises."""
        if self.check is not None:
            self._pass(self.check)
        return super().sendmsg(buffers, *args)

    def _pass(self, check: Check) -> None:
        try:
            check()
        except Exception as error:
            self.refusal = error
            # asyncio ends a connection silently for an OSError only.
            raise ConnectionAbortedError("the request was refused before it was sent") from error


async def open_socket(host: str, port: int) -> CheckedSocket:
    """Return a socket that is connected to the first address of `host` that answers.

    Raises:
        OSError: no address answers: the error of the first one.
    """
    loop = asyncio.get_running_loop()
    first: OSError | None = None
    for family, address in await _addresses(host, port):
        # asyncio turns Nagle's algorithm off only where the protocol is named. With it, the first request after a
        # handshake waits 40 ms for the server's acknowledgement.
        sock = CheckedSocket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            sock.setblocking(False)
            await loop.sock_connect(sock, address)
        except OSError as error:
            sock.close()
            first = first or error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise first or socket.gaierror(f"{host} resolves to no address")


async def _addresses(host: str, port: int) -> list[tuple[int, Any]]:
    """Return families and addresses of `host`."""
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        # A thread resolves names.
        resolved = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [(family, address) for family, _, _, _, address in resolved]
    return [(socket.AF_INET if version == 4 else socket.AF_INET6, (host, port))]
