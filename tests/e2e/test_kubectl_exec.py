"""The real kubectl runs commands in containers that a test plays."""

from __future__ import annotations

import shutil

import pytest
from transcripts import kubectl_minor

from envtest.environment import Environment
from envtest.kinds.responders import Command
from opsdk.apiserver.streams.sessions import Pipe

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.realtime,
    pytest.mark.timeout(60),
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed: these tests drive it"),
]


async def play(command: Command, pipe: Pipe) -> int:
    """A container with three programs; attached to, it tells so."""
    match command.words:
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
    if kubectl_minor() < 31:
        pytest.skip("kubectl speaks WebSockets since 1.31")
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
