"""The webhook server: HTTPS with a certificate that may rotate, and one webhook for each path.

Upstream: sigs.k8s.io/controller-runtime/pkg/webhook/server.go
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from opsdk.aio.clock import monotonic
from opsdk.aio.containment import cancellations, contain
from opsdk.aio.waiting import finish
from opsdk.errors import UsageError
from opsdk.http.asgi_types import App
from opsdk.http.server.application import asgi
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse, text_response
from opsdk.http.server.server import ServeOptions, WebServer
from opsdk.http.server.serving_certificate import ServingCertificate
from opsdk.recording.boundary import BOUNDARY, listens
from opsdk.recording.calls import call_method
from opsdk.telemetry.records import TelemetryHook, WebhookLoad, WebhookServed
from opsdk.telemetry.safe_logger import SafeLogger
from opsdk.webhook.calls import PANICKED
from opsdk.webhook.configurations import WebhookRegistration
from opsdk.webhook.conversion import Converter
from opsdk.webhook.options import WebhookServerOptions
from opsdk.webhook.webhook import ConversionWebhook, Webhook

__all__ = ["WebhookServer"]

log = SafeLogger(__name__)

CONVERSION_PATH = "/convert"
"""The path of all conversions."""
_PATH = re.compile(r"((/[a-zA-Z0-9-_]+)+|/)\Z")
# Seconds for the connection of `WebhookServer.check_started` (StartedChecker's timeout).
_DIAL_TIMEOUT = 10.0


IssuedContext = Callable[[], Awaitable[ssl.SSLContext]]
"""Returns the TLS context when the first certificate is available. Later certificates use the same context."""


class WebhookServer:
    """Serves webhooks. A Runnable that runs on every replica.

    ::

        server = WebhookServer(hook=manager.hook)
        WebhookBuilder().for_(Website).with_validator(rules).complete(server)
        manager.add(server)
        manager.add_readyz_check("webhooks", server.check_started)

    `start` raises `ConfigError` if the certificate cannot be loaded or the port is taken.

    Args:
        options: see `WebhookServerOptions`.
        hook: receives records of requests; pass the manager's.

    Attributes:
        app: the ASGI application, to be called without a socket.
        registrations: what `webhook_configurations` needs; the builder adds to it.
        converted_definitions: names of the CustomResourceDefinitions with a converter; the builder adds to it.
    """

    def __init__(self, options: WebhookServerOptions | None = None, *, hook: TelemetryHook | None = None) -> None:
        self.options = options or WebhookServerOptions()
        boundary = BOUNDARY.get()
        self.app: App = asgi(self._serve if boundary is None else boundary.serve(self._serve))
        self.registrations: list[WebhookRegistration] = []
        self.converted_definitions: list[str] = []
        self._issued: IssuedContext | None = None
        self._hook = hook or TelemetryHook()
        self._webhooks: dict[str, Webhook] = {}
        self._in_flight: dict[str, int] = {}
        self._conversion: ConversionWebhook | None = None
        self._started = asyncio.Event()
        o = self.options
        self._server = WebServer(self.app, ServeOptions(host=o.host, port=o.port, shutdown_timeout=o.shutdown_timeout))

    # -------------------------------------------------------------- webhooks
    def register(self, path: str, webhook: Webhook) -> None:
        """Serve a webhook at a path, also after the start.

        Raises:
            UsageError: the path is taken, or is not of the form ``/a/b``.
        """
        if not _PATH.match(path):
            raise UsageError(f"{path!r} is not a webhook path: write / or /name/name of letters, digits, - and _")
        if path in self._webhooks:
            raise UsageError(f"can't register duplicate path: {path}")
        self._webhooks[path] = webhook
        self._in_flight[path] = 0
        self._hook.record(WebhookLoad(webhook=path, in_flight=0))

    def register_converter(self, converter: Converter) -> None:
        """Serve a converter at ``/convert``. Raises `UsageError` if its kind has a converter, or the path is taken."""
        if self._conversion is None:
            conversion = ConversionWebhook()
            self.register(CONVERSION_PATH, conversion)
            self._conversion = conversion
        self._conversion.add(converter)

    def use_certificates(self, issued: IssuedContext) -> None:
        """Serve with issued certificates instead of files: pass `CertificateManager.tls_context`. `start` waits for it.

        Raises:
            UsageError: the server runs.
        """
        if self._started.is_set():
            raise UsageError("the webhook server is already started: call use_certificates before start")
        self._issued = issued

    def webhook_paths(self) -> Sequence[str]:
        """Return the registered paths."""
        return tuple(self._webhooks)

    async def _serve(self, request: HttpRequest) -> HttpResponse:
        """Serve one request. An exception of the handler is a 500, and is logged."""
        webhook = self._webhooks.get(request.path)
        if webhook is None:
            return text_response("404 page not found\n", status=404)
        path, began, status = request.path, monotonic(), 500
        self._count(path, 1)
        task = asyncio.current_task()
        before = cancellations(task)
        try:
            response = await webhook.serve(request)
            status = response.status
        except BaseException as error:
            contain(error, task=task, cancelling=before)
            log.exception("the webhook at %s failed", path)
            response = text_response("Internal Server Error\n", status=500)
        finally:
            self._count(path, -1)
            panicked = str(request.state.get(PANICKED, ""))
            seconds = monotonic() - began
            self._hook.record(WebhookServed(webhook=path, status=status, seconds=seconds, panicked=panicked))
        return response

    def _count(self, path: str, change: int) -> None:
        self._in_flight[path] += change
        self._hook.record(WebhookLoad(webhook=path, in_flight=self._in_flight[path]))

    # -------------------------------------------------------------- life cycle
    @property
    def port(self) -> int:
        """The TCP port, known once the server is ready."""
        return self._server.port

    def needs_leader_election(self) -> bool:
        """Return False: the API server may call any replica."""
        return False

    async def start(self) -> None:
        """Serve until cancelled."""
        if not self.options.listen:
            self._started.set()
            await asyncio.get_running_loop().create_future()
        issued = await self._issued() if self._issued is not None else None
        try:
            if listens():
                self._server.options = replace(self._server.options, tls=issued or self._context())
                await self._server.start()
            self._started.set()
            log.info("serving %d webhooks on port %d", len(self._webhooks), self.port)
            await asyncio.get_running_loop().create_future()
        finally:
            self._started.clear()
            # Release the port also after a cancellation during bind.
            await finish(call_method("webhook server.aclose", self._server.aclose), name="webhooks/close")

    def _context(self) -> ssl.SSLContext:
        o = self.options
        if o.tls is not None:
            return o.tls()
        certificate = ServingCertificate(
            o.folder / o.cert_name,
            o.folder / o.key_name,
            client_ca_file=o.client_ca_file,
            hook=self._hook,
        )
        return certificate.context

    async def wait_ready(self) -> None:
        """Return when the port is open."""
        await self._started.wait()

    async def check_started(self) -> None:
        """Connect with TLS, for ``Manager.add_readyz_check``. Raises the reason if the server does not serve."""
        if not self._started.is_set():
            raise UsageError("webhook server has not been started yet")
        if not self.options.listen:
            return
        context = ssl.create_default_context()
        # Do not verify: the server connects to itself, and its certificate has the name of a Service.
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        host = {"": "localhost", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.options.host, self.options.host)  # noqa: S104 - see the options
        async with asyncio.timeout(_DIAL_TIMEOUT):
            _, writer = await asyncio.open_connection(host, self.port, ssl=context)
            writer.close()

    def __repr__(self) -> str:
        return f"<WebhookServer at {self.options.host}:{self.port} with {', '.join(self._webhooks) or 'no webhooks'}>"
