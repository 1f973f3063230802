"""Laws of `opsdk.rest.credentials` and `opsdk.rest.exec_plugin`."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from http_servers import make_ca

from opsdk.aio.randomness import loop_random
from opsdk.errors import ConfigError, UnauthorizedError
from opsdk.rest.config import ExecConfig, RestConfig
from opsdk.rest.credentials import TOKEN_FILE_PERIOD, StaticCredentials, TokenFileCredentials, credentials_for
from opsdk.rest.exec_plugin import ExecCredentials, exec_info, parse_credential
from opsdk.rest.request import RestRequest
from opsdk.rest.transport import Transport, fetch
from opsdk.structured_merge.value import JsonObject

GET = RestRequest("GET", "/")
V1 = "client.authentication.k8s.io/v1"


@pytest.mark.parametrize(
    ("settings", "headers"),
    [
        ({}, {}),
        ({"token": "t"}, {"Authorization": "Bearer t"}),
        ({"username": "u", "password": "p:ä"}, {"Authorization": "Basic dTpwOsOk"}),
        ({"token": "t", "exec": ExecConfig(command="/none")}, {"Authorization": "Bearer t"}),
    ],
)
async def test_static_credentials_never_change(settings: JsonObject, headers: dict[str, str]) -> None:
    """Static credentials send the same headers, and a 401 does not change them."""
    source = credentials_for(RestConfig(host="https://x", **settings), fetch)
    assert isinstance(source, StaticCredentials)
    assert await source.headers() == headers
    assert not source.invalidate(source.generation)
    assert "t" not in repr(source).replace("StaticCredentials", "").replace("set", "").replace("anonymous", "")


# ------------------------------------------------------------------ token files
async def _token(source: TokenFileCredentials) -> str:
    return (await source.headers())["Authorization"].removeprefix("Bearer ")


@pytest.mark.behaviour(145)
async def test_a_token_file_is_read_each_minute(tmp_path: Path) -> None:
    """A new token is used within a minute, without asking the disk for each request."""
    file = tmp_path / "token"
    file.write_text("one\n")
    source = TokenFileCredentials(file)
    assert await _token(source) == "one"
    file.write_text("two")
    await asyncio.sleep(TOKEN_FILE_PERIOD - 1)
    assert await _token(source) == "one"
    await asyncio.sleep(1)
    assert await _token(source) == "two"


@pytest.mark.parametrize("broken", [None, "", " \n"])
async def test_a_broken_token_file_keeps_the_old_token(tmp_path: Path, broken: str | None) -> None:
    """A file that is gone or empty for a moment costs nothing; the next request looks again."""
    file = tmp_path / "token"
    file.write_text("one")
    source = TokenFileCredentials(file)
    await source.headers()
    file.unlink()
    if broken is not None:
        file.write_text(broken)
    await asyncio.sleep(TOKEN_FILE_PERIOD)
    assert await _token(source) == "one"
    file.write_text("two")
    assert await _token(source) == "two"


async def test_a_missing_token_file_is_named(tmp_path: Path) -> None:
    """Without any token the error names the file; a configured token stands in for it."""
    with pytest.raises(ConfigError, match=r"token file .*none"):
        await TokenFileCredentials(tmp_path / "none").headers()
    assert await _token(TokenFileCredentials(tmp_path / "none", fallback="f")) == "f"


class _Guard:
    """An application that lets some tokens in."""

    def __init__(self, *good: str) -> None:
        self.good = {f"Bearer {token}".encode() for token in good}
        self.seen: list[bytes | None] = []
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        header = dict(scope["headers"]).get(b"authorization")
        self.seen.append(header)
        self.bodies.append((await receive())["body"])
        await send({"type": "http.response.start", "status": 200 if header in self.good else 401, "headers": []})
        await send({"type": "http.response.body", "body": b""})


@pytest.mark.behaviour(145)
async def test_a_401_reads_the_token_file_again(tmp_path: Path) -> None:
    """A token that the server refuses is read again at once, and the same request repeated once."""
    file, app = tmp_path / "token", _Guard("new")
    file.write_text("old")
    async with Transport(RestConfig(app=app, token_file=str(file))) as transport:
        assert (await transport.send(GET)).status == 401
        file.write_text("new")
        assert (await transport.send(RestRequest("POST", "/", body=b"x"))).status == 200
    assert app.seen == [b"Bearer old", b"Bearer old", b"Bearer old", b"Bearer new"]
    assert app.bodies[2:] == [b"x", b"x"]


async def test_a_401_is_final_for_static_credentials() -> None:
    """A 401 with static credentials is not retried."""
    app = _Guard()
    async with Transport(RestConfig(app=app, token="t")) as transport:
        assert (await transport.send(GET)).status == 401
    assert len(app.seen) == 1


# ------------------------------------------------------------------ plugins
PluginMaker = Callable[..., ExecConfig]


@pytest.fixture
def plugin(tmp_path: Path) -> PluginMaker:
    """Makes a plugin out of Python statements; `runs()` counts, `say(**status)` prints."""

    def make(body: str, **settings: Any) -> ExecConfig:
        script = tmp_path / "plugin.py"
        script.write_text(
            "import json, os, sys, time\n"
            f"log = {str(tmp_path / 'runs')!r}\n"
            "def runs():\n"
            "    open(log, 'a').write('x')\n"
            "    return len(open(log).read())\n"
            "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
            "def say(**status):\n"
            "    print(json.dumps({'kind': 'ExecCredential', 'apiVersion': info['apiVersion'], 'status': status}))\n"
            f"{body}\n"
        )
        defaults: JsonObject = {"command": sys.executable, "args": [str(script)], "interactive_mode": "Never"}
        return ExecConfig(**{**defaults, **settings})

    return make


def _source(plugin: ExecConfig, **settings: Any) -> ExecCredentials:
    return ExecCredentials(plugin, RestConfig(host="https://x", exec=plugin, **settings))


@pytest.mark.realtime
async def test_a_plugin_runs_once_for_all_waiting_requests(plugin: PluginMaker) -> None:
    """Concurrent requests share one run, and later ones its credential."""
    source = _source(plugin("say(token=f'run-{runs()}')"))
    got = await asyncio.gather(*(source.headers() for _ in range(5)))
    assert got == [{"Authorization": "Bearer run-1"}] * 5
    assert await source.headers() == {"Authorization": "Bearer run-1"}
    assert "run-1" not in repr(source)


@pytest.mark.behaviour(145)
@pytest.mark.realtime
async def test_a_plugin_runs_again_when_its_credential_expires(
    plugin: PluginMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A credential is used until the second it names, and no longer."""
    # Plugins run in real time, which no loop can skip.
    now = datetime(2026, 1, 1, tzinfo=UTC)
    monkeypatch.setattr("opsdk.rest.exec_plugin.utc_now", lambda: now)
    source = _source(plugin("say(token=f'run-{runs()}', expirationTimestamp='2026-01-01T00:10:00Z')"))
    assert await source.headers() == {"Authorization": "Bearer run-1"}
    now += timedelta(seconds=599)
    assert await source.headers() == {"Authorization": "Bearer run-1"}
    now += timedelta(seconds=1)
    assert await source.headers() == {"Authorization": "Bearer run-2"}


