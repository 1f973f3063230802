"""Run a test suite against another cluster: real binaries (etcd, kube-apiserver) or an existing cluster.

The environment variables are those of Go's envtest. A test that uses a feature of the embedded server is skipped; the
reason names the feature.
"""

from __future__ import annotations

import asyncio
import enum
import os
import re
import socket
import tempfile
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from unittest import SkipTest

import msgspec
from msgspec.structs import replace

from envtest.external import kubectl
from envtest.external.processes import Process, ProcessOptions
from envtest.plane.install import CRD, Installer, read_objects
from envtest.plane.kubeconfig import user_kubeconfig
from envtest.plane.lifecycle import Startable
from envtest.plane.pki import CertificateAuthority, KeyPair
from opsdk.aio.clock import is_virtual
from opsdk.errors import ApiError, ConfigError, OpsdkError, api_error_from_status
from opsdk.rest.config import Impersonate, RestConfig
from opsdk.rest.request import RestRequest
from opsdk.rest.transport import Transport
from opsdk.structured_merge.value import JsonObject, JsonValue
from opsdk.testing.eventually import Eventually, consistently, eventually

T = TypeVar("T")
DEFAULT_ASSETS = "/usr/local/kubebuilder/bin"
_TRIES = 5
_NAMESPACE_SECONDS = 5.0
_ESTABLISH_SECONDS = 10.0
_POLL = 0.1
_EMBEDDED_ONLY = frozenset({
    "snapshot", "restore", "fork", "faults", "journal", "writes", "no_writes", "audit", "observed_rbac",
    "wait_for", "server", "plane", "serve",
})  # fmt: skip


class TargetKind(enum.Enum):
    """The kind of cluster that a test suite runs on."""

    EMBEDDED = "the embedded server"
    """The server in this process."""
    BINARIES = "real binaries"
    """etcd and kube-apiserver as child processes."""
    EXISTING = "an existing cluster"
    """The cluster of the current kubeconfig context."""


def target_kind(env: Mapping[str, str] = os.environ) -> TargetKind:
    """Return the kind of cluster that the environment variables select."""
    if env.get("USE_EXISTING_CLUSTER", "").lower() in ("true", "1"):
        return TargetKind.EXISTING
    variables = ("KUBEBUILDER_ASSETS", "TEST_ASSET_KUBE_APISERVER", "TEST_ASSET_ETCD")
    return TargetKind.BINARIES if any(env.get(name) for name in variables) else TargetKind.EMBEDDED


def asset(name: str, env: Mapping[str, str] = os.environ) -> Path:
    """Return the path of a binary: ``TEST_ASSET_<NAME>``, else a file in ``KUBEBUILDER_ASSETS``."""
    own = env.get(f"TEST_ASSET_{name.upper().replace('-', '_')}")
    return Path(own) if own else Path(env.get("KUBEBUILDER_ASSETS") or DEFAULT_ASSETS) / name


def process_options(env: Mapping[str, str] = os.environ) -> ProcessOptions:
    """Read timeouts (``20s``, ``1m30s``, or seconds) and output options from the variables of Go's envtest."""
    return ProcessOptions(
        start_timeout=_seconds(env, "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT"),
        stop_timeout=_seconds(env, "KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT"),
        attach_output=env.get("KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT", "").lower() in ("true", "1"),
    )


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _seconds(env: Mapping[str, str], name: str) -> float:
    text = env.get(name, "")
    if not text:
        return 20.0
    parts = re.findall(r"(?<![0-9.])([0-9]++(?:\.[0-9]++)?+)(ms|s|m|h)", text)
    if parts and "".join(a + b for a, b in parts) == text:
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        return float(text)
    raise ConfigError(f"{name}={text!r} is not a duration: write it like 20s or 1m30s")


@dataclass(frozen=True, slots=True)
class ExternalUser:
    """A user of an external cluster.

    Attributes:
        config: the client configuration of this user.
    """

    name: str
    config: RestConfig


