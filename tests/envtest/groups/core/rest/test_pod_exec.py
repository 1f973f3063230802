"""Exec, port-forward and watches over WebSockets, with scripted containers."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from server_caller import Caller
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from envtest.environment import Environment
from envtest.groups.core.rest.responders import Command
from opsdk.apiserver.auth.authentication import TokenAuthenticator
from opsdk.apiserver.auth.user import User
from opsdk.apiserver.streams.pipe import Pipe

pytestmark = pytest.mark.realtime
PODS = "/api/v1/namespaces/default/pods"
EXEC = f"{PODS}/p/exec?command=run&command=it"
V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"


class World:
    """A served environment with a pod on a node."""

    def __init__(self, env: Environment, url: str) -> None:
        self.env = env
        self.url = url.replace("https", "wss")
        self.ran: list[Command] = []
        self.cancelled = asyncio.Event()

    def open(self, path: str, *protocols: str, token: str = "good") -> connect:
        """A socket to a path."""
        context = ssl.create_default_context(cadata=self.env.authority.pair.cert.decode())
        headers = {"Authorization": f"Bearer {token}"}
        subprotocols: Any = list(protocols) or None
        return connect(f"{self.url}{path}", ssl=context, additional_headers=headers, subprotocols=subprotocols)

    async def play(self, command: Command, pipe: Pipe) -> int | None:
        """Run the command that the last argument names."""
        self.ran.append(command)
        match command.argv[-1:]:
            case ("cat",):
                await pipe.write(await pipe.read_all())
            case ("both",):
                await pipe.write("out")
                await pipe.write_error("err")
                return 7
            case ("break",):
                raise ValueError("it broke")
            case ("size",):
                while pipe.size is None:
                    await asyncio.sleep(0.01)
                await pipe.write(repr(pipe.size))
            case ("forever",):
                try:
                    await asyncio.Event().wait()
                finally:
                    self.cancelled.set()
            case _:
                await pipe.write(" ".join(command.argv))
        return None


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    """Start an environment with the users ``good`` and ``nobody``."""
    tokens = {"good": User(name="good", groups=("system:masters",)), "nobody": User(name="nobody")}
    async with Environment(tokens=tokens) as env:
        call = Caller(env)
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}}
        assert (await call("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})).status == 201
        assert (await call("POST", PODS, pod)).status == 201
        created = World(env, (await env.serve()).url)
        env.responders.run = created.play
        yield created
    assert isinstance(env.tokens, TokenAuthenticator)


async def heard(socket: ClientConnection) -> dict[int, bytes]:
    """Return the data of each channel until the end."""
    result: dict[int, bytes] = {}
    async with asyncio.timeout(5):
        async for message in socket:
            assert isinstance(message, bytes)
            result[message[0]] = result.get(message[0], b"") + message[1:]
    assert socket.close_code == 1000
    return result


async def test_output_comes_on_its_channels_and_then_the_outcome() -> None:
    """Exec sends both outputs on their channels, and then a Status with the exit code or error."""
    async with world() as w:
        async with w.open(f"{EXEC}&command=both&stdout=1&stderr=1", V5) as socket:
            channels = await heard(socket)
            assert (channels[1], channels[2]) == (b"out", b"err")
            assert json.loads(channels[3])["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]
        async with w.open(f"{EXEC}&command=break&stdout=1", V4) as socket:
            channels = await heard(socket)
            assert "error executing command in container: it broke" in json.loads(channels[3])["message"]
        async with w.open(f"{EXEC}&stdout=1&tty=1&stderr=1&container=c") as socket:
            assert await heard(socket) == {1: b"run it"}
        last = w.ran[-1]
        assert (last.container, last.argv, last.tty, last.stderr) == ("c", ("run", "it"), True, False)
        assert last.pod["metadata"]["name"] == "p"


async def test_input_ends_when_the_client_says_so() -> None:
    """Input of any size ends with the close of its channel; terminals have sizes."""
    async with world() as w:
        async with w.open(f"{EXEC}&command=cat&stdin=1&stdout=1", V5) as socket:
            for _ in range(100):
                await socket.send(b"\x00" + b"y" * 10_000)
            await socket.send(b"\xff\x00")
            channels = await heard(socket)
            assert channels[1] == b"y" * 1_000_000
        async with w.open(f"{EXEC}&command=size&stdin=1&stdout=1&tty=1", V5) as socket:
            await socket.send(b"\x04not a size")
            await socket.send(b'\x04{"Width":80,"Height":24}')
            assert (await heard(socket))[1] == b"(80, 24)"


async def test_text_dialects_carry_the_same() -> None:
    """The base64 subprotocols send a channel digit and base64."""
    async with world() as w, w.open(f"{EXEC}&stdout=1", "base64.channel.k8s.io") as socket:
        assert await socket.recv() == "1"
        message = await socket.recv()
        assert isinstance(message, str)
        assert (message[0], base64.b64decode(message[1:])) == ("1", b"run it")


async def test_a_disconnected_client_cancels_the_command() -> None:
    """A client that disconnects cancels the container's side."""
    async with world() as w:
        async with w.open(f"{EXEC}&command=forever&stdout=1", V5) as socket:
            await socket.recv()
        await asyncio.wait_for(w.cancelled.wait(), 5)


