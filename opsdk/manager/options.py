"""Options of managers."""

from __future__ import annotations

from pathlib import Path

from opsdk.base.options import Options
from opsdk.errors import UsageError
from opsdk.manager.address import is_enabled, is_loopback


class ManagerOptions(Options, frozen=True, kw_only=True):
    """Options of a `Manager`.

    Attributes:
        health_probe_bind_address: ``host:port`` of ``/healthz`` and ``/readyz``; empty or ``"0"`` disables them.
        metrics_bind_address: ``host:port`` of ``/metrics``; empty or ``"0"`` disables it.
        metrics_secure_serving: serve the metrics with TLS. Without files, the certificate is the one that the operator
            issues for its webhooks, or a self-signed one. Both need the extra ``opsdk[tls]``.
        metrics_cert_file: PEM certificate chain of the metrics endpoint. It may be replaced while the manager runs.
        metrics_key_file: PEM private key of this certificate.
        metrics_authentication: authenticate and authorize metrics requests (see
            `opsdk.manager.metrics_authorization`). Needs `metrics_secure_serving`, unless the address is a loopback
            address: the tokens of the readers must not cross the network in clear text.
        debug_bind_address: ``host:port`` of ``/debug/`` (see `opsdk.manager.debug`); empty or ``"0"`` disables it. The
            pages need no authentication: bind them to a loopback address, and use ``kubectl port-forward``.
        shutdown_timeout: seconds for all runnables to stop; None for no limit, 0 to cancel without waiting.
    """

    health_probe_bind_address: str = ""
    metrics_bind_address: str = ""
    metrics_secure_serving: bool = False
    metrics_cert_file: str | Path = ""
    metrics_key_file: str | Path = ""
    metrics_authentication: bool = False
    debug_bind_address: str = ""
    shutdown_timeout: float | None = 30.0

    def __post_init__(self) -> None:
        if bool(self.metrics_cert_file) is not bool(self.metrics_key_file):
            raise UsageError("set both metrics_cert_file and metrics_key_file, or neither (self-signed)")
        if self.metrics_cert_file and not self.metrics_secure_serving:
            raise UsageError("metrics_cert_file has no effect: set metrics_secure_serving=True too")
        enabled = self.metrics_authentication and is_enabled(self.metrics_bind_address)
        if enabled and not self.metrics_secure_serving and not is_loopback(self.metrics_bind_address):
            raise UsageError(
                "metrics_authentication would send tokens in clear text: set metrics_secure_serving=True, or bind to "
                "127.0.0.1 behind a proxy with TLS"
            )