@pytest.mark.behaviour(145)
@pytest.mark.realtime
async def test_a_401_runs_the_plugin_again(plugin: PluginMaker) -> None:
    """A refused credential is fetched again, and the request repeated once."""
    app = _Guard("run-2")
    async with Transport(RestConfig(app=app, exec=plugin("say(token=f'run-{runs()}')"))) as transport:
        assert (await transport.send(GET)).status == 200
    assert app.seen == [b"Bearer run-1", b"Bearer run-2"]


@pytest.mark.realtime
async def test_a_plugin_sees_arguments_environment_and_cluster(plugin: PluginMaker) -> None:
    """Arguments, variables and, where asked for, the cluster reach the plugin."""
    config = plugin("say(token=json.dumps([os.environ['K'], 'PATH' in os.environ, info['spec']]))")
    config = ExecConfig(
        command=config.command, args=config.args, env={"K": "V"}, interactive_mode="Never",
        provide_cluster_info=True, cluster_config={"audience": "me"},
    )  # fmt: skip
    token = (await _source(config, ca_data=b"CA").headers())["Authorization"].removeprefix("Bearer ")
    assert json.loads(token) == [
        "V",
        True,
        {
            "interactive": False,
            "cluster": {
                "server": "https://x",
                "certificate-authority-data": base64.b64encode(b"CA").decode(),
                "config": {"audience": "me"},
            },
        },
    ]


