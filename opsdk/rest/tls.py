"""TLS contexts from a `RestConfig`, rebuilt when the certificate files change.

Upstream: k8s.io/client-go/transport/tls_cache.go, cert_rotation.go (v1.36)
"""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from opsdk.aio.clock import loop_time, monotonic
from opsdk.errors import ConfigError
from opsdk.http.pem import certificates_of, without_comments
from opsdk.rest.config import RestConfig
from opsdk.rest.tls_resumption import TlsResumption

RELOAD_EVERY = 300.0
"""Seconds between checks of the files (CertCallbackRefreshDuration)."""


class ClientCert(msgspec.Struct, frozen=True):
    """A PEM certificate chain and its key."""

    cert: bytes
    key: bytes

    def __repr__(self) -> str:
        return f"<ClientCert of {len(self.cert)} bytes>"


class _Material(msgspec.Struct, frozen=True):
    ca: bytes
    client: ClientCert | None


class TlsContexts:
    """The TLS context for new connections. `on_change` is called when the certificates have changed.

    Attributes:
        resumption: the session that new connections resume.
    """

    def __init__(self, config: RestConfig, *, on_change: Callable[[], None]) -> None:
        self._config = config
        self._on_change = on_change
        self._plugin_cert: ClientCert | None = None
        self._material: _Material | None = None
        self._context: ssl.SSLContext | None = None
        self._clock: Callable[[], float] = monotonic
        self._checked_at = 0.0
        self.resumption = TlsResumption()

    @property
    def server_name(self) -> str:
        """The name to verify; empty for the host."""
        return self._config.tls_server_name

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection. Raises `ConfigError` if the files are unreadable at first use."""
        self.refresh()
        assert self._context is not None
        return self._context

    def use(self, issued: ClientCert | None) -> None:
        """Use the client certificate of a credential plugin, and check the files as `refresh` does."""
        is_fresh = self._context is not None and self._clock() - self._checked_at < RELOAD_EVERY
        if is_fresh and issued is self._plugin_cert:
            return
        changes = issued != self._plugin_cert
        if changes:
            self._plugin_cert = issued
        self.refresh(force=changes)

    def refresh(self, *, force: bool = False) -> bool:
        """Check the files if `RELOAD_EVERY` seconds have passed, or with `force`. Returns whether they changed.

        Unreadable files raise only at the first check; later the old certificates stay in use.
        """
        # Each request reads the clock: it is bound where the files are read.
        now = monotonic()
        if self._context is not None and not force and now - self._checked_at < RELOAD_EVERY:
            return False
        self._clock = loop_time()
        first, self._checked_at = self._context is None, now
        try:
            config, client = self._config, self._plugin_cert
            ca = config.ca_data or _read_file(config.ca_file, "certificate authority")
            if client is None:
                cert = config.client_cert_data or _read_file(config.client_cert_file, "client certificate")
                key = config.client_key_data or _read_file(config.client_key_file, "client key")
                client = ClientCert(cert, key) if cert else None
            material = _Material(ca, client)
            if material == self._material:
                return False
            self._context = _build_context(self._config, material)
            self.resumption.forget()
        except ConfigError:
            if first:
                raise
            return False
        self._material = material
        if not first:
            self._on_change()
        return not first


def _read_file(path: str, what: str) -> bytes:
    if not path:
        return b""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{what} {path}: cannot be read: {error.strerror}") from error


def _build_context(config: RestConfig, material: _Material) -> ssl.SSLContext:
    """Return a client's TLS context. Raises `ConfigError` for certificates that do not load."""
    # Not create_default_context: its strict flag (Python 3.13) rejects cluster CAs that other clients accept.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if config.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif material.ca or config.ca_file:
        # An empty CA file must trust no certificate, not the system's.
        name = config.ca_file or "ca_data"
        try:
            context.load_verify_locations(cadata=certificates_of(material.ca))
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(f"certificate authority {name}: not PEM certificates") from error
    else:
        context.load_default_certs()
    if material.client is not None:
        name = config.client_cert_file or "client certificate data"
        # OpenSSL accepts key and certificate in one file.
        with _as_file(without_comments(material.client.key) + without_comments(material.client.cert)) as path:
            try:
                # An empty password, so that OpenSSL never prompts on the terminal.
                context.load_cert_chain(path, password=lambda: "")
            except (ssl.SSLError, ValueError, OSError) as error:
                text = f"client certificate {name}: certificate and key are not a matching PEM pair"
                raise ConfigError(text) from error
    return context


@contextlib.contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """Yield a file name for `data`: in memory on Linux, because pods may have no writable disk; else a private file."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("opsdk", os.MFD_CLOEXEC)
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    import tempfile  # noqa: PLC0415 - start-up time: brings all compressors

    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        yield file.name