class ClusterTarget(Startable):
    """A cluster outside this process: an async context manager with the methods that it shares with `Environment`.

    Attributes:
        kind: the kind of the cluster.
    """

    kind: TargetKind

    def __init__(self, *, crds: Sequence[JsonObject] = (), crd_paths: Sequence[Path | str] = ()) -> None:
        self._crds, self._crd_paths = crds, crd_paths
        self._stack = AsyncExitStack()
        self._config: RestConfig | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._config.host if self._config is not None else 'not started'}>"

    @property
    def config(self) -> RestConfig:
        """Client configuration as admin; available after `start`."""
        if self._config is None:
            raise ConfigError(f"{self.kind.value}: not started yet: enter the environment first")
        return self._config

    def __getattr__(self, name: str) -> NoReturn:
        if name in _EMBEDDED_ONLY:
            raise SkipTest(f"{name} needs the embedded server; this run is on {self.kind.value}")
        raise AttributeError(name)

    @abstractmethod
    async def _begin(self) -> RestConfig:
        """Start or find the cluster. Returns the client configuration of the admin."""

    async def start(self) -> None:
        """Start or find the cluster, and install definitions."""
        if is_virtual():
            raise ConfigError(f"{self.kind.value} does not follow virtual time: mark the test realtime")
        self._config = await self._begin()
        objects = [*self._crds, *read_objects(self._crd_paths, [CRD])]
        if objects:
            async with Transport(self.config) as transport:
                # Install the definitions and wait until each is served.
                api = RemoteApi(transport)
                installer = Installer(api.send)
                definitions = [
                    await installer.put({"apiVersion": "apiextensions.k8s.io/v1", "kind": CRD, **obj})
                    for obj in objects
                ]
                end = asyncio.get_running_loop().time() + _ESTABLISH_SECONDS
                for obj in definitions:
                    while not await _served(api, obj):
                        if asyncio.get_running_loop().time() >= end:
                            raise ConfigError(
                                f"{obj['metadata']['name']} was not served within {_ESTABLISH_SECONDS:g} s"
                            )
                        await asyncio.sleep(_POLL)

    @property
    def eventually(self) -> Eventually:
        return eventually

    async def consistently(
        self, probe: Callable[[], Awaitable[T] | T], check: Callable[[T], object] | None = None, *, during: float = 1.0
    ) -> None:
        await consistently(probe, check, during=during)

    async def kubectl(self, *args: str, stdin: str = "", check: bool = True) -> kubectl.Output:
        """Run kubectl as the admin."""
        return await kubectl.run(kubeconfig_of(self.config), args, stdin=stdin, check=check)

    async def aclose(self) -> None:
        """Stop processes that this object started; an existing cluster is left as it is. Idempotent."""
        await self._stack.aclose()


class ExistingCluster(ClusterTarget):
    """The cluster of the kubeconfig; nothing is started, and installed objects remain."""

    kind = TargetKind.EXISTING

    async def _begin(self) -> RestConfig:
        from opsdk.rest.load import load_config  # noqa: PLC0415 - only this target reads kubeconfig files

        return load_config()

    def add_user(self, name: str, *, groups: Sequence[str] = ()) -> ExternalUser:
        """Return another user by impersonation; an existing cluster cannot create users."""
        return ExternalUser(name, replace(self.config, impersonate=Impersonate(user=name, groups=tuple(groups))))


class RealBinaries(ClusterTarget):
    """etcd and kube-apiserver as child processes, with the flags that Go's envtest gives them."""

    kind = TargetKind.BINARIES

    def __init__(
        self,
        *,
        crds: Sequence[JsonObject] = (),
        crd_paths: Sequence[Path | str] = (),
        etcd: Path | None = None,
        apiserver: Path | None = None,
        options: ProcessOptions | None = None,
    ) -> None:
        super().__init__(crds=crds, crd_paths=crd_paths)
        self._binaries = (etcd or asset("etcd"), apiserver or asset("kube-apiserver"))
        self._options = options or process_options()
        self._authority: CertificateAuthority | None = None
        self.processes: list[Process] = []

    async def _begin(self) -> RestConfig:
        """Start the binaries. Raises `ConfigError` after several tries."""
        from envtest.plane.certificates import Authority  # noqa: PLC0415 - takes long to load

        for binary in self._binaries:
            if not binary.exists():
                raise ConfigError(
                    f"{binary} does not exist: set KUBEBUILDER_ASSETS, or TEST_ASSET_ETCD and TEST_ASSET_KUBE_APISERVER"
                )
        self._authority = Authority.load_or_create(None)
        failed: ConfigError | None = None
        for attempt in range(_TRIES):
            directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="envtest-real-")))
            try:
                return await self._try(directory)
            except ConfigError as error:
                # Another process may have taken the free port.
                failed = error
                await self._stop()
                if "was not healthy within" in str(error) or attempt == _TRIES - 1:
                    break
        raise ConfigError(f"the control plane did not start: {failed}") from failed

    async def _try(self, directory: Path) -> RestConfig:
        """Start etcd and kube-apiserver once, and wait until they serve."""
        authority = self._authority
        assert authority is not None
        self._stack.push_async_callback(self._stop)
        etcd_url = f"http://127.0.0.1:{_free_port()}"
        await self._run(
            etcd_command(self._binaries[0], directory / "etcd", etcd_url), directory, f"{etcd_url}", "/health"
        )
        port = _free_port()
        authority.serving("127.0.0.1").write(directory, "apiserver")
        (directory / "client-ca.crt").write_bytes(authority.pair.cert)
        path = directory / "sa-signer.key"
        from opsdk.apiserver.auth.jwt import SigningKey  # noqa: PLC0415 - takes long to load

        assert SigningKey(path).key_id
        assert path.exists()
        admin = authority.client("admin", ("system:masters",))
        config = RestConfig(
            host=f"https://127.0.0.1:{port}",
            ca_data=authority.pair.cert,
            client_cert_data=admin.cert,
            client_key_data=admin.key,
        )
        command = apiserver_command(self._binaries[1], directory, port, etcd_url)
        await self._run(command, directory, config, "/readyz")
        loop = asyncio.get_running_loop()
        end = loop.time() + _NAMESPACE_SECONDS
        while not await answers(config, "/api/v1/namespaces/default"):
            if loop.time() >= end:
                raise ConfigError("the namespace default did not exist in time")
            await asyncio.sleep(_POLL)
        return config

    async def _run(self, command: Sequence[str], directory: Path, where: RestConfig | str, path: str) -> None:
        config = RestConfig(host=where) if isinstance(where, str) else where

        async def healthy() -> bool:
            return await answers(config, path)

        process = Process(command, directory=directory, healthy=healthy, options=self._options)
        self.processes.append(process)
        await process.start()

    async def _stop(self) -> None:
        # In reverse order of their start.
        while self.processes:
            await self.processes.pop().stop()

    def add_user(self, name: str, *, groups: Sequence[str] = ()) -> ExternalUser:
        """Return a user with a client certificate."""
        config, authority = self.config, self._authority
        assert authority is not None
        pair = authority.client(name, tuple(groups))
        return ExternalUser(name, replace(config, client_cert_data=pair.cert, client_key_data=pair.key))


