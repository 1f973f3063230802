"""How to reach and convince one API server."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from opsdk.errors import ConfigError

_REDACTED = "--- REDACTED ---"


@dataclass(frozen=True, kw_only=True, slots=True)
class ExecConfig:
    """A credential plugin: a command that prints an ``ExecCredential``.

    Attributes:
        command: looked up in PATH, or relative to the kubeconfig's folder where it holds a slash.
        args: its arguments.
        env: added to this process's environment.
        api_version: ``client.authentication.k8s.io/v1`` or ``v1beta1``.
        provide_cluster_info: put the cluster (address, CA) into ``KUBERNETES_EXEC_INFO``.
        cluster_config: the cluster's extension for the plugin, passed with the cluster info.
        interactive_mode: ``Never``, ``IfAvailable`` or ``Always``.
        install_hint: shown when the command is not found.
    """

    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    api_version: str = "client.authentication.k8s.io/v1"
    provide_cluster_info: bool = False
    cluster_config: Any = None
    interactive_mode: str = "IfAvailable"
    install_hint: str = ""

    def __repr__(self) -> str:
        # Arguments and environment are where people put secrets.
        return f"ExecConfig(command={self.command!r}, api_version={self.api_version!r}, ...)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Impersonate:
    """Act as somebody else; the server asks whether we may."""

    user: str = ""
    uid: str = ""
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def headers(self) -> list[tuple[str, str]]:
        """The request headers; a repeated name is one more value."""
        pairs = [("Impersonate-User", self.user)] if self.user else []
        pairs += [("Impersonate-Uid", self.uid)] if self.uid else []
        pairs += [("Impersonate-Group", group) for group in self.groups]
        for key, values in self.extra.items():
            pairs += [(f"Impersonate-Extra-{_header_key(key)}", value) for value in values]
        return pairs


def _header_key(key: str) -> str:
    """Escape what a header name cannot hold, and ``%``, as the server unescapes it."""
    unsafe = re.compile(r"[^!#$&'*+\-.^_`|~0-9A-Za-z]")
    return unsafe.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), key)


@lru_cache(maxsize=1)
def default_user_agent() -> str:
    """The program's name, then ``opsdk/<version> (<os>/<arch>)``.

    The program comes first because the server derives the default field manager from the text before the slash.
    """
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - 30 ms, paid on first use

    try:
        ours = version("opsdk")
    except PackageNotFoundError:
        ours = "unknown"
    path = Path(sys.argv[0] if sys.argv else "")
    name = path.parent.name if path.stem == "__main__" else path.stem
    program = re.sub(r"[^A-Za-z0-9._-]", "-", name) or "python"
    where = f"{platform.system().lower()}/{platform.machine().lower()}"
    return f"{program}/opsdk opsdk/{ours} ({where})"


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Config:
    """One API server and who we are to it. Empty means not set; `repr` shows no secret.

    Attributes:
        host: ``https://10.0.0.1:6443``, perhaps with a base path; without a scheme, https if TLS is configured.
        ca_data: PEM certificates to trust; wins over `ca_file`. Neither: the system's.
        ca_file: read again when it changes.
        client_cert_data: PEM; wins over the file, like the key.
        client_cert_file: read again when it changes.
        client_key_data: PEM.
        client_key_file: read again when it changes.
        token: a bearer token; with `token_file`, what is used until the file was read.
        token_file: read again each minute, and after a 401.
        username: for basic authentication.
        password: for basic authentication.
        exec: a plugin that prints credentials.
        insecure_skip_tls_verify: accept any certificate.
        tls_server_name: the name to verify (and to send) instead of the host's.
        proxy_url: ``http://`` or ``https://``; empty asks HTTPS_PROXY, HTTP_PROXY and NO_PROXY.
        impersonate: act as somebody else.
        user_agent: see `default_user_agent`.
        qps: requests a second, None for no limit: the server's priority and fairness does it better.
        burst: requests that may go at once when `qps` is set.
        timeout: seconds for each call unless it says otherwise; None waits for ever. Watches are exempt.
        namespace: the default of the context, else ``default``.
        disable_compression: do not ask for gzip.
        app: an ASGI application that answers in this process; no socket is opened then.
    """

    host: str = "http://localhost"
    ca_data: bytes = b""
    ca_file: str = ""
    client_cert_data: bytes = b""
    client_cert_file: str = ""
    client_key_data: bytes = b""
    client_key_file: str = ""
    token: str = ""
    token_file: str = ""
    username: str = ""
    password: str = ""
    exec: ExecConfig | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    impersonate: Impersonate = field(default_factory=Impersonate)
    user_agent: str = field(default_factory=default_user_agent)
    qps: float | None = None
    burst: int = 10
    timeout: float | None = None
    namespace: str = "default"
    disable_compression: bool = False
    app: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        problem = _contradiction(self)
        if problem:
            raise ConfigError(f"configuration for {_without_password(self.host)}: {problem}")

    def __repr__(self) -> str:
        parts = (f"{f.name}={_shown(f.name, getattr(self, f.name))}" for f in fields(self) if getattr(self, f.name))
        return f"Config({', '.join(parts)})"

    @property
    def endpoint(self) -> Endpoint:
        """The parsed host."""
        return parse_host(self.host, tls=self.wants_tls)

    @property
    def wants_tls(self) -> bool:
        """Whether anything here makes sense only with TLS."""
        has_ca = bool(self.ca_data or self.ca_file)
        has_cert = bool(self.client_cert_data or self.client_cert_file)
        return has_ca or has_cert or self.insecure_skip_tls_verify


def _contradiction(config: Config) -> str:
    """What cannot be meant together, in words; empty if nothing."""
    has_cert = bool(config.client_cert_data or config.client_cert_file)
    has_key = bool(config.client_key_data or config.client_key_file)
    impersonate = config.impersonate
    if config.username and (config.token or config.token_file):
        return "username/password and a bearer token are both set; keep one"
    if config.exec and config.username:
        return "username/password and an exec plugin are both set; keep one"
    if config.insecure_skip_tls_verify and (config.ca_data or config.ca_file):
        return "a CA is given, and verification is switched off; keep one"
    if has_cert != has_key:
        return f"a client {'certificate' if has_cert else 'key'} without its {'key' if has_cert else 'certificate'}"
    if (impersonate.uid or impersonate.groups or impersonate.extra) and not impersonate.user:
        return "impersonation of a uid, groups or extra needs a user"
    if config.qps is not None and (config.qps <= 0 or config.burst < 1):
        return "qps and burst must be positive; qps=None switches the limit off"
    return ""


_SECRET = frozenset({"token", "password", "client_key_data"})


def _shown(name: str, value: Any) -> str:
    if name in _SECRET:
        return _REDACTED
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if name in {"proxy_url", "host"}:
        return repr(_without_password(value))
    return repr(value)


def _without_password(url: str) -> str:
    """A URL fit for messages."""
    return re.sub(r"(?<=//)[^/@]*@", "***@", url)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A parsed host; `base_path` has no slash at its end, `host` no brackets."""

    scheme: str
    host: str
    port: int
    base_path: str = ""

    @property
    def authority(self) -> str:
        """For the Host header: with brackets around IPv6, and without a port that goes without saying."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        usual = {"http": 80, "https": 443}[self.scheme]
        return name if self.port == usual else f"{name}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.base_path}"


def parse_host(host: str, *, tls: bool) -> Endpoint:
    """Read `host`; `tls` chooses the scheme where it names none.

    >>> str(parse_host("10.0.0.1:6443", tls=True))
    'https://10.0.0.1:6443'
    """
    redacted = _without_password(host)
    text = host if "://" in host else f"{'https' if tls else 'http'}://{host}"
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError as error:
        raise ConfigError(f"host {redacted!r} is no URL: {error}") from error
    if url.scheme not in {"http", "https"} or not url.hostname:
        raise ConfigError(f"host {redacted!r} must be http(s)://name[:port][/path]")
    if url.query or url.fragment or url.username:
        raise ConfigError(f"host {redacted!r} must not hold a query, a fragment or a user")
    return Endpoint(url.scheme, url.hostname, port or {"http": 80, "https": 443}[url.scheme], url.path.rstrip("/"))
