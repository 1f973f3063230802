"""The certificate of an HTTPS server: from files that may rotate, or self-signed.

Upstream: sigs.k8s.io/controller-runtime/pkg/certwatcher/certwatcher.go, pkg/metrics/server/server.go
Deviates: the files are checked when a client connects, at most every `RELOAD_EVERY` seconds, instead of in a task.
"""

from __future__ import annotations

import ssl
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path

from opsdk.aio.clock import monotonic, utc_now
from opsdk.base.extras import RequiredExtra
from opsdk.errors import ConfigError
from opsdk.http.pem import certificates_of
from opsdk.http.server.peer import without_resumption
from opsdk.telemetry.records import CertificateRead, TelemetryHook
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

RELOAD_EVERY = 10.0
"""Seconds between two checks of the files (certwatcher's interval)."""
# A process that runs for longer than this restarts at some point; controller-runtime's certificate lasts as long.
_SELF_SIGNED_DAYS = 365


class ServingCertificate:
    """The TLS context of a server whose certificate files are replaced while it runs.

    Open connections keep their certificate; new ones get the new one. A new pair that cannot be loaded is logged, and
    the old one stays in use. Files may be rewritten, renamed, or be symbolic links that a Secret volume swaps.

    Args:
        cert_file: PEM certificate chain.
        key_file: PEM private key.
        client_ca_file: PEM certificates of the CAs whose clients are served; None serves every client.
        hook: receives a record of each read.

    Attributes:
        failures: number of new pairs that could not be loaded.

    Raises:
        ConfigError: the files cannot be loaded now.
    """

    def __init__(
        self,
        cert_file: str | Path,
        key_file: str | Path,
        *,
        client_ca_file: str | Path | None = None,
        hook: TelemetryHook | None = None,
    ) -> None:
        self.failures = 0
        self._hook = hook or TelemetryHook()
        self._files = (Path(cert_file), Path(key_file))
        self._client_ca_file = None if client_ca_file is None else Path(client_ca_file)
        self._checked_at: float | None = None
        self._loaded_files = self._read_files()
        self._current_context = server_context(*self._files, client_ca_file=self._client_ca_file)
        # The context of the server itself never changes; each handshake is given the current one.
        self.context = server_context(*self._files, client_ca_file=self._client_ca_file)
        self.context.sni_callback = self._on_sni
        self._hook.record(CertificateRead(failed=False))

    def _on_sni(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        self.refresh()
        connection.context = self._current_context

    def refresh(self, *, force: bool = False) -> bool:
        """Load the files if they have changed since the last check. Returns whether a new pair is in use.

        Args:
            force: check now, also if the last check was a moment ago.
        """
        now = monotonic()
        if not force and self._checked_at is not None and now - self._checked_at < RELOAD_EVERY:
            return False
        self._checked_at = now
        try:
            content = self._read_files()
            if content == self._loaded_files:
                self._hook.record(CertificateRead(failed=False))
                return False
            self._current_context = server_context(*self._files, client_ca_file=self._client_ca_file)
        except ConfigError as error:
            self.failures += 1
            self._hook.record(CertificateRead(failed=True))
            log.error("the new certificate is not used, the old one stays: %s", error)
            return False
        self._loaded_files = content
        self._hook.record(CertificateRead(failed=False))
        log.info("the certificate %s has changed: new connections get it", self._files[0])
        return True

    def _read_files(self) -> tuple[bytes, bytes]:
        cert_file, key_file = self._files
        try:
            return cert_file.read_bytes(), key_file.read_bytes()
        except OSError as error:
            raise ConfigError(f"cannot load {cert_file} and {key_file}: {error}") from error

    def __repr__(self) -> str:
        return f"<ServingCertificate {self._files[0]}>"


def server_context(cert_file: Path, key_file: Path, *, client_ca_file: Path | None = None) -> ssl.SSLContext:
    """Return the TLS context of a server with these files.

    With `client_ca_file`, the handshake fails for a client without a certificate of these CAs.

    Raises:
        ConfigError: the files do not match, or the CAs cannot be loaded.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        # An empty password, so that OpenSSL never prompts on the terminal.
        context.load_cert_chain(cert_file, key_file, password=lambda: "")
    except (OSError, ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"cannot load {cert_file} and {key_file}: {error}; they must be a PEM certificate and its key"
        ) from error
    if client_ca_file is not None:
        trust_clients(context, client_ca_file, required=True)
    return context


def trust_clients(context: ssl.SSLContext, client_ca_file: Path, *, required: bool) -> None:
    """Request a certificate of these CAs from clients. Text around the PEM blocks is ignored.

    Raises:
        ConfigError: the file has no certificates, or damaged ones.
    """
    try:
        context.load_verify_locations(cadata=certificates_of(client_ca_file.read_bytes()))
    except (OSError, ssl.SSLError, ValueError) as error:
        raise ConfigError(f"cannot load {client_ca_file}: {error}; it must be PEM certificates of CAs") from error
    context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    without_resumption(context)


def self_signed_context(host: str) -> ssl.SSLContext:
    """Return the TLS context of a server with a new self-signed certificate for `host` and ``localhost``.

    The certificate lasts for a year. Clients cannot verify it: it protects against eavesdropping only.

    Raises:
        ConfigError: the extra ``opsdk[tls]`` is missing.
    """
    alternative = "set metrics_cert_file and metrics_key_file"
    with RequiredExtra("tls", "a self-signed certificate", alternative=alternative):
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "opsdk-metrics")])
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    try:
        names.append(x509.IPAddress(ip_address(host)))
    except ValueError:
        names += [x509.DNSName(host)] if host else []
    now = utc_now()
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=_SELF_SIGNED_DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    # OpenSSL loads from files only. The folder is private, and gone when the function returns.
    import tempfile  # noqa: PLC0415 - start-up time: brings all compressors

    with tempfile.TemporaryDirectory() as folder:
        cert_file, key_file = Path(folder, "tls.crt"), Path(folder, "tls.key")
        cert_file.write_bytes(certificate.public_bytes(pem))
        key_file.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
        return server_context(cert_file, key_file)
