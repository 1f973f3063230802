"""The programs for Go's envtest as real processes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import ssl
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from etcd_cluster import free_port

from envtest.external import clusters
from envtest.external.clusters import RealBinaries, apiserver_command, etcd_command
from envtest.external.processes import Process, ProcessOptions
from envtest.fake_binaries import apiserver, etcd
from envtest.fake_binaries.assets import write_assets
from envtest.fake_binaries.flags import parse
from envtest.plane.certificates import Authority
from opsdk.errors import ConfigError
from opsdk.http.server.application import asgi
from opsdk.http.server.request import HttpRequest as WebRequest
from opsdk.http.server.response import HttpResponse
from opsdk.http.server.server import WebServer
from opsdk.rest.config import RestConfig
from opsdk.rest.request import RestRequest
from opsdk.rest.transport import Transport

pytestmark = [pytest.mark.realtime, pytest.mark.e2e]
QUICK = ProcessOptions(start_timeout=60, stop_timeout=20)


@pytest.fixture(scope="module")
def assets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that KUBEBUILDER_ASSETS would name."""
    created = tmp_path_factory.mktemp("assets with a space")
    write_assets(created)
    return created


class World:
    """A directory as Go's envtest fills one, and processes that work in it."""

    def __init__(self, assets: Path, directory: Path) -> None:
        self.directory = directory
        self.ca, self.proxies = Authority.load_or_create(None), Authority.load_or_create(None, "proxies")
        self.ca.serving("127.0.0.1").write(directory, "apiserver")
        (directory / "client-ca.crt").write_bytes(self.ca.pair.cert)
        (directory / "proxy-ca.crt").write_bytes(self.proxies.pair.cert)
        key = ec.generate_private_key(ec.SECP256R1())
        form = serialization.PrivateFormat.TraditionalOpenSSL
        raw = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
        (directory / "sa-signer.key").write_bytes(raw)
        self.etcd_url = f"http://127.0.0.1:{free_port()}"
        self.port = free_port()
        self.assets = assets

    def config(self, user: str = "admin", groups: Sequence[str] = ("system:masters",)) -> RestConfig:
        """For a user with a client certificate."""
        pair = self.ca.client(user, tuple(groups))
        host = f"https://127.0.0.1:{self.port}"
        return RestConfig(host=host, ca_data=self.ca.pair.cert, client_cert_data=pair.cert, client_key_data=pair.key)

    def etcd(self) -> Process:
        """Not started yet."""
        command = etcd_command(self.assets / "etcd", self.directory / "etcd", self.etcd_url)
        return self._process(command, RestConfig(host=self.etcd_url), "/health")

    def apiserver(self, *more: str) -> Process:
        """Not started yet."""
        command = apiserver_command(self.assets / "kube-apiserver", self.directory, self.port, self.etcd_url)
        return self._process([*command, *more], self.config(), "/readyz")

    def _process(self, command: Sequence[str], config: RestConfig, path: str) -> Process:
        async def healthy() -> bool:
            return await clusters.answers(config, path)

        return Process(command, directory=self.directory, healthy=healthy, options=QUICK)


@asynccontextmanager
async def running(*processes: Process) -> AsyncIterator[None]:
    """Started in this order, stopped in the other."""
    started = []
    try:
        for process in processes:
            started.append(process)
            await process.start()
        yield
    finally:
        for process in reversed(started):
            await process.stop()


