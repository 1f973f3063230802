"""Commands in containers, on the local server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from http_servers import Server, always, answer
from pods_on_a_node import cut_connections, pod_environment

from opsdk import BlockingContext, Cluster, ClusterOptions, Operator, RestConfig
from opsdk.aio.fence import FENCE
from opsdk.api.core.v1 import Pod
from opsdk.apimachinery.object import key_of
from opsdk.errors import (
    ApiError,
    BadRequestError,
    ConnectionLostError,
    DeadlineError,
    ExitError,
    ForbiddenError,
    InternalServerError,
    LeaderElectionLostError,
    NotFoundError,
    ResponseLimitError,
    TransportError,
    UnauthorizedError,
    UsageError,
)
from opsdk.pods.command_output import ExecResult
from opsdk.testing.running import running

pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")
BOTH = pytest.mark.parametrize("sockets", [False, True])


async def shell(command: Any, pipe: Any) -> int:
    """A container with a few programs."""
    match command.argv:
        case ("cat",):
            while data := await pipe.read():
                await pipe.write(data)
        case ("exit", code):
            await pipe.write_error(b"\xff")
            return int(code)
        case ("yes",):
            while True:
                await pipe.write(b"y" * 10_000)
                await asyncio.sleep(0)
        case ("sleep",):
            await asyncio.sleep(100_000)
        case _:
            raise ValueError(f"{command.container}: no program {command.argv[0]}")
    return 0


@pytest.mark.realtime
@BOTH
async def test_a_command_has_a_status_and_two_outputs(sockets: bool) -> None:
    """The exit status is a value; stdin of any size arrives with its end; output may be any bytes."""
    async with pod_environment(sockets=sockets) as (env, cluster):
        env.responders.run = shell
        for stdin in (b"", b"abc", bytes(range(256)) * 5000):
            result = await cluster.pods.exec("default/p", ["cat"], container="c", stdin=stdin)
            assert result == ExecResult(status=0, stdout=stdin)
        result = await cluster.pods.exec("default/p", ["exit", "3"], container="c")
        assert result == ExecResult(status=3, stderr=b"\xff")
        results = await asyncio.gather(
            *(cluster.pods.exec("default/p", ["exit", str(n)], container="d") for n in range(8))
        )
        assert [result.status for result in results] == list(range(8))
        assert cluster.transport.__repr__().count("0 busy") == int(sockets)


async def test_a_checked_command_raises_its_exit_status() -> None:
    """The error has the status and stderr; the message has the end of stderr. A success is a result as ever."""

    async def psql(command: Any, pipe: Any) -> int:
        await pipe.write_error(b"x" * 1000 + b"\nFATAL: no such database\n")
        return int(command.argv[1])

    async with pod_environment(sockets=False) as (env, cluster):
        env.responders.run = psql
        with pytest.raises(ExitError, match=r"psql in Pod default/p ended with status 2: x+\nFATAL: no") as caught:
            await cluster.pods.exec("default/p", ["psql", "2"], container="c", check=True)
        assert caught.value.status == 2
        assert len(caught.value.stderr) > 1000 > len(str(caught.value))
        assert (await cluster.pods.exec("default/p", ["psql", "0"], container="c", check=True)).status == 0


@pytest.mark.realtime
@BOTH
async def test_a_program_that_is_not_there_is_an_error(sockets: bool) -> None:
    """A command that was not run has the message of the kubelet."""
    async with pod_environment(sockets=sockets) as (env, cluster):
        env.responders.run = shell
        with pytest.raises(InternalServerError, match="c: no program nothing"):
            await cluster.pods.exec("default/p", ["nothing"], container="c")


@pytest.mark.realtime
@BOTH
async def test_output_without_end_is_bounded(sockets: bool) -> None:
    """The error names the option, and the command's connection is closed."""
    async with pod_environment(sockets=sockets) as (env, cluster):
        ended = asyncio.Event()
        env.responders.run = _noting_the_end(ended)
        with pytest.raises(ResponseLimitError, match="more than 100000 bytes: pass a larger max_output_bytes"):
            await cluster.pods.exec("default/p", ["yes"], container="c", max_output_bytes=100_000)
        async with asyncio.timeout(10):
            await ended.wait()


async def test_a_timeout_ends_the_command() -> None:
    """A command that does not end, or does not read its input, is a DeadlineError; its connection is closed."""
    async with pod_environment(sockets=False) as (env, cluster):
        for stdin in (None, b"x" * 5_000_000):
            ended = asyncio.Event()
            env.responders.run = _noting_the_end(ended)
            with pytest.raises(DeadlineError, match="sleep did not end within 60 s"):
                await cluster.pods.exec("default/p", ["sleep"], container="c", stdin=stdin)
            async with asyncio.timeout(10):
                await ended.wait()


