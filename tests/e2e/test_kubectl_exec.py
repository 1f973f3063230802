"""The real kubectl runs commands in containers that a test plays."""

from __future__ import annotations

import asyncio
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from envtest.environment import Environment
from envtest.groups.core.rest.responders import Command
from opsdk.apiserver.streams.pipe import Pipe
from opsdk.structured_merge.value import JsonObject

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.realtime,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed: these tests drive it"),
]


async def play(command: Command, pipe: Pipe) -> int:
    """A container with three programs; attached to, it tells so."""
    match command.argv:
        case ("cat",):
            await pipe.write(await pipe.read_all())
        case ("false",):
            await pipe.write_error("no\n")
            return 3
        case ():
            await pipe.write("attached\n")
        case words:
            await pipe.write(" ".join(words[1:]) + "\n")
    return 0


async def test_commands_run_in_containers() -> None:
    """Output, input to its end, exit codes, attaching; what cannot be done fails and says so."""
    async with Environment(controllers="cluster") as env:
        env.responders.run = play
        await env.kubectl("run", "p", "--image=i")
        await env.kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=20s")
        assert (await env.kubectl("exec", "p", "--", "echo", "a", "b")).stdout == "a b\n"
        text = "line\n" * 20_000
        assert (await env.kubectl("exec", "-i", "p", "-c", "p", "--", "cat", stdin=text)).stdout == text
        failed = await env.kubectl("exec", "p", "--", "false", check=False)
        assert failed.code == 3
        assert failed.stderr == "no\ncommand terminated with exit code 3\n"
        assert (await env.kubectl("attach", "p")).stdout == "attached\n"
        failed = await env.kubectl("exec", "p", "-c", "other", "--", "echo", check=False)
        assert failed.code == 1
        assert "container other" in failed.stderr
        failed = await env.kubectl("port-forward", "p", "0:80", check=False)
        assert failed.code == 1
        assert "connection refused" in failed.stderr


async def listen(pod: JsonObject, port: int, pipe: Pipe) -> None:
    """What listens on the ports of a pod: answers a line with a line."""
    if port == 1:
        raise ConnectionRefusedError("nobody listens")
    line = b""
    while not line.endswith(b"\n"):
        line += await pipe.read()
    await pipe.write(f"{pod['metadata']['name']}:{port} ".encode() + line)


@asynccontextmanager
async def forwarded(env: Environment, folder: Path, port: int) -> AsyncIterator[int]:
    """A local port, forwarded by kubectl while the block runs."""
    path = folder / "kubeconfig"
    path.write_text(env.kubeconfig(await env.serve()))
    words = ["kubectl", f"--kubeconfig={path}", "port-forward", "p", f"0:{port}", "--address=127.0.0.1"]
    process = await asyncio.create_subprocess_exec(*words, stdout=PIPE, stderr=DEVNULL)
    try:
        assert process.stdout is not None
        yield int((await process.stdout.readline()).split(b"127.0.0.1:")[1].split()[0])
    finally:
        process.kill()
        await process.wait()


async def ask(port: int, text: str) -> str:
    """One connection: a line there, everything that comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text.encode())
    try:
        return (await reader.read()).decode()
    finally:
        writer.close()


async def test_ports_of_pods_are_forwarded(tmp_path: Path) -> None:
    """A port-forward of kubectl carries many connections at once; one to a closed port ends without data."""
    async with Environment(controllers="cluster") as env:
        env.responders.forwarded = listen
        await env.kubectl("run", "p", "--image=i")
        await env.kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=20s")
        async with forwarded(env, tmp_path, 80) as port:
            answers = await asyncio.gather(*(ask(port, f"hello {number}\n") for number in range(20)))
            assert answers == [f"p:80 hello {number}\n" for number in range(20)]
        async with forwarded(env, tmp_path, 1) as port:
            assert await ask(port, "hello\n") == ""
