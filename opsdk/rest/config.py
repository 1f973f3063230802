"""Configuration of the connection to one API server.

Upstream: k8s.io/client-go/rest/config.go (v1.36)
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from opsdk.base.limits import LIMITS, Limits
from opsdk.base.options import Options
from opsdk.base.version import VERSION
from opsdk.errors import ConfigError
from opsdk.structured_merge.value import JsonValue

_REDACTED = "--- REDACTED ---"
_HEADER_UNSAFE = re.compile(r"[^!#$&'*+\-.^_`|~0-9A-Za-z]")


class ExecConfig(Options, frozen=True, kw_only=True):
    """A credential plugin: a command that prints an ``ExecCredential``.

    Attributes:
        command: looked up in PATH, or relative to the kubeconfig's folder if it contains a slash.
        args: its arguments.
        env: added to this process's environment.
        api_version: ``client.authentication.k8s.io/v1`` or ``v1beta1``.
        provide_cluster_info: add the cluster (address, CA) to ``KUBERNETES_EXEC_INFO``.
        cluster_config: the cluster's extension for the plugin, passed with the cluster info.
        interactive_mode: ``Never``, ``IfAvailable`` or ``Always``.
        install_hint: shown when the command is not found.
    """

    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    api_version: str = "client.authentication.k8s.io/v1"
    provide_cluster_info: bool = False
    cluster_config: JsonValue = None
    interactive_mode: str = "IfAvailable"
    install_hint: str = ""

    def __repr__(self) -> str:
        # Arguments and environment may hold secrets.
        return f"ExecConfig(command={self.command!r}, api_version={self.api_version!r}, ...)"


class OidcConfig(Options, frozen=True, kw_only=True):
    """Tokens of an OpenID Connect provider, see `opsdk.rest.oidc`.

    Attributes:
        issuer_url: of the provider, with ``https://``.
        client_id: of the program for which the tokens are.
        client_secret: of it; empty for a public client.
        id_token: authenticates requests until it expires.
        refresh_token: gets a new ``id_token``.
        ca_data: PEM certificates to trust for the provider; takes precedence over `ca_file`. Neither: the system's.
        ca_file: the same in a file.
        kubeconfig: where renewed tokens are written; empty for nowhere.
        user: in that file.
    """

    issuer_url: str
    client_id: str
    client_secret: str = ""
    id_token: str = ""
    refresh_token: str = ""
    ca_data: bytes = b""
    ca_file: str = ""
    kubeconfig: str = ""
    user: str = ""

    def __repr__(self) -> str:
        return f"OidcConfig(issuer_url={self.issuer_url!r}, client_id={self.client_id!r}, ...)"


class Impersonate(Options, frozen=True, kw_only=True):
    """The user to impersonate. The server checks the permission (verb ``impersonate``)."""

    user: str = ""
    uid: str = ""
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)

    def headers(self) -> list[tuple[str, str]]:
        """Return the request headers. A header with several values is repeated."""
        pairs = [("Impersonate-User", self.user)] if self.user else []
        pairs += [("Impersonate-Uid", self.uid)] if self.uid else []
        pairs += [("Impersonate-Group", group) for group in self.groups]
        for key, values in self.extra.items():
            # Escaped as in k8s.io/client-go/transport/round_trippers.go (headerKeyEscape).
            name = _HEADER_UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), key)
            pairs += [(f"Impersonate-Extra-{name}", value) for value in values]
        return pairs


@lru_cache(maxsize=1)
def default_user_agent() -> str:
    """Return ``<program>/opsdk opsdk/<version> (<os>/<arch>)``.

    The program comes first because the server uses the text before the first slash as the default field manager.
    """
    path = Path(sys.argv[0] if sys.argv else "")
    name = path.parent.name if path.stem == "__main__" else path.stem
    program = re.sub(r"[^A-Za-z0-9._-]", "-", name) or "python"
    # Not `platform`, which takes 3 ms to import.
    system = "windows" if sys.platform == "win32" else sys.platform
    machine = os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE", "unknown")
    where = f"{system}/{machine.lower()}"
    return f"{program}/opsdk opsdk/{VERSION} ({where})"


class RestConfig(Options, frozen=True, kw_only=True):
    """Address, TLS and credentials of one API server. Empty fields are not set. `repr` hides secrets.

    Attributes:
        host: ``https://10.0.0.1:6443``, with an optional base path. Without a scheme: https if TLS is configured.
        ca_data: PEM certificates to trust; takes precedence over `ca_file`. Neither: the system's.
        ca_file: read again when it changes.
        client_cert_data: PEM; takes precedence over the file, like the key.
        client_cert_file: read again when it changes.
        client_key_data: PEM.
        client_key_file: read again when it changes.
        token: a bearer token; with `token_file`, used until the file is read.
        token_file: read again each minute, and after a 401.
        username: for basic authentication.
        password: for basic authentication.
        exec: a credential plugin.
        oidc: tokens of an OpenID Connect provider.
        insecure_skip_tls_verify: accept any server certificate.
        tls_server_name: the server name to verify and send instead of the host.
        proxy_url: ``http://``, ``https://``, or ``socks5://``, which needs the extra ``socks``; empty uses HTTPS_PROXY,
            HTTP_PROXY and NO_PROXY.
        impersonate: the user to impersonate.
        user_agent: see `default_user_agent`.
        qps: requests per second; None for no limit, because the server's priority and fairness limits better.
        burst: requests that may start at once when `qps` is set.
        timeout: seconds for each call that sets no timeout, retries included; None waits without limit. Watches are
            exempt. A server ends its own calls after 60 s (``--request-timeout``).
        source: where the configuration comes from, for messages.
        namespace: the namespace of the context, else ``default``.
        namespace_source: where `namespace` comes from, for messages.
        disable_compression: do not request gzip.
        limits: the largest responses: ``object_bytes``, ``list_bytes`` and ``error_bytes`` count after decompression.
        app: an ASGI application to call in this process instead of opening sockets.

    Raises:
        ConfigError: the fields contradict each other.
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
    oidc: OidcConfig | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    impersonate: Impersonate = msgspec.field(default_factory=Impersonate)
    user_agent: str = msgspec.field(default_factory=default_user_agent)
    qps: float | None = None
    burst: int = 10
    timeout: float | None = 120.0
    source: str = "the program"
    namespace: str = "default"
    namespace_source: str = "the default"
    disable_compression: bool = False
    limits: Limits = LIMITS
    app: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        problem = _contradiction(self)
        if problem:
            raise ConfigError(f"configuration for {_without_password(self.host)}: {problem}")

    def __repr__(self) -> str:
        values = ((name, getattr(self, name)) for name in self.__struct_fields__)
        parts = (f"{name}={_redacted(name, value)}" for name, value in values if value and value is not LIMITS)
        return f"RestConfig({', '.join(parts)})"

    @property
    def endpoint(self) -> Endpoint:
        """The parsed host."""
        return parse_host(self.host, tls=self.wants_tls)

    @property
    def wants_tls(self) -> bool:
        """Whether a field is set that only makes sense with TLS."""
        has_ca = bool(self.ca_data or self.ca_file)
        has_cert = bool(self.client_cert_data or self.client_cert_file)
        return has_ca or has_cert or self.insecure_skip_tls_verify


