"""The options of the storage on etcd."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from opsdk.apiserver.storage.history import HISTORY_BYTES
from opsdk.base.options import Options
from opsdk.errors import ConfigError

__all__ = ["EtcdOptions"]


class EtcdOptions(Options, frozen=True, kw_only=True):
    """Connection, timeouts and limits of the storage on etcd.

    Attributes:
        endpoints: client URLs of the members, ``http`` or ``https`` for all. Requests go to one of them until it fails.
        prefix: prefix of all keys. Servers with different kinds may share one; different applications may not.
        ca_file: PEM file of the CA that signed the members' certificates; None for the system's CAs.
        cert_file: PEM file of the client certificate; requires `key_file`.
        key_file: PEM file of the private key of `cert_file`.
        insecure: allow ``http`` to another machine; loopback needs no permission.
        user: user name for etcd's authentication; empty for none.
        password: the password of `user`; `repr` hides it.
        request_timeout: seconds for one request to one member. An unreachable member costs this time once, so it is
            longer than an election (1 s) and shorter than `retry_timeout`.
        retry_timeout: seconds for one storage call with all its attempts. kube-apiserver's clients time out after 34 s.
        keepalive_time: seconds without data before a connection is probed. etcd rejects less than 5 s.
        keepalive_timeout: seconds until an unanswered probe closes the connection.
        page_limit: keys in one request of a list; larger lists take several requests at one revision.
        history_limit: changes of each resource that are kept for watches that start in the past. Older watches read
            from etcd.
        history_bytes: JSON bytes of these changes for all resources. A watcher that needs a dropped change is closed.
        watch_limit: maximum number of pending changes of a slow watcher before it is closed.
        compaction_interval: seconds between compactions; 0 if another program compacts, e.g. etcd. The default is
            kube-apiserver's. Replicas coordinate through a key, so one of them compacts.
    """

    endpoints: tuple[str, ...] = ("http://127.0.0.1:2379",)
    prefix: str = "/registry/"
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    insecure: bool = False
    user: str = ""
    password: str = ""
    request_timeout: float = 4.0
    retry_timeout: float = 15.0
    keepalive_time: float = 10.0
    keepalive_timeout: float = 3.0
    page_limit: int = 1_000
    history_limit: int = 1_000
    history_bytes: int = HISTORY_BYTES
    watch_limit: int = 10_000
    compaction_interval: float = 300.0

    def __post_init__(self) -> None:
        if not self.endpoints:
            raise ConfigError("etcd needs at least one endpoint, such as http://127.0.0.1:2379")
        if len({target_of(endpoint)[1] for endpoint in self.endpoints}) > 1:
            raise ConfigError("the endpoints of etcd mix http and https: use one of them for all members")
        if not self.prefix.startswith("/") or not self.prefix.endswith("/"):
            raise ConfigError(f"the prefix {self.prefix!r} of etcd's keys must begin and end with a slash")
        if (self.cert_file is None) != (self.key_file is None):
            raise ConfigError("a client certificate for etcd needs both cert_file and key_file")
        if not self.secure and not self.insecure and not all(map(_on_loopback, self.endpoints)):
            raise ConfigError(
                "http:// sends all Secrets and the password to etcd in clear text: use https://, or set insecure=True"
                " where the network is private"
            )
        if not self.secure and (self.ca_file or self.cert_file):
            raise ConfigError("certificates for etcd need endpoints with https://")

    @property
    def secure(self) -> bool:
        """Whether connections use TLS."""
        return target_of(self.endpoints[0])[1]

    def __repr__(self) -> str:
        user = f", user {self.user}" if self.user else ""
        return f"<EtcdOptions: {', '.join(self.endpoints)}, prefix {self.prefix}{user}>"


def _on_loopback(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def target_of(endpoint: str) -> tuple[str, bool]:
    """Return the host with port of an endpoint's URL, and whether it uses TLS. Raises `ConfigError`.

    >>> target_of("https://etcd-0.etcd:2379")
    ('etcd-0.etcd:2379', True)
    """
    try:
        url = urlsplit(endpoint)
        port = url.port
    except ValueError as error:
        raise ConfigError(f"{endpoint!r} is not a URL of an etcd member: {error}") from error
    if url.scheme not in ("http", "https") or not url.hostname or port is None or url.path.strip("/"):
        raise ConfigError(f"{endpoint!r} is not a URL of an etcd member: write http://HOST:PORT or https://HOST:PORT")
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    return f"{host}:{port}", url.scheme == "https"