async def test_attaching_has_no_command() -> None:
    """Attach runs no command."""
    async with world() as w, w.open(f"{PODS}/p/attach?stdout=1", V5) as socket:
        await heard(socket)
        assert w.ran[-1].argv == ()


@pytest.mark.parametrize(
    ("path", "protocols", "token", "status", "text"),
    [
        (EXEC, [V5], "good", 400, "you must specify at least 1 of stdin, stdout, stderr"),
        (f"{EXEC}&stdout=1", ["x", "y"], "good", 403, "requested protocol(s) are not supported: [x y]"),
        (f"{EXEC}&stdout=1", [V5], "nobody", 403, 'cannot get resource \\"pods/exec\\"'),
        (f"{EXEC}&stdout=1&container=x", [V5], "good", 400, "container x is not valid for pod p"),
        (f"{PODS}/q/exec?stdout=1", [V5], "good", 404, "not found"),
        (f"{PODS}/p/portforward?ports=80", [V4], "good", 500, "no preferred addresses found"),
    ],
)
async def test_errors_before_the_upgrade_are_statuses(
    path: str, protocols: list[str], token: str, status: int, text: str
) -> None:
    """An invalid exec request gets a Status instead of an upgrade."""
    async with world() as w:
        with pytest.raises(InvalidStatus) as caught:
            await w.open(path, *protocols, token=token)
        response = caught.value.response
        assert response.status_code == status
        assert text in bytes(response.body or b"").decode()
        assert w.ran == []


async def test_requests_without_upgrade_are_refused() -> None:
    """A request without an upgrade, or on a connection that cannot upgrade, is an error."""
    async with world() as w:
        call = Caller(w.env)
        answer = await call("GET", f"{EXEC}&stdout=1")
        assert (answer.status, answer.json["message"]) == (400, "Upgrade request required")
        answer = await call("GET", f"{EXEC}&stdout=1", connection="Upgrade", upgrade="SPDY/3.1")
        assert (answer.status, answer.json["message"][:17]) == (400, "unable to upgrade")


# ------------------------------------------------------------------ ports
async def test_ports_are_connections() -> None:
    """Each port's data and error channel begin with the port number; a failure is reported on the error channel."""

    async def listening(pod: Any, port: int, pipe: Pipe) -> None:
        assert pod["metadata"]["name"] == "p"
        if port == 81:
            raise ConnectionError("nobody listens")
        await pipe.write(b"echo " + await pipe.read())

    async with world() as w:
        w.env.responders.forwarded = listening
        async with w.open(f"{PODS}/p/portforward?ports=80&ports=81", V4) as socket:
            await socket.send(b"\x00hello")
            channels = await heard(socket)
        assert channels[0] == b"\x50\x00echo hello"
        assert channels[1] == b"\x50\x00"
        assert channels[2] == b"\x51\x00"
        assert channels[3] == b"\x51\x00error forwarding port 81 to pod: nobody listens"
        for ports, text in (
            ("", 'query parameter "port"'),
            ("?ports=x", "unable to parse"),
            ("?ports=70000", "parse"),
            ("?ports=%C2%B2", "parse"),
            (f"?ports={'1' * 5000}", "parse"),
            (f"?ports={','.join(map(str, range(1, 10_001)))}", "at most 128 ports"),
        ):
            with pytest.raises(InvalidStatus) as caught:
                await w.open(f"{PODS}/p/portforward{ports}", V4)
            assert text.encode() in bytes(caught.value.response.body or b"").replace(b"\\", b"")


# ------------------------------------------------------------------ watches
async def test_watches_come_as_messages() -> None:
    """A WebSocket watch sends each event as a message, and ends with the client; an invalid one is an error."""
    async with world() as w:
        call = Caller(w.env)
        url = "/api/v1/namespaces/default/configmaps?watch=1"
        async with w.open(f"{url}&timeoutSeconds=30") as socket:
            for name in ("a", "b", "c"):
                await call("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": name}})
            names = [json.loads(await asyncio.wait_for(socket.recv(), 5))["object"]["metadata"]["name"] for _ in "abc"]
            assert names == ["a", "b", "c"]
        with pytest.raises(InvalidStatus) as caught:
            await w.open(f"{url}&labelSelector=-")
        assert caught.value.response.status_code == 400
        with pytest.raises(InvalidStatus) as caught:
            await w.open(url, "x", "y")
        assert caught.value.response.status_code == 403
        storage = w.env.plane.storage
        for _ in range(200):
            if repr(storage).endswith(", 0 watches>"):
                break
            await asyncio.sleep(0.01)
        else:
            pytest.fail("a watch was left behind")