def _contradiction(config: RestConfig) -> str:
    """Return the contradiction between fields, or an empty string."""
    has_cert = bool(config.client_cert_data or config.client_cert_file)
    has_key = bool(config.client_key_data or config.client_key_file)
    impersonate = config.impersonate
    if config.username and (config.token or config.token_file):
        return "username/password and a bearer token are both set; keep one"
    if config.exec and config.username:
        return "username/password and an exec plugin are both set; keep one"
    if config.oidc and (config.username or config.exec):
        return f"OIDC and {'username/password' if config.username else 'an exec plugin'} are both set; keep one"
    if config.insecure_skip_tls_verify and (config.ca_data or config.ca_file):
        return "a CA is set, and insecure_skip_tls_verify disables verification; keep one"
    if has_cert != has_key:
        return f"a client {'certificate' if has_cert else 'key'} without its {'key' if has_cert else 'certificate'}"
    if (impersonate.uid or impersonate.groups or impersonate.extra) and not impersonate.user:
        return "impersonation of a uid, groups or extra needs a user"
    if config.qps is not None and (config.qps <= 0 or config.burst < 1):
        return "qps and burst must be positive; qps=None disables the limit"
    return ""


_SECRET_FIELDS = frozenset({"token", "password", "client_key_data"})


def _redacted(name: str, value: object) -> str:
    if name in _SECRET_FIELDS:
        return _REDACTED
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if name in {"proxy_url", "host"} and isinstance(value, str):
        return repr(_without_password(value))
    return repr(value)


def _without_password(url: str) -> str:
    """Return a URL without credentials, for messages."""
    return re.sub(r"(?<=//)[^/@]*@", "***@", url)


class Endpoint(msgspec.Struct, frozen=True):
    """A parsed host. `base_path` has no trailing slash, `host` no brackets."""

    scheme: str
    host: str
    port: int
    base_path: str = ""

    @property
    def authority(self) -> str:
        """The Host header: brackets around IPv6, no default port."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        usual = {"http": 80, "https": 443}[self.scheme]
        return name if self.port == usual else f"{name}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.base_path}"


def parse_host(host: str, *, tls: bool) -> Endpoint:
    """Parse `host`. If it has no scheme, `tls` selects http or https. Raises `ConfigError`.

    >>> str(parse_host("10.0.0.1:6443", tls=True))
    'https://10.0.0.1:6443'
    """
    redacted = _without_password(host)
    text = host if "://" in host else f"{'https' if tls else 'http'}://{host}"
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError as error:
        raise ConfigError(f"host {redacted!r} is not a URL: {error}") from error
    if url.scheme not in {"http", "https"} or not url.hostname:
        raise ConfigError(f"host {redacted!r} must be http(s)://name[:port][/path]")
    if url.query or url.fragment or url.username:
        raise ConfigError(f"host {redacted!r} must not contain a query, a fragment or a user")
    return Endpoint(url.scheme, url.hostname, port or {"http": 80, "https": 443}[url.scheme], url.path.rstrip("/"))
