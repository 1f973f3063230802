"""The HTTP servers of a manager: health probes, metrics and debug pages."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from opsdk.errors import UsageError
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse
from opsdk.manager.address import is_enabled, is_loopback, parse_address
from opsdk.manager.debug import DebugPages
from opsdk.manager.health import Checks
from opsdk.manager.options import ManagerOptions
from opsdk.telemetry.prometheus import PrometheusHook
from opsdk.telemetry.records import TelemetryHook
from opsdk.telemetry.safe_logger import SafeLogger

if TYPE_CHECKING:  # start-up time: tests serve nothing, and few metrics are authorized
    from opsdk.manager.http import HttpServer
    from opsdk.manager.metrics_authorization import MetricsAuthorization
    from opsdk.rbac.delegated import ReviewClient

log = SafeLogger(__name__)

IssuedContext = Callable[[], ssl.SSLContext | None]
"""Returns the TLS context for new connections; None to use the self-signed certificate."""


class MetricsEndpoint:
    """``/metrics``. With `metrics_authentication`, only for users whom the API server allows to get it."""

    def __init__(self, options: ManagerOptions, metrics: PrometheusHook, hook: TelemetryHook) -> None:
        self._options = options
        self._metrics = metrics
        self._hook = hook
        self._authorization: MetricsAuthorization | None = None
        self._issued: IssuedContext = lambda: None
        self._content_type = ""

    def use_certificates(self, issued: IssuedContext) -> None:
        """Set the source of the certificate that is served without `metrics_cert_file`."""
        self._issued = issued

    def use_client(self, client: ReviewClient) -> None:
        """Set the client that reviews requests."""
        if self._options.metrics_authentication:
            from opsdk.manager.metrics_authorization import MetricsAuthorization  # noqa: PLC0415 - start-up time

            self._authorization = MetricsAuthorization(client)

    def check_client(self) -> None:
        """Raise `UsageError` if requests must be reviewed and no client is set."""
        if self._options.metrics_authentication and self._authorization is None:
            raise UsageError("metrics_authentication needs a client: call use_client(cluster.uncached) first")

    def server(self) -> HttpServer:
        """Return the server of the endpoint."""
        from opsdk.manager.http import HttpServer  # noqa: PLC0415 - start-up time

        options = self._options
        # Reading it imports the library now: the first scrape need not block the event loop for that.
        self._content_type = self._metrics.content_type
        guard = self._authorize if options.metrics_authentication else None
        tls = self._tls if options.metrics_secure_serving else None
        return HttpServer("metrics", options.metrics_bind_address, [self._serve], tls=tls, guard=guard)

    def _tls(self) -> ssl.SSLContext:
        from opsdk.http.server.serving_certificate import (  # noqa: PLC0415 - start-up time
            ServingCertificate,
            self_signed_context,
        )

        options = self._options
        if options.metrics_cert_file:
            files = (options.metrics_cert_file, options.metrics_key_file)
            return ServingCertificate(*files, hook=self._hook).context
        context = self_signed_context(parse_address(options.metrics_bind_address)[0])
        context.sni_callback = self._use_issued
        return context

    def _use_issued(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        issued = self._issued()
        if issued is not None:
            connection.context = issued

    async def _authorize(self, request: HttpRequest) -> HttpResponse | None:
        assert self._authorization is not None  # see `check_client`
        return await self._authorization.check(request)

    async def _serve(self, request: HttpRequest) -> HttpResponse | None:
        if request.path != "/metrics":
            return None
        return HttpResponse(200, [("content-type", self._content_type)], self._metrics.expose())

    def __repr__(self) -> str:
        return f"<MetricsEndpoint at {self._options.metrics_bind_address or 'no address'}>"


def http_servers(
    options: ManagerOptions, *, healthz: Checks, readyz: Checks, metrics: MetricsEndpoint, debug: DebugPages
) -> Sequence[HttpServer]:
    """Return the servers whose addresses are set."""
    addresses = (options.health_probe_bind_address, options.metrics_bind_address, options.debug_bind_address)
    if not any(map(is_enabled, addresses)):
        return ()
    from opsdk.manager.http import HttpServer  # noqa: PLC0415 - start-up time

    servers = []
    if is_enabled(options.health_probe_bind_address):
        servers.append(HttpServer("health", options.health_probe_bind_address, [healthz.handle, readyz.handle]))
    if is_enabled(options.metrics_bind_address):
        servers.append(metrics.server())
    if is_enabled(address := options.debug_bind_address):
        if not is_loopback(address):
            log.warning("the debug pages at %s need no authentication: bind them to 127.0.0.1", address)
        servers.append(HttpServer("debug", address, [debug.handle], methods=("GET", "HEAD", "POST")))
    return servers
