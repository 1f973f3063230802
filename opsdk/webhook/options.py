"""Options of webhook servers."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from opsdk.base.options import Options
from opsdk.errors import UsageError

if TYPE_CHECKING:  # start-up time: most servers issue no certificates
    from opsdk.webhook.certificates.options import SelfSigned

__all__ = ["WebhookServerOptions"]


class WebhookServerOptions(Options, frozen=True, kw_only=True):
    """Options of a `WebhookServer`.

    Attributes:
        host: the address to bind; empty for all interfaces with IPv6 and IPv4, as the API server calls from outside.
        port: the TCP port; 0 selects a free one.
        cert_dir: the directory of the certificate files; empty for ``k8s-webhook-server/serving-certs`` in the
            directory of temporary files.
        cert_name: PEM certificate chain in `cert_dir`. It may be replaced while the server runs.
        key_name: PEM private key in `cert_dir`.
        client_ca_name: PEM certificates of CAs in `cert_dir`; clients need a certificate of one of them. Empty serves
            every client.
        tls: makes the TLS context at the start, instead of the files.
        certificates: an `Operator` issues and rotates the certificate itself, instead of the files. Needs the extra
            ``opsdk[tls]``.
        shutdown_timeout: seconds for open requests to finish at stop.
        listen: False opens no port: other code of this process calls `WebhookServer.app`, as simulations do.
    """

    host: str = ""
    port: int = 9443
    cert_dir: Path | str = ""
    cert_name: str = "tls.crt"
    key_name: str = "tls.key"
    client_ca_name: str = ""
    tls: Callable[[], ssl.SSLContext] | None = None
    certificates: SelfSigned | None = None
    shutdown_timeout: float = 60.0
    listen: bool = True

    def __post_init__(self) -> None:
        if self.tls is not None and self.certificates is not None:
            raise UsageError("tls and certificates are mutually exclusive: set one of them")
        if self.certificates is not None and self.cert_dir and not self.client_ca_name:
            raise UsageError("cert_dir has no effect with certificates: remove one, or set client_ca_name too")
        if not self.listen and (self.tls is not None or self.certificates is not None):
            raise UsageError("tls and certificates have no effect with listen=False: remove them")

    @property
    def folder(self) -> Path:
        """The directory of the certificate files."""
        import tempfile  # noqa: PLC0415 - start-up time: brings all compressors

        return Path(self.cert_dir or Path(tempfile.gettempdir(), "k8s-webhook-server", "serving-certs"))

    @property
    def client_ca_file(self) -> Path | None:
        """The file of `client_ca_name`, or None."""
        return self.folder / self.client_ca_name if self.client_ca_name else None