async def send(
    config: RestConfig, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    """Status and answer of one request."""
    raw = b"" if body is None else json.dumps(body).encode()
    sent = {**({"content-type": "application/json"} if raw else {}), **(headers or {})}
    async with Transport(config) as transport:
        answer = await transport.send(RestRequest(method, path, body=raw, headers=sent), timeout=60, retry=False)
    return answer.status, json.loads(answer.body)


ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


async def test_they_are_what_envtest_expects(assets: Path) -> None:
    """The target for real binaries starts the stand-ins as it starts the real programs."""
    binaries = RealBinaries(etcd=assets / "etcd", apiserver=assets / "kube-apiserver", options=QUICK)
    async with binaries as env:
        status, response = await send(env.config, "GET", "/api/v1/namespaces/default")
        assert (status, response["metadata"]["name"]) == (200, "default")
        alice = env.add_user("alice", groups=["devs"])
        assert (await send(alice.config, "GET", "/api/v1/nodes"))[0] == 403
        pids = [process.pid for process in binaries.processes]
        assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.slow
async def test_objects_outlive_the_api_server(assets: Path, tmp_path: Path) -> None:
    """Objects and revisions survive a killed API server, because the fake etcd has them."""
    world = World(assets, tmp_path)
    async with running(world.etcd()):
        first = world.apiserver()
        await first.start()
        status, response = await send(world.config(), "POST", ACCOUNTS, {"metadata": {"name": "kept"}})
        assert status == 201
        os.kill(first.pid, signal.SIGKILL)
        await first.stop()
        async with running(world.apiserver()):
            status, result = await send(world.config(), "GET", f"{ACCOUNTS}/kept")
            assert (status, result["metadata"]["uid"]) == (200, response["metadata"]["uid"])
            _, later = await send(world.config(), "POST", ACCOUNTS, {"metadata": {"name": "later"}})
            assert int(later["metadata"]["resourceVersion"]) > int(response["metadata"]["resourceVersion"])


async def test_tokens_have_the_given_key_and_names(assets: Path, tmp_path: Path) -> None:
    """Tokens are signed with the elliptic key of Go's envtest, for its issuer and audiences."""
    world = World(assets, tmp_path)
    async with running(world.etcd(), world.apiserver("--api-audiences=me,you")):
        await send(world.config(), "POST", ACCOUNTS, {"metadata": {"name": "bot"}})
        _, response = await send(world.config(), "POST", f"{ACCOUNTS}/bot/token", {"spec": {"expirationSeconds": 600}})
        assert response["spec"]["audiences"] == ["me", "you"]
        plain = replace(world.config(), client_cert_data=b"", client_key_data=b"", token=response["status"]["token"])
        path, review = "/apis/authentication.k8s.io/v1/selfsubjectreviews", {"kind": "SelfSubjectReview"}
        _, result = await send(plain, "POST", path, {**review, "apiVersion": "authentication.k8s.io/v1"})
        assert result["status"]["userInfo"]["username"] == "system:serviceaccount:default:bot"
        _, keys = await send(world.config(), "GET", "/openid/v1/jwks")
        assert [key["alg"] for key in keys["keys"]] == ["ES256"]
        _, document = await send(world.config(), "GET", "/.well-known/openid-configuration")
        assert document["issuer"] == f"https://127.0.0.1:{world.port}/"
        assert document["id_token_signing_alg_values_supported"] == ["ES256"]


async def test_proxies_are_those_that_were_named(assets: Path, tmp_path: Path) -> None:
    """Front proxies need the given CA and name; extension servers read both from a ConfigMap."""
    world = World(assets, tmp_path)
    ca = f"--requestheader-client-ca-file={tmp_path / 'proxy-ca.crt'}"
    flags = [ca, "--requestheader-allowed-names=front"]
    async with running(world.etcd(), world.apiserver(*flags)):

        async def as_proxy(name: str) -> tuple[int, Any]:
            pair = world.proxies.client(name)
            config = replace(world.config(), client_cert_data=pair.cert, client_key_data=pair.key)
            path, review = "/apis/authentication.k8s.io/v1/selfsubjectreviews", {"kind": "SelfSubjectReview"}
            body = {**review, "apiVersion": "authentication.k8s.io/v1"}
            return await send(config, "POST", path, body, {"X-Remote-User": "zoe"})

        status, result = await as_proxy("front")
        assert (status, result["status"]["userInfo"]["username"]) == (201, "zoe")
        assert (await as_proxy("back"))[0] == 401
        path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
        _, response = await send(world.config(), "GET", path)
        assert response["data"]["requestheader-allowed-names"] == '["front"]'
        assert response["data"]["client-ca-file"].encode() == world.ca.pair.cert


async def test_default_flags_allow_every_authenticated_user(assets: Path, tmp_path: Path) -> None:
    """Without authorization modes, every authenticated user may do everything, and the certificate is self-signed."""
    world = World(assets, tmp_path)
    (tmp_path / "tokens").write_text("secret,zoe,1\n")
    command = [
        str(assets / "kube-apiserver"), f"--etcd-servers={world.etcd_url}", f"--cert-dir={tmp_path / 'own'}",
        "--bind-address", "127.0.0.1", "--secure-port", str(world.port), "--token-auth-file", str(tmp_path / "tokens"),
        "--enable-priority-and-fairness", "--feature-gates=Anything=true",
    ]  # fmt: skip
    plain = RestConfig(host=f"https://127.0.0.1:{world.port}", token="secret", insecure_skip_tls_verify=True)

    async def healthy() -> bool:
        return await clusters.answers(plain, "/readyz")

    server = Process(command, directory=tmp_path, healthy=healthy, options=QUICK)
    async with running(world.etcd(), server):
        assert (await send(plain, "GET", "/api/v1/nodes"))[0] == 200
        assert (await send(replace(plain, token=""), "GET", "/api/v1/nodes"))[0] == 401
        loop = asyncio.get_running_loop()
        context = ssl.create_default_context(cafile=str(tmp_path / "own" / "apiserver.crt"))
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        transport, _ = await loop.create_connection(asyncio.Protocol, "127.0.0.1", world.port, ssl=context)
        transport.close()
        message = server.last_words()
        assert "--feature-gates has no effect" in message
        assert f"serves https://127.0.0.1:{world.port}" in message


# ------------------------------------------------------------------ what is wrong
@pytest.mark.parametrize(
    ("program", "words", "wanted"),
    [
        ("kube-apiserver", [], "--etcd-servers must be specified"),
        ("kube-apiserver", ["--etcd-servers=http://127.0.0.1:1"], "http://127.0.0.1:1 does not answer"),
        ("kube-apiserver", ["--authorization-mode=RBAC,Webhook"], "there is no Webhook here"),
        ("kube-apiserver", ["start"], "unknown command 'start'"),
        ("etcd", ["--listen-client-urls=unix:///tmp/x"], "has to be an http URL with a host"),
        ("etcd", ["--data-dir=/dev/null/x"], "--data-dir: "),
    ],
)
def test_errors_are_reported(program: str, words: list[str], wanted: str, assets: Path, tmp_path: Path) -> None:
    """An error is one line, with exit status 1."""
    command = [str(assets / program), *words]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)
    assert completed.returncode == 1
    assert wanted in completed.stderr
    assert "Traceback" not in completed.stderr