@pytest.mark.realtime
@BOTH
async def test_cancellation_at_each_await_leaves_nothing_behind(sockets: bool) -> None:
    """A call that is cancelled after any number of loop iterations ends, and so does the command at the server."""
    async with pod_environment(sockets=sockets) as (env, cluster):
        commands = 0

        async def count(command: Any, pipe: Any) -> int:
            nonlocal commands
            commands += 1
            try:
                return await shell(command, pipe)
            finally:
                commands -= 1

        env.responders.run = count
        step = 8 if sockets else 1
        for turns in range(0, 60 * step, step):
            call = asyncio.ensure_future(cluster.pods.exec("default/p", ["cat"], container="c", stdin=b"x" * 70_000))
            for _ in range(turns):
                await asyncio.sleep(0)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
        async with asyncio.timeout(20):
            while commands:
                await asyncio.sleep(0.01)
        assert "0 busy" in repr(cluster.transport) or "0 open" in repr(cluster.transport)


async def test_output_is_read_as_it_arrives() -> None:
    """A command without end yields its output; its status is an error before the end; leaving the block ends it."""
    async with pod_environment(sockets=False) as (env, cluster):
        ended = asyncio.Event()
        env.responders.run = _noting_the_end(ended)
        async with cluster.pods.open_exec("default/p", ["yes"], container="c") as stream:
            async for piece in stream:
                assert piece == ("stdout", b"y" * 10_000)
                break
            with pytest.raises(UsageError, match="iterate over the output"):
                _ = stream.status
        async with asyncio.timeout(5):
            await ended.wait()


async def test_input_is_written_while_output_is_read() -> None:
    """The command answers a first input before it gets the second one."""
    async with pod_environment(sockets=False) as (env, cluster):
        env.responders.run = shell
        async with cluster.pods.open_exec("default/p", ["cat"], container="c", stdin=True) as stream:
            for word in (b"a", b"b"):
                await stream.write(word)
                assert await anext(stream) == ("stdout", word)
            await stream.end_input()
            assert [piece async for piece in stream] == []
            assert stream.status == 0


@pytest.mark.realtime
@BOTH
async def test_a_terminal_has_a_size(sockets: bool) -> None:
    """Of a command and of the running process; without a terminal there is none."""

    async def program(command: Any, pipe: Any) -> int:
        await pipe.read()
        await pipe.write(f"{command.tty} {pipe.size}")
        return 0

    async with pod_environment(sockets=sockets) as (env, cluster):
        env.responders.run = program
        for opened in (
            cluster.pods.open_exec("default/p", ["top"], container="c", stdin=True, tty=True),
            cluster.pods.attach("default/p", container="c", stdin=True, tty=True),
        ):
            async with opened as stream:
                await stream.resize(120, 40)
                await stream.write(b"x")
                assert [piece async for piece in stream] == [("stdout", b"True (120, 40)")]
        async with cluster.pods.open_exec("default/p", ["top"], container="c") as stream:
            with pytest.raises(UsageError, match="there is no terminal: pass tty=True"):
                await stream.resize(120, 40)


@BOTH
async def test_attach_reaches_the_running_process(sockets: bool) -> None:
    """Input and output are those of the container's process; a terminal has one output; its end is a success."""
    processes = []

    async def process(command: Any, pipe: Any) -> None:
        processes.append((command.argv, command.container, command.stdin, command.stderr, command.tty))
        if not command.tty:
            await pipe.write_error("ready")
        while command.stdin and (data := await pipe.read()):
            await pipe.write(data.upper())

    async with pod_environment(sockets=sockets) as (env, cluster):
        env.responders.run = process
        async with cluster.pods.attach("default/p", container="c", stdin=True) as stream:
            assert await anext(stream) == ("stderr", b"ready")
            await stream.write(b"help")
            assert await anext(stream) == ("stdout", b"HELP")
            await stream.end_input()
            assert [piece async for piece in stream] == []
            assert stream.status == 0
        async with cluster.pods.attach("default/p", container="d", tty=True) as stream:
            assert [piece async for piece in stream] == []
        assert processes == [((), "c", True, True, False), ((), "d", False, False, True)]
        with pytest.raises(NotFoundError, match='pods "q" not found'):
            async with cluster.pods.attach("default/q"):
                pass
        async with Cluster(cluster.config, ClusterOptions(dry_run=True)) as dry:
            with pytest.raises(UsageError, match="cannot attach to Pod default/p"):
                dry.pods.attach("default/p")


async def test_a_plain_reconciler_looks_into_its_pod() -> None:
    """A function in a thread runs a command and reads a log without await. Leaving the loop ends the log."""
    statuses, lines, ended = [], [], asyncio.Event()
    operator = Operator("prober")

    @operator.reconciler(Pod)
    def reconcile(pod: Pod, ctx: BlockingContext) -> None:
        pods = ctx.cluster.pods
        statuses.append(pods.exec(key_of(pod), ["exit", "4"], container="c").status)
        for line in pods.logs(key_of(pod), container="c", follow=True):
            lines.append(line)
            break
        lines.append(ctx.cluster.uncached.get(Pod, key_of(pod)).metadata.name)

    async def write() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"line\n"
                await asyncio.sleep(1)
        finally:
            ended.set()

    async with pod_environment(sockets=False) as (env, _):
        env.responders.run = shell
        env.responders.logs = lambda *_: write()
        async with running(operator, env):
            await ended.wait()
            await env.eventually(lambda: len(lines) == 2)
    assert (statuses, lines) == ([4], ["line", "p"])


