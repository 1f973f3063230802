"""Sources of credentials, and when they are refreshed.

Upstream: k8s.io/client-go/transport (v1.36)
"""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from opsdk.aio.clock import monotonic
from opsdk.errors import ConfigError
from opsdk.rest.config import RestConfig
from opsdk.rest.exec_plugin import ExecCredentials
from opsdk.rest.tls import ClientCert

if TYPE_CHECKING:  # start-up time: as below
    from opsdk.rest.oidc import Fetch

TOKEN_FILE_PERIOD = 60.0
"""Seconds between reads of a token file (token_source.go). The kubelet replaces tokens well before they expire."""


class Credentials(Protocol):
    """Authenticates requests."""

    @property
    def client_cert(self) -> ClientCert | None:
        """The client certificate of the last credentials, if any."""
        ...

    def current(self) -> dict[str, str] | None:
        """Return the headers for the next request; None if `headers` must be awaited. Raises `ConfigError`."""
        ...

    async def headers(self) -> dict[str, str]:
        """Return the headers for the next request. Raises `ConfigError` or `UnauthorizedError`."""
        ...

    @property
    def generation(self) -> int:
        """The number of the last credentials, which `headers` or `current` has returned."""
        ...

    def invalidate(self, generation: int) -> bool:
        """The server returned 401: drop the credentials of that number, not newer ones.

        Returns whether a retry may succeed.
        """
        ...


class StaticCredentials:
    """Fixed headers: a token, basic authentication, or none."""

    client_cert: ClientCert | None = None
    generation = 0

    def __init__(self, authorization: str = "") -> None:
        self._headers = {"Authorization": authorization} if authorization else {}

    def current(self) -> dict[str, str]:
        return self._headers

    async def headers(self) -> dict[str, str]:
        return self._headers

    def invalidate(self, generation: int) -> bool:
        """Return False: there is nothing to refresh."""
        return False

    def __repr__(self) -> str:
        return f"<StaticCredentials: {'set' if self._headers else 'anonymous'}>"


class TokenFileCredentials:
    """A bearer token in a file that is replaced from time to time.

    Read again after `TOKEN_FILE_PERIOD` seconds and after a 401. While the file is unreadable, the last token stays in
    use; before the first read, `fallback`.
    """

    client_cert: ClientCert | None = None
    generation = 0

    def __init__(self, path: Path, *, fallback: str = "") -> None:
        self._path = path
        self._token = fallback
        self._read_at: float | None = None

    async def headers(self) -> dict[str, str]:
        return self.current()

    def current(self) -> dict[str, str]:
        now = monotonic()
        if self._read_at is None or now - self._read_at >= TOKEN_FILE_PERIOD:
            try:
                token = self._path.read_text().strip()
            except (OSError, UnicodeDecodeError) as error:
                token, problem = "", str(error)
            else:
                problem = "it is empty"
            if token:
                self._token, self._read_at = token, now
            elif not self._token:
                raise ConfigError(f"token file {self._path}: {problem}")
        return {"Authorization": f"Bearer {self._token}"}

    def invalidate(self, generation: int) -> bool:
        """Return True: the file may hold a newer token."""
        self._read_at = None
        return True

    def __repr__(self) -> str:
        return f"<TokenFileCredentials {self._path}>"


def credentials_for(config: RestConfig, fetch: Fetch) -> Credentials:
    """Return the credentials of `config`. A token or a password takes precedence over a plugin.

    `fetch` sends the requests of an OpenID Connect provider.
    """
    if config.token_file:
        return TokenFileCredentials(Path(config.token_file), fallback=config.token)
    if config.token:
        return StaticCredentials(f"Bearer {config.token}")
    if config.username:
        pair = f"{config.username}:{config.password}"
        return StaticCredentials(f"Basic {b64encode(pair.encode()).decode()}")
    if config.exec is not None:
        return ExecCredentials(config.exec, config)
    if config.oidc is not None:
        from opsdk.rest.oidc import OidcCredentials  # noqa: PLC0415 - start-up time: few users have them

        return OidcCredentials(config.oidc, fetch)
    return StaticCredentials()
