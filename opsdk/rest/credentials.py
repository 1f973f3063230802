"""Where credentials come from, and when they are fetched again."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Protocol

from opsdk.aio.clock import LOOP_CLOCK, Clock
from opsdk.errors import ConfigError
from opsdk.rest.config import Config
from opsdk.rest.exec_plugin import ExecCredentials
from opsdk.rest.tls import ClientCert

TOKEN_FILE_PERIOD = 60.0
"""Seconds after which a token file is read again; the kubelet replaces tokens well before they expire."""


class Credentials(Protocol):
    """Proves who we are."""

    @property
    def client_cert(self) -> ClientCert | None:
        """A client certificate that came with the last credentials."""
        ...

    async def headers(self) -> dict[str, str]:
        """The headers for the next request; `ConfigError` or `UnauthorizedError` where there are none to be had."""
        ...

    def invalidate(self) -> bool:
        """The server answered 401: forget what can be fetched again; whether another try may succeed."""
        ...


class StaticCredentials:
    """Headers that never change: a token, basic authentication, or nothing."""

    client_cert: ClientCert | None = None

    def __init__(self, authorization: str = "") -> None:
        self._headers = {"Authorization": authorization} if authorization else {}

    async def headers(self) -> dict[str, str]:
        """See `Credentials`."""
        return self._headers

    def invalidate(self) -> bool:
        """Nothing can be fetched again."""
        return False

    def __repr__(self) -> str:
        return f"<StaticSource: {'set' if self._headers else 'anonymous'}>"


class TokenFileCredentials:
    """A bearer token in a file that somebody replaces now and then.

    Read again each `TOKEN_FILE_PERIOD` and after a 401. While the file cannot be read, the last token stays, and before
    the first reading `fallback`, if there is one.
    """

    client_cert: ClientCert | None = None

    def __init__(self, path: Path, *, fallback: str = "", clock: Clock = LOOP_CLOCK) -> None:
        self._path = path
        self._clock = clock
        self._token = fallback
        self._read_at: float | None = None

    async def headers(self) -> dict[str, str]:
        """See `Credentials`."""
        now = self._clock.now()
        if self._read_at is None or now - self._read_at >= TOKEN_FILE_PERIOD:
            self._read(now)
        return {"Authorization": f"Bearer {self._token}"}

    def _read(self, now: float) -> None:
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

    def invalidate(self) -> bool:
        """The file may hold a newer token."""
        self._read_at = None
        return True

    def __repr__(self) -> str:
        return f"<TokenFileSource {self._path}>"


def credentials_for(config: Config, *, clock: Clock = LOOP_CLOCK) -> Credentials:
    """The source that `config` asks for; a token or a password wins over a plugin."""
    if config.token_file:
        return TokenFileCredentials(Path(config.token_file), fallback=config.token, clock=clock)
    if config.token:
        return StaticCredentials(f"Bearer {config.token}")
    if config.username:
        pair = f"{config.username}:{config.password}"
        return StaticCredentials(f"Basic {b64encode(pair.encode()).decode()}")
    if config.exec is not None:
        return ExecCredentials(config.exec, config, clock=clock)
    return StaticCredentials()