async def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    """The program names an unusable file before it serves anything."""
    (tmp_path / "rubbish").write_text("rubbish")
    for flag, expected in (
        (f"--client-ca-file={tmp_path / 'rubbish'}", "cannot read certificates from"),
        (f"--tls-cert-file={tmp_path / 'rubbish'}", "are given both or not at all"),
        ("--cert-dir=/dev/null/x", "cannot write certificates"),
        (f"--proxy-client-cert-file={tmp_path / 'a'} --proxy-client-key-file={tmp_path / 'b'}", "No such file"),
    ):
        with pytest.raises(ConfigError, match=expected):
            apiserver.pki_of(parse([f"--cert-dir={tmp_path}", *flag.split()], switches=()))


async def test_a_real_etcd_is_refused() -> None:
    """A real etcd is rejected, because the stand-in's objects would not be found in it."""

    async def elsewhere(request: WebRequest) -> HttpResponse:
        return HttpResponse(404, [], request.path.encode())

    async with WebServer(asgi(elsewhere)) as web:
        with pytest.raises(ConfigError, match="use the etcd in the folder of this program"):
            await apiserver._data_directory(parse([f"--etcd-servers={web.url}"], switches=()))


def test_version_flags_print_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    """The flag ``--version`` prints the version in upstream's form."""
    assert apiserver.PROGRAM.main(["--version"]) == 0
    assert etcd.PROGRAM.main(["--version"]) == 0
    output = capsys.readouterr().out
    assert output.startswith("Kubernetes v1.36.")
    assert "etcd Version: 3." in output


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_the_help_names_the_flags_at_the_start_of_a_line(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    """``--help`` lists flags at the start of lines, where Go's envtest looks for them."""
    flags = {
        apiserver.PROGRAM: ["etcd-servers", "secure-port", "cert-dir", "allow-privileged", "authorization-mode"],
        etcd.PROGRAM: ["unsafe-no-fsync", "data-dir", "listen-peer-urls", "listen-client-urls"],
    }
    for program, names in flags.items():
        assert program.main([word]) == 0
        text = capsys.readouterr().out
        for name in names:
            assert re.search(rf"(?m)^\s*--{name}\b", text), name
        assert "insecure-port" not in text


def test_assets_are_written_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assets overwrite older ones, and the printed line can be evaluated by a shell."""
    from envtest.__main__ import main

    directory = tmp_path / "it's here"
    for _ in range(2):
        assert main(["assets", str(directory)]) == 0
        line = capsys.readouterr().out
        script = f'{line}\n"$KUBEBUILDER_ASSETS/kube-apiserver" --version'
        completed = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60, check=True)
        assert completed.stdout.startswith("Kubernetes v1.36.")
    (tmp_path / "file").write_text("")
    assert main(["assets", str(tmp_path / "file" / "x")]) == 1
    assert "cannot write to" in capsys.readouterr().err
