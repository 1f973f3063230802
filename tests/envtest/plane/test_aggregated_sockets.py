"""Protocol upgrades that are proxied to an aggregated server, in process and over sockets."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from server_caller import Caller
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from envtest.environment import Environment
from opsdk.http.server.application import asgi
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse, json_response
from opsdk.http.server.server import ServeOptions, Tls, WebServer
from opsdk.http.server.websocket import WebSocket, accept_websocket
from tests.envtest.aggregated_server import APISERVICES, ROOT, FarServer, api_service, until

pytestmark = [pytest.mark.realtime, pytest.mark.parametrize("far", ["inside", "over sockets"])]
CONSOLE = f"{ROOT}/namespaces/a/things/x/console"


class Consoles(FarServer):
    """Says every message again; ``bye`` ends it."""

    def __init__(self) -> None:
        super().__init__()
        self.users: list[str] = []
        self.left = asyncio.Event()
        self._sockets = asgi(self.open)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """See ASGI."""
        answering = self._sockets if scope["path"].endswith("/console") else super().__call__
        await answering(scope, receive, send)

    async def open(self, request: HttpRequest) -> HttpResponse:
        """The handshake."""
        self.users.append(request.header("x-remote-user"))
        if request.upgrade is None:
            return json_response({"reason": "no upgrade"}, status=400)
        if request.query.get("refused"):
            return json_response({"reason": "not you"}, status=403)
        return accept_websocket(request, ("echo", ""), self.run)

    async def run(self, socket: WebSocket, _: str) -> None:
        """One session."""
        try:
            while (message := await socket.receive()) is not None:
                if message == "bye":
                    await socket.close(4001, "as you wish")
                    return
                await socket.send(message)
        finally:
            self.left.set()


class World:
    """A served environment with `Consoles` behind it."""

    def __init__(self, env: Environment, url: str, consoles: Consoles) -> None:
        self.env = env
        self.consoles = consoles
        self.url = url.replace("https", "wss")

    def open(self, query: str = "") -> connect:
        """A socket to the console, as alice."""
        context = ssl.create_default_context(cadata=self.env.authority.pair.cert.decode())
        alice = self.env.add_user("alice", groups=["system:masters"])
        headers = {"Authorization": f"Bearer {alice.token}"}
        protocols: Any = ["echo"]
        target = f"{self.url}{CONSOLE}{query}"
        return connect(target, ssl=context, additional_headers=headers, subprotocols=protocols, max_size=None)


@asynccontextmanager
async def world(far: str, folder: Path) -> AsyncIterator[World]:
    """Everything."""
    consoles = Consoles()
    async with AsyncExitStack() as stack:
        env = await stack.enter_async_context(Environment())
        call = Caller(env)
        if far == "inside":
            await env.expose("far/server", app=consoles)
        else:
            cert, key = env.authority.serving("server.far.svc").write(folder, "tls")
            options = ServeOptions(tls=Tls(cert_file=cert, key_file=key))
            web = await stack.enter_async_context(WebServer(consoles, options))
            await env.expose("far/server", port=web.port)
        assert (await call("POST", APISERVICES, api_service())).status == 201
        await until(env, call, "Passed")
        web = await env.serve()
        yield World(env, web.url, consoles)


async def test_messages_pass_in_both_directions(far: str, tmp_path: Path) -> None:
    """WebSocket messages of any size pass in order in both directions, with subprotocol and user."""
    async with world(far, tmp_path) as created, created.open() as socket:
        assert socket.subprotocol == "echo"
        sent: list[str | bytes] = ["", "a", b"\x00\xff", "x" * 70_000, b"y" * 3_000_000]
        for message in sent:
            await socket.send(message)
        assert [await socket.recv() for _ in sent] == sent
        assert created.consoles.users == ["alice"]


async def test_refusals_come_back_as_they_are(far: str, tmp_path: Path) -> None:
    """A rejected upgrade returns status and body of the backend."""
    async with world(far, tmp_path) as created:
        with pytest.raises(InvalidStatus) as refused:
            await created.open("?refused=1").__aenter__()
        answer = refused.value.response
        assert (answer.status_code, answer.body) == (403, b'{"reason":"not you"}')


async def test_the_end_of_one_side_is_the_end_of_the_other(far: str, tmp_path: Path) -> None:
    """When one side closes the connection, the other side sees the close after the last messages."""
    async with world(far, tmp_path) as created:
        async with created.open() as socket:
            await _ended(socket)
        created.consoles.left.clear()
        async with created.open() as socket:
            socket.transport.abort()
            await asyncio.wait_for(created.consoles.left.wait(), 10)


async def _ended(socket: ClientConnection) -> None:
    await socket.send("bye")
    with pytest.raises(ConnectionClosed) as closed:
        await socket.recv()
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4001, "as you wish")


async def test_open_sessions_do_not_keep_the_environment(far: str, tmp_path: Path) -> None:
    """The server stops although sessions are open, and ends them."""
    async with world(far, tmp_path) as created:
        socket = await created.open().__aenter__()
        await socket.send("a")
        assert await socket.recv() == "a"
    await asyncio.wait_for(socket.wait_closed(), 10)


async def test_a_missing_server_is_reported(far: str, tmp_path: Path) -> None:
    """An upgrade for a missing backend is a 503, as for any other request."""
    async with world(far, tmp_path) as created:
        if far == "inside":
            created.env.plane.webhook_client.apps.clear()
        else:
            await created.env.expose("far/server", port=1)
        with pytest.raises(InvalidStatus) as refused:
            await created.open().__aenter__()
        assert refused.value.response.status_code == 503
