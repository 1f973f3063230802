"""OpenTelemetry spans for reconciles and requests, and metrics. Needs the extra ``opsdk[otel]``.

Nothing else of opsdk imports this module.

::

    hook = OpenTelemetryHook()
    await operator.start(config, hooks=[hook])

The providers decide where spans and metrics go: configure the SDK (``opentelemetry-sdk``, exporters) before the start.

Upstream: opentelemetry.io/docs/specs/semconv/http/http-spans (v1.37)
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from opsdk.base.cause import ReconcileCause
from opsdk.base.extras import RequiredExtra
from opsdk.errors import RequestInfo
from opsdk.telemetry.context import log_context
from opsdk.telemetry.describe import describe
from opsdk.telemetry.otel_metrics import OpenTelemetryMetrics
from opsdk.telemetry.prometheus import MetricsExporter, PrometheusHook
from opsdk.telemetry.records import (
    NO_HEADERS,
    Reconciled,
    ReconcileStarted,
    Record,
    Requested,
    RequestStarted,
    WriteStarted,
)

__all__ = ["OpenTelemetryHook"]

with RequiredExtra("otel", "tracing"):
    from opentelemetry import metrics, trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

AttributeValue = str | int | float | bool | Sequence[str]


class OpenTelemetryHook(MetricsExporter):
    """Creates a span for each reconcile, and a child span for each attempt of a request.

    * The reconcile's span is named ``reconcile <controller>``. Its attributes have the names of the log fields:
      ``controller``, ``controllerGroup``, ``controllerKind``, ``namespace``, ``name``, ``reconcileID``, ``causes``, and
      ``result`` at its end. Log lines of the reconcile have its trace id as ``traceID``.
    * A request's span is named ``<verb> <resource>``, and ends with the response; the span of a watch ends with the
    response's head.
      Requests carry the W3C header ``traceparent``, so that the API server's spans are part of the trace.

    Queries, headers and bodies are not attributes. A failing exporter fails no reconcile: `Hooks` logs its exceptions.

    With `annotate_objects`, traces go through objects (KEP-5915). A write of a reconcile has a span around its
    attempts, named ``<verb> <kind>``. The annotation ``tracing.k8s.io/traceparent`` of the object has its context. A
    reconcile links to the writes whose events caused it, also to those of other programs; the attribute ``cause`` of a
    link is the cause in words. Only a write that changes the object anyway carries the annotation.

    With a `meter_provider`, all metrics of ``/metrics`` are OpenTelemetry metrics, too. Only the values of histograms
    are counted twice.

    Args:
        tracer_provider: None for the global one.
        meter_provider: None exports no metrics; ``opentelemetry.metrics.get_meter_provider()`` is the global one.
        annotate_objects: write the annotation, and link reconciles to the writes that carry it.
    """

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None = None,
        *,
        meter_provider: metrics.MeterProvider | None = None,
        annotate_objects: bool = False,
    ) -> None:
        self.follows_writes = annotate_objects
        self._tracer = trace.get_tracer("opsdk", tracer_provider=tracer_provider)
        self._meter_provider = meter_provider
        self._exports: list[OpenTelemetryMetrics] = []
        self._propagator = TraceContextTextMapPropagator()
        self._reconcile_span: ContextVar[trace.Span | None] = ContextVar("opsdk_reconcile_span", default=None)
        self._request_span: ContextVar[trace.Span | None] = ContextVar("opsdk_request_span", default=None)

    def export_metrics(self, metrics: PrometheusHook) -> None:
        """Export all metrics that another hook counts, if there is a meter provider.

        A manager calls it at its start. A program without a manager calls it with its `PrometheusHook`.
        """
        if self._meter_provider is None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        meter = self._meter_provider.get_meter("opsdk")
        self._exports.append(OpenTelemetryMetrics(meter, metrics, loop=loop))

    @contextmanager
    def reconcile(self, started: ReconcileStarted) -> Iterator[None]:
        """Open the span of a reconcile; it is the current span of the reconciler."""
        attributes: dict[str, AttributeValue] = {
            **started.log_fields(),
            "causes": tuple(map(str, started.causes)),
        }
        name, links = f"reconcile {started.controller}", _links(started.causes)
        with self._span(name, trace.SpanKind.INTERNAL, attributes, links) as span:
            token = self._reconcile_span.set(span)
            try:
                with log_context(traceID=trace.format_trace_id(span.get_span_context().trace_id)):
                    yield
            finally:
                self._reconcile_span.reset(token)

    def write(self, started: WriteStarted) -> AbstractContextManager[Mapping[str, str]]:
        """Open the span of a write inside a reconcile, and yield its ``traceparent``."""
        return self._write(started) if self._reconcile_span.get() is not None else NO_HEADERS

    @contextmanager
    def _write(self, started: WriteStarted) -> Iterator[Mapping[str, str]]:
        attributes = {
            "k8s.verb": started.verb,
            "k8s.group": started.group,
            "k8s.kind": started.kind,
            "k8s.namespace.name": started.namespace,
            "k8s.name": started.name,
        }
        with self._span(f"{started.verb} {started.kind}", trace.SpanKind.PRODUCER, attributes) as span:
            headers: dict[str, str] = {}
            if span.get_span_context().trace_flags.sampled:  # a link to a span that nobody keeps leads nowhere
                self._propagator.inject(headers)
            yield headers

    @contextmanager
    def request(self, started: RequestStarted) -> Iterator[Mapping[str, str]]:
        """Open the span of a request, and yield its ``traceparent``."""
        info = started.request
        host, _, port = started.host.rpartition(":")
        attributes = {
            "http.request.method": started.method,
            "server.address": host or started.host,
            "server.port": int(port) if host and port.isdigit() else 0,
            **_resource_attributes(info),
        }
        name = f"{info.verb} {info.group_resource or info.path}"
        with self._span(name, trace.SpanKind.CLIENT, attributes) as span:
            token = self._request_span.set(span)
            headers: dict[str, str] = {}
            self._propagator.inject(headers)
            try:
                yield headers
            finally:
                self._request_span.reset(token)

    @contextmanager
    def _span(
        self,
        name: str,
        kind: trace.SpanKind,
        attributes: Mapping[str, AttributeValue],
        links: Sequence[trace.Link] = (),
    ) -> Iterator[trace.Span]:
        # Errors are set from the records: a conflict that the reconciler handles is not an error of the reconcile.
        with self._tracer.start_as_current_span(
            name,
            kind=kind,
            attributes={key: value for key, value in attributes.items() if value},
            links=links,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            yield span

    def record(self, record: Record) -> None:
        """Set the result of the open span."""
        match record:
            case Reconciled():
                if (span := self._reconcile_span.get()) is not None:
                    span.set_attribute("result", record.result.value)
                    if record.error is not None:
                        _set_error(span, record.error)
            case Requested():
                if (span := self._request_span.get()) is not None:
                    _end_request(span, record)

    def __repr__(self) -> str:
        return f"<OpenTelemetryHook {self._tracer!r}>"


def _links(causes: Sequence[ReconcileCause]) -> list[trace.Link]:
    """Return a link to each write that the causes name. Their trace contexts are valid, and at most 128."""
    return [
        trace.Link(_span_context(traceparent), {"cause": str(cause)})
        for cause in causes
        for traceparent in cause.traceparents
    ]


def _span_context(traceparent: str) -> trace.SpanContext:
    _, trace_id, span_id, flags = traceparent.split("-")
    return trace.SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=trace.TraceFlags(int(flags, 16))
    )


def _resource_attributes(info: RequestInfo) -> dict[str, AttributeValue]:
    return {
        "k8s.verb": info.verb,
        "k8s.group": info.group,
        "k8s.version": info.version,
        "k8s.resource": info.resource,
        "k8s.subresource": info.subresource,
        "k8s.namespace.name": info.namespace,
        "k8s.name": info.name,
        "url.path": info.path,
    }


def _end_request(span: trace.Span, record: Requested) -> None:
    if record.attempt:
        span.set_attribute("http.request.resend_count", record.attempt)
    if record.status:
        span.set_attribute("http.response.status_code", record.status)
    if record.error is not None:
        _set_error(span, record.error)
    elif record.status >= 400:
        # As the semantic conventions ask for a client's span.
        span.set_attribute("error.type", str(record.status))
        span.set_status(trace.StatusCode.ERROR)


def _set_error(span: trace.Span, error: BaseException) -> None:
    text, with_traceback = describe(error)
    span.set_attribute("error.type", type(error).__name__)
    span.set_status(trace.StatusCode.ERROR, text)
    if with_traceback and isinstance(error, Exception):
        span.record_exception(error)