@pytest.mark.realtime
async def test_a_plugin_may_issue_a_certificate(plugin: PluginMaker) -> None:
    """A certificate and key are kept for the TLS of new connections; no header is needed then."""
    pair = make_ca()
    body = f"say(clientCertificateData={pair.cert.decode()!r}, clientKeyData={pair.key.decode()!r})"
    source = _source(plugin(body))
    assert await source.headers() == {}
    assert source.client_cert is not None
    assert (source.client_cert.cert, source.client_cert.key) == (pair.cert, pair.key)
    assert "PRIVATE" not in repr(source.client_cert)


@pytest.mark.realtime
async def test_a_failing_plugin_says_why(plugin: PluginMaker) -> None:
    """The plugin's own words, its exit code and the hint stand in the error; the next call tries again."""
    config = plugin("runs(); sys.stderr.write('log in first'); sys.exit(3)", install_hint="see https://login")
    source = _source(config)
    for _ in range(2):
        with pytest.raises(UnauthorizedError, match=r"exit code 3: log in first\nsee https://login"):
            await source.headers()


class _Plugin(ExecCredentials):
    """A plugin whose runs take a second each, and print what a test says."""

    def __init__(self, outputs: list[str | Exception]) -> None:
        super().__init__(ExecConfig(command="/none"), RestConfig(host="https://x"))
        self.outputs = outputs
        self.runs = 0

    async def _run(self) -> bytes:
        self.runs += 1
        await asyncio.sleep(0.3)
        output = self.outputs[min(self.runs, len(self.outputs)) - 1]
        if isinstance(output, Exception):
            raise output
        credential = {"kind": "ExecCredential", "apiVersion": ExecConfig(command="/none").api_version}
        return json.dumps({**credential, "status": {"token": output}}).encode()


async def test_one_refusal_of_many_requests_runs_the_plugin_once() -> None:
    """Requests that were refused with an old credential do not drop the new one."""
    plugin = _Plugin(["old", "new"])
    await plugin.headers()
    used = plugin.generation

    async def refused() -> dict[str, str]:
        await asyncio.sleep(loop_random().random())
        assert plugin.invalidate(used)
        return await plugin.headers()

    got = await asyncio.gather(*(refused() for _ in range(16)))
    assert got == [{"Authorization": "Bearer new"}] * 16
    assert plugin.runs == 2


async def test_a_failure_is_that_of_all_waiting_requests() -> None:
    """A failing plugin runs once for all that wait for it, and again a moment later."""
    plugin = _Plugin([UnauthorizedError("log in first"), "token"])
    failures = await asyncio.gather(*(plugin.headers() for _ in range(20)), return_exceptions=True)
    assert [str(failure) for failure in failures] == ["log in first"] * 20
    assert plugin.runs == 1
    await asyncio.sleep(1.1)
    assert await plugin.headers() == {"Authorization": "Bearer token"}


@pytest.mark.realtime
async def test_a_missing_plugin_shows_its_hint() -> None:
    """A command that is not there is a configuration error with the install hint."""
    source = _source(ExecConfig(command="no-such-plugin", install_hint="brew install it", interactive_mode="Never"))
    with pytest.raises(ConfigError, match=r"'no-such-plugin' cannot be run: .*\nbrew install it"):
        await source.headers()


