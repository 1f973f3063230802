"""The server as a process, and on real sockets."""

from __future__ import annotations

import asyncio
import json
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from envtest.environment import Environment
from opsdk.errors import ConfigError


async def request(port: int, path: str, *, token: str = "", context: ssl.SSLContext | None = None) -> str:
    """The body of the answer to a GET."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    credentials = f"Authorization: Bearer {token}\r\n" if token else ""
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{credentials}\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    return answer.partition("\r\n\r\n")[2]


@contextmanager
def served(command: Sequence[str]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The server as a process, with its URL; it is gone afterwards, whatever happens."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            word, url = process.stdout.readline().split()
            assert word == "ready"
            yield process, url
        finally:
            process.kill()


@pytest.mark.realtime
async def test_client_certificates_are_users(tmp_path: Path) -> None:
    """A client certificate's common name is the user, and its organisations are the groups."""
    async with Environment() as env:
        web = await env.serve()
        pair = env.authority.client("admin", ("system:masters",))
        cert, key = pair.write(tmp_path, "admin")
        context = ssl.create_default_context(cadata=env.authority.pair.cert.decode())
        context.load_cert_chain(cert, key)
        document = json.loads(await request(web.port, "/api/v1/namespaces/default", context=context))
        assert document["metadata"]["name"] == "default"


@pytest.mark.realtime
async def test_a_busy_port_is_an_error_at_once() -> None:
    """A second server on a busy port fails before it reports that it is ready."""
    async with Environment() as one, Environment() as two:
        web = await one.serve(tls=False)
        with pytest.raises(ConfigError, match="cannot listen"):
            await two.serve(port=web.port, tls=False)


@pytest.mark.slow
@pytest.mark.e2e
def test_the_command_serves_and_stops(tmp_path: Path) -> None:
    """The command prints one line, writes a private kubeconfig, stops on a signal, and keeps its objects."""
    kubeconfig, tokens = tmp_path / "kubeconfig", tmp_path / "tokens.csv"
    tokens.write_text('secret,alice,uid,"devs,system:masters"\n')
    command = [
        sys.executable,
        "-m",
        "envtest",
        "serve",
        "--port",
        "0",
        "--no-tls",
        "--data-dir",
        str(tmp_path / "data"),
    ]
    command += ["--kubeconfig", str(kubeconfig), "--token-auth-file", str(tokens)]
    revisions = []
    for _ in range(2):
        with served(command) as (process, url):
            assert yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"] == url
            assert kubeconfig.stat().st_mode & 0o777 == 0o600
            port = int(url.rpartition(":")[2])
            document = json.loads(asyncio.run(request(port, "/api/v1/namespaces/default", token="secret")))
            revisions.append(document["metadata"]["resourceVersion"])
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
    assert revisions[0] == revisions[1]


@pytest.mark.slow
@pytest.mark.realtime
def test_authorization_can_be_switched_off(tmp_path: Path) -> None:
    """With AlwaysAllow a user without roles may read everything; without anonymous users, credentials are needed."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("secret,alice,uid\n")
    command = [sys.executable, "-m", "envtest", "serve", "--port", "0", "--no-tls", "--token-auth-file", str(tokens)]
    for more, kinds in (
        ([], ("Status", "ok")),
        (["--authorization-mode", "AlwaysAllow", "--no-anonymous-auth"], ("NamespaceList", "Status")),
    ):
        with served([*command, *more]) as (_, url):
            port = int(url.rpartition(":")[2])
            listed = json.loads(asyncio.run(request(port, "/api/v1/namespaces", token="secret")))["kind"]
            health = asyncio.run(request(port, "/healthz"))
        assert (listed, "ok" if health == "ok" else json.loads(health)["kind"]) == kinds


@pytest.mark.slow
def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    """A server ends when its parent is killed with SIGKILL."""
    kubeconfig, pid = tmp_path / "kubeconfig", tmp_path / "pid"
    script = (
        "import subprocess, sys, time\n"
        "command = [sys.executable, '-m', 'envtest', 'serve', '--port', '0', '--exit-with-parent', "
        f"'--kubeconfig', {str(kubeconfig)!r}]\n"
        "server = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)\n"
        f"server.stdout.readline(); open({str(pid)!r}, 'w').write(str(server.pid)); print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).resolve().parents[2]
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        parent.kill()
    server = int(pid.read_text())
    deadline = time.monotonic() + 60
    while Path(f"/proc/{server}").exists() and "zombie" not in Path(f"/proc/{server}/status").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_missing_extra_is_named() -> None:
    """Without the extra, the server says which library is missing and how to install it."""
    program = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from envtest.__main__ import main; sys.exit(main(['serve', '--port', '0']))"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert process.returncode == 1
    assert process.stderr == "error: the local API server needs cryptography: pip install 'opsdk[envtest]'\n"