@pytest.mark.realtime
@BOTH
async def test_refusals_have_the_error_of_the_server(sockets: bool) -> None:
    """A missing Pod, a missing container, no permission and a kubelet that is away are typed errors."""
    async with pod_environment(sockets=sockets) as (env, cluster):
        env.responders.run = shell
        with pytest.raises(NotFoundError, match='pods "q" not found'):
            await cluster.pods.exec("default/q", ["cat"])
        with pytest.raises(BadRequestError, match="container x is not valid for pod p"):
            await cluster.pods.exec("default/p", ["cat"], container="x")
        async with Cluster(env.config_for("bad")) as stranger:
            with pytest.raises(ForbiddenError, match="pods/exec"):
                await stranger.pods.exec("default/p", ["cat"])
        env.responders.run = None
        with pytest.raises(ApiError, match="no preferred addresses"):
            await cluster.pods.exec("default/p", ["cat"], container="c")


STATUS = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 400, "reason": "BadRequest"})
WITHOUT_UPGRADE = STATUS.replace("{", '{"message": "Upgrade request required", ', 1)


@pytest.mark.realtime
@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (403, "<html>no</html>", "HTTP 403: <html>no</html>"),
        (400, "", "HTTP 400: "),
        (501, "Not Implemented", "HTTP 501: "),
        (200, "welcome", "HTTP 200$"),
        (400, WITHOUT_UPGRADE, "HTTP 400: Upgrade request required"),
    ],
)
async def test_a_proxy_without_websockets_is_named(status: int, body: str, text: str) -> None:
    """The error says that something before the API server let no WebSocket pass, whatever it answered."""
    async with (
        Server(always(answer(status, body.encode()))) as server,
        Cluster(RestConfig(host=server.host)) as cluster,
    ):
        pods = cluster.pods
        with pytest.raises(TransportError, match="a proxy or load balancer before the API server must .*" + text):
            await pods.exec("default/p", ["true"])
        with pytest.raises(TransportError, match="no WebSocket was opened"):
            async with pods.open_port("default/p", 80):
                pass


@pytest.mark.realtime
@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (400, STATUS, BadRequestError),
        (401, "<html>", UnauthorizedError),
        (403, "Forbidden (user=a, verb=create, resource=nodes, subresource=proxy)", ForbiddenError),
        (404, "pod does not exist", NotFoundError),
        (500, "oops", InternalServerError),
    ],
)
async def test_other_refusals_of_a_websocket_stay_what_they_are(status: int, body: str, error: type[ApiError]) -> None:
    """A Status is the API server's own answer, and a text may be the kubelet's; credentials are another matter."""
    async with (
        Server(always(answer(status, body.encode()))) as server,
        Cluster(RestConfig(host=server.host)) as cluster,
    ):
        with pytest.raises(error):
            await cluster.pods.exec("default/p", ["true"])


async def test_a_server_that_dies_is_a_lost_connection() -> None:
    """A connection that ends before the exit status is not a success."""
    async with pod_environment(sockets=False) as (env, cluster):
        env.responders.run = shell
        call = asyncio.ensure_future(cluster.pods.exec("default/p", ["sleep"], container="c"))
        await asyncio.sleep(1)
        cut_connections(cluster)
        with pytest.raises(ConnectionLostError):
            await call


async def test_a_former_leader_runs_no_command() -> None:
    """A command counts as a write: the fence refuses it before it is sent."""

    class Lost:
        def check(self, what: str) -> None:
            raise LeaderElectionLostError(f"{what}: the lease is lost")

    async with pod_environment(sockets=False) as (env, cluster):
        env.responders.run = shell
        token = FENCE.set(Lost())  # type: ignore[arg-type] # a fence that has lost
        try:
            with pytest.raises(LeaderElectionLostError, match="CONNECT /api/v1/namespaces/default/pods/p/exec"):
                await cluster.pods.exec("default/p", ["cat"], container="c")
        finally:
            FENCE.reset(token)


async def test_wrong_arguments_are_errors_of_the_caller() -> None:
    """A command as one string, an empty one, and a dry run are refused before a request."""
    async with pod_environment(sockets=False) as (_, cluster):
        for command in ("ls -l", [], [b"ls"]):
            with pytest.raises(UsageError, match="list of words"):
                await cluster.pods.exec("default/p", command)  # type: ignore[arg-type] # wrong on purpose
        async with Cluster(cluster.config, ClusterOptions(dry_run=True)) as dry:
            with pytest.raises(UsageError, match="cannot run ls in Pod default/p: the cluster has dry_run=True"):
                await dry.pods.exec("default/p", ["ls"])


def _noting_the_end(ended: asyncio.Event) -> Any:
    async def run(command: Any, pipe: Any) -> int:
        try:
            return await shell(command, pipe)
        finally:
            ended.set()

    return run
