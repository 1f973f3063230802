"""Spans of reconciles and requests, with the SDK's in-memory exporter."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Sequence

import pytest
from http_servers import Server, always, answer, in_turn

from opsdk.errors import ConflictError, ConnectionLostError, InternalServerError
from opsdk.rest.config import RestConfig
from opsdk.rest.request import RestRequest
from opsdk.rest.transport import Transport
from opsdk.telemetry.context import current
from opsdk.telemetry.records import (
    Hooks,
    Reconciled,
    ReconcileOutcome,
    ReconcileStarted,
    Record,
    RequestStarted,
    TelemetryHook,
)

pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk: pip install opsdk[dev]")
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from opsdk.base.cause import ReconcileCause
from opsdk.telemetry.otel import OpenTelemetryHook

STARTED = ReconcileStarted(
    controller="website",
    kind="Website",
    group="demo",
    namespace="default",
    name="site",
    reconcile_id="id",
    causes=(ReconcileCause("Website", "update", "default/site", "7"),),
)
PATCH = RestRequest(
    "PATCH", "/x", query=[("q", "s3cret")], body=b"s3cret", verb="patch", resource="configmaps", namespace="default",
    name="site", version="v1",
)  # fmt: skip


def tracing() -> tuple[Hooks, InMemorySpanExporter]:
    """A hook whose spans stay in memory."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Hooks([TelemetryHook(), OpenTelemetryHook(provider)]), exporter


def ended(error: BaseException | None = None) -> Reconciled:
    """The end of a reconcile."""
    result = ReconcileOutcome.ERROR if error else ReconcileOutcome.SUCCESS
    return Reconciled(controller="website", result=result, seconds=1, error=error)


async def test_a_reconcile_is_a_span_with_its_requests_as_children() -> None:
    """Requests of the reconcile and of its tasks are children; each carries its own ``traceparent``."""
    hook, exporter = tracing()
    async with Server(always(answer())) as server, Transport(RestConfig(host=server.host), hook=hook) as transport:
        with hook.reconcile(STARTED):
            await transport.send(PATCH)
            async with asyncio.TaskGroup() as group:
                group.create_task(transport.send(PATCH))
            hook.record(ended())
        await transport.send(PATCH)
    first, second, reconcile, outside = exporter.get_finished_spans()
    assert [span.name for span in (first, second, reconcile)] == [
        "patch configmaps", "patch configmaps", "reconcile website",
    ]  # fmt: skip
    assert reconcile.parent is None
    assert outside.parent is None
    for span, request in zip((first, second), server.seen, strict=False):
        assert span.parent == reconcile.context
        ids = f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-"
        assert (request.header("traceparent") or "").startswith(ids)


async def test_spans_have_the_fields_of_the_log() -> None:
    """A reconcile span has the fields of its log lines; a request span has resource, key and status."""
    hook, exporter = tracing()
    async with Server(always(answer())) as server, Transport(RestConfig(host=server.host), hook=hook) as transport:
        with hook.reconcile(STARTED):
            await transport.send(PATCH)
            hook.record(ended())
    request, reconcile = exporter.get_finished_spans()
    assert dict(reconcile.attributes or {}) == {
        "controller": "website", "controllerKind": "Website", "controllerGroup": "demo", "namespace": "default",
        "name": "site", "reconcileID": "id", "causes": ("Website update default/site at 7",), "result": "success",
    }  # fmt: skip
    assert dict(request.attributes or {}) == {
        "http.request.method": "PATCH", "server.address": "127.0.0.1", "server.port": server.port, "k8s.verb": "patch",
        "k8s.version": "v1", "k8s.resource": "configmaps", "k8s.namespace.name": "default", "k8s.name": "site",
        "http.response.status_code": 200,
    }  # fmt: skip
    assert (request.kind, reconcile.kind) == (SpanKind.CLIENT, SpanKind.INTERNAL)
    assert "s3cret" not in request.to_json()


async def test_errors_are_set_from_the_records() -> None:
    """Status and text of a failure; a traceback only for mistakes; a handled error leaves the reconcile unmarked."""
    hook, exporter = tracing()
    handler = in_turn(answer(409), None, answer(500))
    async with Server(handler) as server, Transport(RestConfig(host=server.host), hook=hook) as transport:
        with hook.reconcile(STARTED):
            await transport.send(PATCH, retry=False)
            with pytest.raises(ConnectionLostError):
                await transport.send(PATCH, retry=False)
            hook.record(ended())
    conflict, lost, reconcile = exporter.get_finished_spans()
    assert (conflict.status.status_code, (conflict.attributes or {})["error.type"]) == (StatusCode.ERROR, "409")
    assert (lost.attributes or {})["error.type"] == "ConnectionLostError"
    assert reconcile.status.status_code is StatusCode.UNSET
    for error, events in ((ConflictError("changed"), 0), (ValueError("v"), 1)):
        exporter.clear()
        with hook.reconcile(STARTED):
            hook.record(ended(error))
        (span,) = exporter.get_finished_spans()
        assert (span.status.status_code, len(span.events)) == (StatusCode.ERROR, events)


