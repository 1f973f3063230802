"""Addresses that a server binds."""

from __future__ import annotations

import asyncio
import errno
import socket

import pytest

from opsdk.errors import ConfigError
from opsdk.http.server.application import asgi
from opsdk.http.server.listening import listen
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse, json_response
from opsdk.http.server.server import ServeOptions, WebServer

IPV6 = socket.has_dualstack_ipv6()


def reaches(address: str, port: int) -> bool:
    """Whether a client connects."""
    try:
        socket.create_connection((address, port), 1).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("host", "reached"),
    [("", {"127.0.0.1", "::1"}), ("127.0.0.1", {"127.0.0.1"}), ("::1", {"::1"}), ("0.0.0.0", {"127.0.0.1"})],
)
@pytest.mark.skipif(not IPV6, reason="the machine has no IPv6")
def test_who_reaches_a_host(host: str, reached: set[str]) -> None:
    """An empty host serves both families, any other one its own."""
    with listen(host, 0, 5) as server:
        port = server.getsockname()[1]
        assert {address for address in ("127.0.0.1", "::1") if reaches(address, port)} == reached


@pytest.mark.parametrize("number", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL])
def test_a_machine_without_ipv6_serves_ipv4(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """An empty host falls back; a named host of IPv6 is an error."""
    real = socket.socket

    def without_ipv6(family: int, *args: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(number, "no IPv6")
        return real(family, *args)

    monkeypatch.setattr(socket, "socket", without_ipv6)
    with listen("", 0, 5) as server:
        assert reaches("127.0.0.1", server.getsockname()[1])
    with pytest.raises(ConfigError, match="cannot listen on ::1:0"):
        listen("::1", 0, 5)


def test_a_port_that_is_taken_is_named() -> None:
    """No other address is tried when the port is in use."""
    with listen("", 0, 5) as server, pytest.raises(ConfigError, match=f":{server.getsockname()[1]}: .*in use"):
        listen("", server.getsockname()[1], 5)


@pytest.mark.realtime
async def test_an_ipv4_client_keeps_its_address() -> None:
    """Handlers see 127.0.0.1, although the socket has both families."""

    async def handler(request: HttpRequest) -> HttpResponse:
        return json_response(request.client)

    async with WebServer(asgi(handler), ServeOptions(host="", port=0)) as server:
        assert server.url == f"http://localhost:{server.port}"
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.setblocking(False)
            client.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            response = b""
            while part := await asyncio.get_running_loop().sock_recv(client, 4096):
                response += part
    assert b"127.0.0.1" in response
    assert b"ffff" not in response