def target(kind: TargetKind, **options: Any) -> ClusterTarget:
    """Create the target of a kind."""
    return ExistingCluster(**options) if kind is TargetKind.EXISTING else RealBinaries(**options)


# ------------------------------------------------------------------ commands
def etcd_command(binary: Path, data: Path, url: str) -> list[str]:
    """Return the etcd command line for tests; data does not survive a crash."""
    return [
        str(binary),
        f"--data-dir={data}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        "--listen-peer-urls=http://127.0.0.1:0",
        "--unsafe-no-fsync=true",
    ]


def apiserver_command(binary: Path, directory: Path, port: int, etcd: str) -> list[str]:
    """Return the kube-apiserver command line, with RBAC and no controllers."""
    key = directory / "sa-signer.key"
    return [
        str(binary),
        f"--etcd-servers={etcd}",
        f"--cert-dir={directory}",
        f"--tls-cert-file={directory / 'apiserver.crt'}",
        f"--tls-private-key-file={directory / 'apiserver.key'}",
        f"--client-ca-file={directory / 'client-ca.crt'}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--allow-privileged=true",
        "--authorization-mode=RBAC",
        "--disable-admission-plugins=ServiceAccount",
        f"--service-account-issuer=https://127.0.0.1:{port}/",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
    ]


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


# ------------------------------------------------------------------ talking
class RemoteApi:
    """Sends requests with JSON bodies to a cluster."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def __repr__(self) -> str:
        return f"<RemoteApi of {self._transport!r}>"

    async def send(self, method: str, path: str, body: JsonObject | None = None) -> JsonObject:
        """Send one request. Returns the response body; raises `ApiError` for an error status."""
        raw = b"" if body is None else msgspec.json.encode(body)
        headers = {"content-type": "application/json"} if raw else {}
        answer = await self._transport.send(RestRequest(method, path, body=raw, headers=headers))
        decoded: JsonValue = msgspec.json.decode(answer.body)
        if answer.status >= 400:
            raise api_error_from_status(decoded, code=answer.status)
        result: JsonObject = decoded
        return result


async def answers(config: RestConfig, path: str) -> bool:
    """Whether a server responds to a GET request with status 200 within 2 s."""
    try:
        async with Transport(config) as transport:
            return (await transport.send(RestRequest("GET", path), timeout=2, retry=False)).status == 200
    except OpsdkError:
        return False


async def _served(api: RemoteApi, obj: JsonObject) -> bool:
    """Whether discovery lists the resource in every served version."""
    spec = obj["spec"]
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        try:
            listed = await api.send("GET", f"/apis/{spec['group']}/{version['name']}")
        except ApiError:
            return False
        if all(r["name"] != spec["names"]["plural"] for r in listed["resources"]):
            return False
    return True


def kubeconfig_of(config: RestConfig) -> str:
    """Return a kubeconfig for a configuration with certificates or a token."""
    ca = config.ca_data or (Path(config.ca_file).read_bytes() if config.ca_file else b"")
    cert = config.client_cert_data or (Path(config.client_cert_file).read_bytes() if config.client_cert_file else b"")
    key = config.client_key_data or (Path(config.client_key_file).read_bytes() if config.client_key_file else b"")
    pair = KeyPair(cert, key) if cert else None
    return user_kubeconfig(config.host, ca=ca, client=pair, token=config.token)