async def test_retries_are_spans_of_their_own() -> None:
    """Each attempt is a span; a retry has its number."""
    hook, exporter = tracing()
    handler = in_turn(answer(503, Retry_After="1"), answer())
    async with Server(handler) as server, Transport(RestConfig(host=server.host), hook=hook) as transport:
        await transport.send(PATCH)
    first, second = exporter.get_finished_spans()
    assert "http.request.resend_count" not in (first.attributes or {})
    assert (second.attributes or {})["http.request.resend_count"] == 1


def test_log_lines_have_the_trace_id() -> None:
    """Logs and traces can be joined."""
    hook, exporter = tracing()
    with hook.reconcile(STARTED):
        trace_id = current()["traceID"]
        hook.record(ended())
    assert trace_id == f"{exporter.get_finished_spans()[0].context.trace_id:032x}"
    assert "traceID" not in current()


class BrokenExporter(SpanExporter):
    """An exporter that raises."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise OSError("the collector is away")


class BrokenProcessor(SpanProcessor):
    """A processor that raises, which the SDK does not catch."""

    def __init__(self, *, start: bool) -> None:
        self._start = start

    def on_start(self, span: object, parent_context: object = None) -> None:
        if self._start:
            raise OSError("the collector is away")

    def on_end(self, span: ReadableSpan) -> None:
        raise OSError("the collector is away")


@pytest.mark.parametrize(
    "processor", [SimpleSpanProcessor(BrokenExporter()), BrokenProcessor(start=True), BrokenProcessor(start=False)]
)
async def test_a_broken_exporter_fails_no_reconcile(processor: SpanProcessor, caplog: pytest.LogCaptureFixture) -> None:
    """Reconcile and requests go on; what the exporter raises is logged; an error of the reconcile stays the same."""
    caplog.set_level(logging.ERROR)
    provider = TracerProvider()
    provider.add_span_processor(processor)
    hook = Hooks([OpenTelemetryHook(provider)])
    async with (
        Server(always(answer(body=b"hi"))) as server,
        Transport(RestConfig(host=server.host), hook=hook) as transport,
    ):
        with hook.reconcile(STARTED):
            assert (await transport.send(PATCH)).body == b"hi"
            hook.record(ended())
        with pytest.raises(InternalServerError), hook.reconcile(STARTED):
            raise InternalServerError("mine")
    assert "the collector is away" in caplog.text


def test_blocks_that_raise_do_not_stop_others() -> None:
    """A hook that raises at begin or end is logged; blocks of other hooks are entered and left once."""
    events: list[str] = []

    class Block:
        def __enter__(self) -> dict[str, str]:
            events.append("enter")
            return {"x": "1"}

        def __exit__(self, *error: object) -> None:
            events.append("exit")

    class Good(TelemetryHook):
        def request(self, started: RequestStarted) -> Block:  # type: ignore[override]
            return Block()

    class Bad(TelemetryHook):
        def record(self, record: Record) -> None:
            raise RuntimeError("mine")

        def request(self, started: RequestStarted) -> Block:  # type: ignore[override]
            raise RuntimeError("mine")

    hook = Hooks([Bad(), Hooks([Good()]), Good(), TelemetryHook()])
    with hook.request(RequestStarted(request=PATCH.info, method="PATCH", host="h")) as headers:
        assert headers == {"x": "1"}
    assert events == ["enter", "enter", "exit", "exit"]


def test_nothing_imports_opentelemetry_without_the_hook() -> None:
    """Importing the operator and its telemetry loads no module of OpenTelemetry."""
    code = (
        "import opsdk.builder.operator, opsdk.telemetry.prometheus, sys;"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_the_extra_the_error_says_what_to_install() -> None:
    """The import of the hook is a `ConfigError` with the name of the extra."""
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "try:\n    import opsdk.telemetry.otel\n"
        "except Exception as error:\n    assert 'opsdk[otel]' in str(error), error\n"
        "else:\n    raise SystemExit(1)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