@pytest.mark.realtime
async def test_always_interactive_needs_a_terminal(plugin: PluginMaker) -> None:
    """A credential plugin with interactiveMode Always is refused without a terminal."""
    with pytest.raises(ConfigError, match="terminal"):
        await _source(plugin("say(token='t')", interactive_mode="Always")).headers()


@pytest.mark.realtime
async def test_cancelling_kills_the_plugin(plugin: PluginMaker, tmp_path: Path) -> None:
    """A caller that goes away takes its plugin along, and the next waiter runs it anew."""
    source = _source(plugin("time.sleep(30) if runs() == 1 else say(token='second')"))
    first = asyncio.create_task(source.headers())
    for _ in range(500):
        if (tmp_path / "runs").exists() and (tmp_path / "runs").read_text():
            break
        await asyncio.sleep(0.01)
    second = asyncio.create_task(source.headers())
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await second == {"Authorization": "Bearer second"}


_CHILD = "import subprocess; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"


@pytest.mark.realtime
async def test_a_child_that_keeps_the_pipes_open_delays_nothing(plugin: PluginMaker, tmp_path: Path) -> None:
    """A plugin's child with open pipes delays neither credential nor cancellation, and ends with the plugin."""
    pids = tmp_path / "pids"
    child = f"{_CHILD}open({str(pids)!r}, 'a').write(f'{{child.pid}}\\n')\n"
    loop = asyncio.get_running_loop()
    started = loop.time()
    assert await _source(plugin(f"{child}say(token='t')")).headers() == {"Authorization": "Bearer t"}
    hanging = asyncio.create_task(_source(plugin(f"{child}time.sleep(60)")).headers())
    while len(pids.read_text().split()) < 2:
        await asyncio.sleep(0.01)
    hanging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hanging
    assert loop.time() - started < 30
    for pid in map(int, pids.read_text().split()):
        while _runs(pid):
            await asyncio.sleep(0.01)


def _runs(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


@pytest.mark.realtime
async def test_a_plugin_that_prints_without_end_is_stopped(plugin: PluginMaker) -> None:
    """A plugin that prints more than a credential's few kilobytes is stopped."""
    with pytest.raises(ConfigError, match="printed more than"):
        await _source(plugin("while True: print('x' * 65536)")).headers()


def _printed(**changes: Any) -> bytes:
    return json.dumps({"kind": "ExecCredential", "apiVersion": V1, "status": {"token": "s3cret"}, **changes}).encode()


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        (b"", "printed an invalid ExecCredential"),
        (b"s3cret", "printed an invalid ExecCredential"),
        (b'{"kind": "ExecCredential", "status": {"token": 3}}', "printed an invalid ExecCredential"),
        (_printed(kind="Pod"), "instead of"),
        (_printed(apiVersion=V1 + "beta1"), "instead of"),
        (_printed(status=None), "printed no status"),
        (_printed(status={}), "neither a token nor"),
        (_printed(status={"token": "s3cret", "clientKeyData": "s3cret"}), "only one of"),
        (_printed(status={"token": "s3cret", "expirationTimestamp": "tomorrow"}), "printed an invalid ExecCredential"),
        (_printed(status={"token": "s3cret", "expirationTimestamp": "2026-01-01T00:00:00"}), "without a time zone"),
    ],
)
def test_unusable_output_is_described_and_not_quoted(printed: bytes, words: str) -> None:
    """Unusable plugin output is described without its text, which may have a secret."""
    with pytest.raises(ConfigError, match=words) as caught:
        parse_credential(printed, ExecConfig(command="x", install_hint="hint"))
    assert "s3cret" not in str(caught.value)
    assert str(caught.value).endswith("hint")


def test_cluster_info_needs_provide_cluster_info() -> None:
    """A plugin gets the cluster information only with ``provideClusterInfo``."""
    info = json.loads(exec_info(ExecConfig(command="x"), RestConfig(host="https://x"), interactive=True))
    assert info == {"kind": "ExecCredential", "apiVersion": V1, "spec": {"interactive": True}}
