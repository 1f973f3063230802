"""Tokens of an OpenID Connect provider: used until they expire, renewed with the refresh token, and saved.

Upstream: k8s.io/client-go/plugin/pkg/client/auth/oidc/oidc.go (v1.36)
Deviates: the client's secret is sent in the body of the request only, not in a header first.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import msgspec

from opsdk.aio.clock import monotonic, utc_now
from opsdk.errors import ConfigError, OpsdkError, UnauthorizedError
from opsdk.rest.config import OidcConfig, RestConfig
from opsdk.rest.request import RestRequest
from opsdk.rest.response import RestResponse
from opsdk.rest.tls import ClientCert
from opsdk.structured_merge.value import JSON_ERRORS
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

_LEEWAY: Final = 10.0
"""Seconds before its end in which a token counts as expired: the request takes time (expiryDelta)."""
_TIMEOUT: Final = 30.0
"""Seconds for one request to the provider."""
_FAILURE_SECONDS: Final = 1.0
"""Seconds for which a failure is that of all callers: they would else ask the provider one after another."""


Fetch = Callable[[RestConfig, RestRequest], Awaitable[RestResponse]]
"""Sends one request to a server of its own. No recording has it: its body has tokens."""


class _Claims(msgspec.Struct):
    exp: float


class _Metadata(msgspec.Struct):
    token_endpoint: str = ""


class RenewedTokens(msgspec.Struct, frozen=True):
    """The response of a token endpoint. Without a new refresh token, the old one stays."""

    id_token: str = ""
    refresh_token: str = ""

    def __repr__(self) -> str:
        return "<RenewedTokens>"  # without secrets, for logs


# ------------------------------------------------------------------ pure
def read_expiry(token: str) -> float:
    """Return when a token expires, in seconds since 1970. Its signature is the server's to verify.

    >>> read_expiry("e30.eyJleHAiOjE3MDB9.")
    1700.0

    Raises:
        ConfigError: it is no JSON Web Token.
    """
    parts = token.split(".")
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(payload, type=_Claims).exp
    except (IndexError, binascii.Error, *JSON_ERRORS):
        # Without the error, which may quote the token.
        raise ConfigError("the id-token of the kubeconfig is no JSON Web Token: log in again") from None


def token_request(oidc: OidcConfig, refresh_token: str) -> bytes:
    """Return the body of the request for new tokens (RFC 6749, section 6)."""
    values = {"grant_type": "refresh_token", "refresh_token": refresh_token, "client_id": oidc.client_id}
    return urlencode(values | ({"client_secret": oidc.client_secret} if oidc.client_secret else {})).encode()


def parse_tokens(status: int, body: bytes, issuer: str) -> RenewedTokens:
    """Return the tokens of a response.

    Raises:
        UnauthorizedError: the provider refuses, or sends no ``id_token``. The message never quotes a token.
    """
    if not 200 <= status < 300:
        try:
            reason = str(msgspec.json.decode(body, type=dict[str, Any]).get("error", ""))[:100]
        except JSON_ERRORS:
            reason = ""
        raise UnauthorizedError(f"{issuer} does not renew the token: {status} {reason}".rstrip() + ": log in again")
    try:
        tokens = msgspec.json.decode(body, type=RenewedTokens)
    except JSON_ERRORS:
        raise UnauthorizedError(f"{issuer} answered the renewal of a token with something else than tokens") from None
    if not tokens.id_token:
        raise UnauthorizedError(
            f"{issuer} renews no id_token: log in with the scopes openid and offline_access, or use another provider"
        )
    return tokens


def with_tokens(document: Any, user: str, tokens: RenewedTokens) -> bool:
    """Set the tokens of a user in a kubeconfig. Returns False if it has no such user with a provider."""
    users = document.get("users") if isinstance(document, dict) else None
    for item in users if isinstance(users, list) else ():
        if isinstance(item, dict) and item.get("name") == user and isinstance(item.get("user"), dict):
            provider = item["user"].get("auth-provider")
            if isinstance(provider, dict) and isinstance(provider.get("config"), dict):
                provider["config"]["id-token"] = tokens.id_token
                if tokens.refresh_token:
                    provider["config"]["refresh-token"] = tokens.refresh_token
                return True
    return False


# ------------------------------------------------------------------ with I/O
class OidcCredentials:
    """Credentials from an OpenID Connect provider. It is asked once for all waiting callers, after the token's end.

    Args:
        oidc: the provider and the tokens.
        fetch: sends requests to the provider.

    Attributes:
        generation: the number of renewals.
    """

    client_cert: ClientCert | None = None

    def __init__(self, oidc: OidcConfig, fetch: Fetch) -> None:
        self._oidc, self._fetch = oidc, fetch
        self._refresh_token = oidc.refresh_token
        self._id_token = oidc.id_token
        self._expires = read_expiry(oidc.id_token) if oidc.id_token else 0.0
        self._lock = asyncio.Lock()
        self._failure: OpsdkError | None = None
        self._failed_at = 0.0
        self.generation = 0

    def current(self) -> dict[str, str] | None:
        if utc_now().timestamp() >= self._expires - _LEEWAY:
            return None
        return {"Authorization": f"Bearer {self._id_token}"}

    async def headers(self) -> dict[str, str]:
        """Renew the token if it has expired."""
        async with self._lock:
            headers = self.current()
            if headers is None:
                await self._renew()
                headers = {"Authorization": f"Bearer {self._id_token}"}
            return headers

    def invalidate(self, generation: int) -> bool:
        """Return False: as in client-go, a token is used until it expires."""
        return False

    async def _renew(self) -> None:
        if self._failure is not None and monotonic() - self._failed_at < _FAILURE_SECONDS:
            raise self._failure.with_traceback(None)
        try:
            tokens = await self._request()
            self._expires = read_expiry(tokens.id_token)
        except OpsdkError as error:
            self._failure, self._failed_at = error, monotonic()
            raise
        self._failure = None
        self._id_token, self._refresh_token = tokens.id_token, tokens.refresh_token or self._refresh_token
        self.generation += 1
        save_tokens(self._oidc, tokens)

    async def _request(self) -> RenewedTokens:
        oidc = self._oidc
        if not self._refresh_token:
            raise UnauthorizedError(
                f"the id-token of {oidc.issuer_url} has expired, and there is no refresh-token: log in again"
            )
        issuer = oidc.issuer_url.rstrip("/")
        request = RestRequest("GET", "/.well-known/openid-configuration", headers={"Accept": "application/json"})
        status, body = await self._send(issuer, request)
        try:
            endpoint = msgspec.json.decode(body, type=_Metadata).token_endpoint if status == 200 else ""
        except JSON_ERRORS:
            endpoint = ""
        url = urlsplit(endpoint)
        if url.scheme != "https" or not url.netloc:
            raise ConfigError(f"{issuer} names no token_endpoint with https://: is idp-issuer-url right?")
        headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        target = url.path + (f"?{url.query}" if url.query else "")
        request = RestRequest("POST", target or "/", headers=headers, body=token_request(oidc, self._refresh_token))
        return parse_tokens(*await self._send(f"https://{url.netloc}", request), issuer)

    async def _send(self, host: str, request: RestRequest) -> tuple[int, bytes]:
        """Send a request to the provider, with its certificates and without credentials."""
        config = RestConfig(host=host, ca_data=self._oidc.ca_data, ca_file=self._oidc.ca_file, timeout=_TIMEOUT)
        response = await self._fetch(config, request)
        return response.status, response.body

    def __repr__(self) -> str:
        return f"<OidcCredentials of {self._oidc.issuer_url}>"


def save_tokens(oidc: OidcConfig, tokens: RenewedTokens) -> None:
    """Write renewed tokens into the kubeconfig, as kubectl does. A failure is logged: this process has the tokens."""
    # Start-up time: PyYAML takes 35 ms.
    from opsdk.apimachinery.serializer.yaml_documents import read_documents  # noqa: PLC0415
    from opsdk.apimachinery.serializer.yaml_writer import write_yaml  # noqa: PLC0415 - as above

    if not oidc.kubeconfig:
        return
    path = Path(oidc.kubeconfig)
    try:
        documents = read_documents(path.read_bytes())
        if not documents or not with_tokens(documents[0], oidc.user, tokens):
            raise ConfigError(f"it has no user {oidc.user!r} with an auth-provider any more")
        _replace(path, write_yaml(documents[0], sort_keys=False).encode())
    except (OSError, OpsdkError) as error:
        log.warning("%s: renewed tokens are not saved, so the next program may have to log in: %s", path, error)


def _replace(path: Path, content: bytes) -> None:
    """Replace a file, also one behind a link, in one step. Only its owner can read the new one."""
    target = path.resolve()
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
