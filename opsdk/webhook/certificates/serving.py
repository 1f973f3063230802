"""The TLS context of a server with an in-memory certificate that is replaced at run time."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from opsdk.http.server.serving_certificate import server_context
from opsdk.webhook.certificates.issuing import CertificateKeyPair


class IssuedServingCertificate:
    """The TLS context of a server; each handshake gets the certificate that was set last.

    Open connections stay open, with the certificate of their handshake.

    Args:
        pair: the first certificate.
        client_ca_file: PEM certificates of the CAs whose clients are served; None serves every client.

    Attributes:
        context: for the server. It is never replaced.
        pair: the certificate that new connections get.

    Raises:
        ConfigError: the pair or the file cannot be loaded.
    """

    def __init__(self, pair: CertificateKeyPair, *, client_ca_file: Path | None = None) -> None:
        self._client_ca_file = client_ca_file
        self.pair = pair
        self._current_context = pair_context(pair, client_ca_file)
        self.context = pair_context(pair, client_ca_file)
        self.context.sni_callback = self._on_server_name

    def _on_server_name(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._current_context

    def replace(self, pair: CertificateKeyPair) -> None:
        """Use `pair` for new connections. Raises `ConfigError` if it cannot be loaded; the old one then stays."""
        self._current_context = pair_context(pair, self._client_ca_file)
        self.pair = pair

    def __repr__(self) -> str:
        return f"<IssuedServingCertificate of {len(self.pair.cert)} bytes>"


def pair_context(pair: CertificateKeyPair, client_ca_file: Path | None) -> ssl.SSLContext:
    """Return the TLS context of a server with this pair. Raises `ConfigError`."""
    with file_of(pair.cert) as cert_file, file_of(pair.key) as key_file:
        return server_context(cert_file, key_file, client_ca_file=client_ca_file)


@contextmanager
def file_of(content: bytes) -> Iterator[Path]:
    """Yield the path of a file with the content, because OpenSSL loads only from files.

    On Linux it is in memory: containers often have no writable folder, and keys should not reach a disk.
    """
    if not hasattr(os, "memfd_create"):
        with tempfile.NamedTemporaryFile() as file:  # only its owner can read it
            file.write(content)
            file.flush()
            yield Path(file.name)
        return
    descriptor = os.memfd_create("opsdk-webhook-certificate")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as memory:
            memory.write(content)
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
