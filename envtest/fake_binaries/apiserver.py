"""A fake ``kube-apiserver`` binary: it accepts the real flags and starts this server.

Programs that start the real binary in tests, such as Go's envtest, can start this one instead.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from envtest.data.versions import VERSIONS, chosen_version
from envtest.environment import Environment
from envtest.fake_binaries.assets import named_version
from envtest.fake_binaries.etcd import KEEP
from envtest.fake_binaries.flags import Flags
from envtest.fake_binaries.program import FakeProgram
from envtest.plane.certificates import Authority
from envtest.plane.pki import PKI, read_authority
from opsdk.apiserver.auth.authentication import read_token_file
from opsdk.apiserver.auth.authorization import AllowAuthenticated
from opsdk.apiserver.auth.service_accounts import ISSUER, TokenSubject
from opsdk.apiserver.webhook_client.connection_pools import ClientCertificate
from opsdk.errors import ConfigError, OpsdkError
from opsdk.rest.config import RestConfig
from opsdk.rest.request import RestRequest
from opsdk.rest.transport import Transport

_SWITCHES = frozenset({
    "allow-privileged", "anonymous-auth", "profiling", "enable-aggregator-routing", "enable-bootstrap-token-auth",
    "enable-priority-and-fairness", "contention-profiling", "logtostderr", "alsologtostderr", "goaway-chance",
    "service-account-lookup", "service-account-extend-token-expiration", "watch-cache", "version", "help",
})  # fmt: skip
_HEEDED = frozenset({
    "advertise-address", "anonymous-auth", "api-audiences", "authorization-mode", "bind-address", "cert-dir",
    "client-ca-file", "disable-admission-plugins", "enable-admission-plugins", "etcd-servers", "proxy-client-cert-file",
    "proxy-client-key-file", "requestheader-allowed-names", "requestheader-client-ca-file", "secure-port",
    "service-account-issuer", "service-account-key-file", "service-account-signing-key-file",
    "service-cluster-ip-range", "tls-cert-file", "tls-private-key-file", "token-auth-file",
})  # fmt: skip
_SILENT = frozenset({"v", "vmodule", "logtostderr", "alsologtostderr", "allow-privileged", "etcd-prefix", "profiling"})
"""Flags that have no effect here, and no warning."""
_MODES = frozenset({"AlwaysAllow", "Node", "RBAC"})
_ACCOUNTS = "ServiceAccount"


async def serve(flags: Flags, stack: AsyncExitStack) -> str:
    """Start the server and return the message to print."""
    for name in flags.unknown_flags(_HEEDED | _SILENT):
        print(f"kube-apiserver (stand-in of envtest): --{name} has no effect", file=sys.stderr)
    modes = flags.listed("authorization-mode", ["AlwaysAllow"])
    for mode in sorted(set(modes) - _MODES):
        raise ConfigError(f"--authorization-mode: there is no {mode} here, only {', '.join(sorted(_MODES))}")
    everything = "AlwaysAllow" in modes
    tokens = flags.text("token-auth-file")
    on, off = (frozenset(flags.listed(f"{verb}-admission-plugins")) for verb in ("enable", "disable"))
    environment = Environment(
        data_dir=await _data_directory(flags),
        tokens=read_token_file(Path(tokens)) if tokens else {},
        authorizer=AllowAuthenticated() if everything else None,
        # As kube-apiserver: AlwaysAllow disables anonymous authentication.
        anonymous=flags.switch("anonymous-auth", default=True) and not everything,
        service_range=flags.text("service-cluster-ip-range", "10.0.0.0/24").partition(",")[0],
        # kube-apiserver enables ServiceAccount by default, unlike `Environment`.
        admission_plugins=on | {_ACCOUNTS} - off,
        disable_admission_plugins=off,
        pki=pki_of(flags),
        kubernetes=named_version(os.environ),
    )
    env = await stack.enter_async_context(environment)
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    web = await env.serve(host=bind_host(flags), port=flags.number("secure-port", 6443))
    return f"kube-apiserver (stand-in of envtest): serves {web.url}"


def bind_host(flags: Flags) -> str:
    """Return the address to bind; empty for all interfaces in both families, as for unspecified addresses upstream."""
    host = flags.text("bind-address")
    return "" if host in ("0.0.0.0", "::") else host  # noqa: S104 - the default of kube-apiserver


def pki_of(flags: Flags) -> PKI:
    """Return the certificates, keys and issuer names that the flags set."""
    signing = flags.text("service-account-signing-key-file")
    issuers = flags.each("service-account-issuer") or (ISSUER,)
    proxies = flags.text("requestheader-client-ca-file")
    clients = flags.text("client-ca-file")
    return PKI(
        serving=_serving(flags),
        clients=read_authority(Path(clients)) if clients else b"",
        proxies=read_authority(Path(proxies)) if proxies else b"",
        proxy_names=flags.listed("requestheader-allowed-names"),
        identity=_identity(flags),
        signing_key=Path(signing) if signing else None,
        token_keys=[Path(p) for p in flags.each("service-account-key-file")],
        names=TokenSubject(issuers=issuers, audiences=flags.listed("api-audiences") or issuers),
    )


def _serving(flags: Flags) -> tuple[Path, Path]:
    """Return the files of the serving certificate, which is created if none is given."""
    cert, key = flags.text("tls-cert-file"), flags.text("tls-private-key-file")
    if bool(cert) != bool(key):
        raise ConfigError("--tls-cert-file and --tls-private-key-file are given both or not at all")
    if cert:
        return Path(cert), Path(key)
    directory = Path(flags.text("cert-dir", "/var/run/kubernetes"))
    pair = directory / "apiserver.crt", directory / "apiserver.key"
    if not all(path.exists() for path in pair):
        # As kube-apiserver: create a self-signed certificate in ``--cert-dir``.
        try:
            directory.mkdir(parents=True, exist_ok=True)
            host = flags.text("advertise-address") or flags.text("bind-address", "127.0.0.1")
            Authority.load_or_create(None).serving(host).write(directory, "apiserver")
        except OSError as error:
            raise ConfigError(f"--cert-dir: cannot write certificates to {directory}: {error}") from error
    return pair


def _identity(flags: Flags) -> ClientCertificate | None:
    cert, key = flags.text("proxy-client-cert-file"), flags.text("proxy-client-key-file")
    if not cert or not key:
        return None
    try:
        return ClientCertificate(Path(cert).read_bytes(), Path(key).read_bytes())
    except OSError as error:
        raise ConfigError(f"--proxy-client-cert-file, --proxy-client-key-file: {error}") from error


async def _data_directory(flags: Flags) -> Path:
    """Return the data directory of the fake ``etcd``, so that a restarted kube-apiserver reads its objects again."""
    servers = flags.listed("etcd-servers")
    if not servers:
        raise ConfigError("--etcd-servers must be specified")
    try:
        async with Transport(RestConfig(host=servers[0])) as transport:
            answer = await transport.send(RestRequest("GET", KEEP), timeout=10, retry=False)
    except OpsdkError as error:
        raise ConfigError(f"--etcd-servers: {servers[0]} does not answer: {error}") from error
    if answer.status != 200:
        raise ConfigError(
            f"--etcd-servers: {servers[0]} is not envtest's etcd: use the etcd in the folder of this program,"
            " because it keeps its objects itself"
        )
    return Path(json.loads(answer.body)["path"]) / "member"


PROGRAM = FakeProgram(
    name="kube-apiserver",
    version=lambda: f"Kubernetes {VERSIONS[chosen_version(named_version(os.environ))].git_version}",
    switches=_SWITCHES,
    options=_HEEDED | _SILENT,
    serve=serve,
)

if __name__ == "__main__":
    sys.exit(PROGRAM.main())
