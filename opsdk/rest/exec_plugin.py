"""Credential plugins: commands that print an ``ExecCredential``.

Upstream: k8s.io/client-go/plugin/pkg/client/auth/exec/exec.go (v1.36)
"""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from datetime import datetime
from pathlib import Path

import msgspec

from opsdk.aio.clock import monotonic, utc_now
from opsdk.errors import ConfigError, UnauthorizedError
from opsdk.rest.config import ExecConfig, RestConfig
from opsdk.rest.plugin_process import MAX_OUTPUT, start_process
from opsdk.rest.tls import ClientCert
from opsdk.structured_merge.value import JSON_ERRORS, JsonObject

# Bytes of a plugin's standard error to quote in messages.
_MAX_STDERR = 2000
# Seconds for which a failure is remembered: callers that wait for one run would else run the plugin one after another.
_FAILURE_SECONDS = 1.0


class _ExecCredentialStatus(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _ExecCredentialStatus | None = None


class Credential(msgspec.Struct, frozen=True):
    """The credential that a plugin printed. `expires` is aware; None means never."""

    token: str = ""
    client_cert: ClientCert | None = None
    expires: datetime | None = None

    def __repr__(self) -> str:
        return f"<Credential until {self.expires}>"  # without secrets, for logs


# ------------------------------------------------------------------ pure
def exec_info(plugin: ExecConfig, config: RestConfig, *, interactive: bool) -> str:
    """Return the value of ``KUBERNETES_EXEC_INFO``."""
    spec: JsonObject = {"interactive": interactive}
    if plugin.provide_cluster_info:
        ca = config.ca_data
        if not ca and config.ca_file:
            try:
                ca = Path(config.ca_file).read_bytes()
            except OSError as error:
                raise ConfigError(
                    f"certificate authority {config.ca_file}: cannot be read: {error.strerror}"
                ) from error
        info = {
            "server": config.host,
            "tls-server-name": config.tls_server_name,
            "insecure-skip-tls-verify": config.insecure_skip_tls_verify,
            "certificate-authority-data": base64.b64encode(ca).decode(),
            "proxy-url": config.proxy_url,
            "disable-compression": config.disable_compression,
            "config": plugin.cluster_config,
        }
        spec["cluster"] = {key: value for key, value in info.items() if value}
    return msgspec.json.encode({"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}).decode()


def parse_credential(printed: bytes, plugin: ExecConfig) -> Credential:
    """Parse a plugin's output. Raises `ConfigError`; its message never quotes the output."""
    try:
        credential = msgspec.json.decode(printed, type=_ExecCredential)
    except JSON_ERRORS as error:
        # msgspec's message has paths and types, not values.
        raise _plugin_error(plugin, f"printed an invalid ExecCredential: {error}") from None
    if credential.kind != "ExecCredential" or credential.api_version != plugin.api_version:
        got = f"{credential.api_version!r} {credential.kind!r}"
        raise _plugin_error(plugin, f"printed {got} instead of {plugin.api_version!r} 'ExecCredential'")
    status = credential.status
    if status is None:
        raise _plugin_error(plugin, "printed no status")
    cert, key = status.client_certificate_data or "", status.client_key_data or ""
    if bool(cert) != bool(key):
        raise _plugin_error(plugin, "printed only one of clientCertificateData and clientKeyData")
    if not cert and not status.token:
        raise _plugin_error(plugin, "printed neither a token nor a client certificate")
    expires = status.expiration_timestamp
    if expires is not None and expires.tzinfo is None:
        raise _plugin_error(plugin, "printed an expirationTimestamp without a time zone")
    return Credential(
        token=status.token or "",
        client_cert=ClientCert(cert.encode(), key.encode()) if cert else None,
        expires=expires,
    )


def _plugin_error(plugin: ExecConfig, words: str) -> ConfigError:
    hint = f"\n{plugin.install_hint}" if plugin.install_hint else ""
    return ConfigError(f"credential plugin {plugin.command!r} {words}{hint}")


# ------------------------------------------------------------------ running
class ExecCredentials:
    """Credentials from a plugin. It runs once for all waiting callers, and again after expiry or a 401.

    A failure is that of all callers for `_FAILURE_SECONDS`.

    Attributes:
        generation: the number of successful runs.
    """

    def __init__(self, plugin: ExecConfig, config: RestConfig) -> None:
        self._plugin = plugin
        self._config = config
        self._credential: Credential | None = None
        self._lock = asyncio.Lock()
        self.generation = 0
        self._failure: ConfigError | UnauthorizedError | None = None
        self._failed_at = 0.0

    @property
    def client_cert(self) -> ClientCert | None:
        """The client certificate of the last credential."""
        return self._credential.client_cert if self._credential else None

    def current(self) -> dict[str, str] | None:
        credential = self._valid_credential()
        return None if credential is None else _headers_of(credential)

    async def headers(self) -> dict[str, str]:
        """Run the plugin if there is no valid credential. Cancellation kills it."""
        credential = self._valid_credential()
        if credential is None:
            async with self._lock:
                credential = self._valid_credential()
                if credential is None:
                    credential = await self._renew()
        return _headers_of(credential)

    async def _renew(self) -> Credential:
        """Run the plugin, unless it has failed a moment ago."""
        if self._failure is not None and monotonic() - self._failed_at < _FAILURE_SECONDS:
            raise self._failure.with_traceback(None)
        try:
            credential = parse_credential(await self._run(), self._plugin)
        except (ConfigError, UnauthorizedError) as error:
            self._failure, self._failed_at = error, monotonic()
            raise
        self._credential, self._failure = credential, None
        self.generation += 1
        return credential

    def _valid_credential(self) -> Credential | None:
        credential = self._credential
        if credential is not None and credential.expires is not None and utc_now() >= credential.expires:
            return None
        return credential

    def invalidate(self, generation: int) -> bool:
        """Drop the credential if it is the one that was refused: the next request runs the plugin again."""
        if generation == self.generation:
            self._credential = None
        return True

    async def _run(self) -> bytes:
        """Run the plugin and return its output. Raises `UnauthorizedError` for a failure."""
        plugin = self._plugin
        interactive = _is_interactive(plugin)
        env = {**os.environ, **plugin.env}
        env["KUBERNETES_EXEC_INFO"] = exec_info(plugin, self._config, interactive=interactive)
        try:
            process = await start_process([plugin.command, *plugin.args], env=env, interactive=interactive)
        except OSError as error:
            raise _plugin_error(plugin, f"cannot be run: {error.strerror or error}") from error
        try:
            await process.finished()
        finally:
            await process.aclose()
        if process.overflowed:
            raise _plugin_error(plugin, f"printed more than {MAX_OUTPUT} bytes")
        if process.returncode:
            stderr_text = bytes(process.stderr[-_MAX_STDERR:]).decode(errors="replace").strip()
            problem = _plugin_error(plugin, f"failed with exit code {process.returncode}: {stderr_text}")
            raise UnauthorizedError(str(problem))
        return bytes(process.stdout)

    def __repr__(self) -> str:
        return f"<ExecCredentials {self._plugin.command!r}: {'credential' if self._credential else 'no credential'}>"


def _is_interactive(plugin: ExecConfig) -> bool:
    """Whether the plugin may prompt on the terminal."""
    if plugin.interactive_mode == "Never":
        return False
    terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
    if plugin.interactive_mode == "Always" and not terminal:
        raise _plugin_error(plugin, "needs a terminal (interactiveMode: Always), but standard input is not a terminal")
    return terminal


def _headers_of(credential: Credential) -> dict[str, str]:
    return {"Authorization": f"Bearer {credential.token}"} if credential.token else {}
