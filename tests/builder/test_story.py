"""The story of one reconcile, from logs alone, from its trace, and after failures of log and trace back ends."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from envtest.testing.effects import Fail
from opsdk import Client, Cluster, ObjectMeta, Operator, Unstructured, crd_for
from opsdk.telemetry.context import setup_logging
from opsdk.telemetry.otel import OpenTelemetryHook
from opsdk.telemetry.records import TelemetryHook
from website.api import Website, WebsiteSpec
from website.operator import make_operator

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")


@contextmanager
def logging_to(stream: io.StringIO, format_: Literal["text", "json"]) -> Iterator[None]:
    """Configure logging as `Operator.run` does, and restore it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    loggers = [logging.getLogger(name) for name in ("opsdk.reconcile", "opsdk.requests")]
    root.handlers = []
    try:
        levels = {"opsdk.reconcile": "DEBUG", "opsdk.requests": "DEBUG"}
        setup_logging("INFO", format_, levels=levels, stream=stream)
        yield
    finally:
        root.handlers, root.level = handlers, level
        for logger in loggers:
            logger.setLevel(logging.NOTSET)


@asynccontextmanager
async def one_life(operator: Operator, *hooks: TelemetryHook) -> AsyncIterator[Client]:
    """Run the operator; the first apply of a Service fails, and is retried."""
    async with environment.Environment() as env, Cluster(env.config) as outside:
        await outside.uncached.create(Unstructured.from_tree(crd_for(Website)))
        env.faults.add(Fail(500, "InternalError"), verb="patch", resource="services", times=1)
        task = asyncio.create_task(operator.start(env.config, hooks=hooks))
        await asyncio.sleep(1)
        site = Website(metadata=ObjectMeta(name="a", namespace="default"), spec=WebsiteSpec(image="nginx:1"))
        await outside.uncached.create(site)
        await asyncio.sleep(5)
        try:
            yield outside.uncached
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_the_story_in_json() -> None:
    """The lines of one reconcile id have start, causes, each request and the end; the failure names its request."""
    stream = io.StringIO()
    operator = make_operator()
    with logging_to(stream, "json"):
        async with one_life(operator):
            pass
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    first = next(operator.journal.find())
    story = [line for line in lines if line.get("reconcileID") == first.reconcile_id]
    assert all(
        (line["controller"], line["namespace"], line["name"], line["controllerKind"])
        == ("website", "default", "a", "Website")
        for line in story
    )
    messages = [line["msg"] for line in story]
    assert messages[0].startswith("reconcile starts: Website create default/a at ")
    assert any("services" in message and "500" in message for message in messages)
    assert "patch services default/a: 500 InternalError" in messages[-1]
    assert "retry in" in messages[-1]
    assert story[-1]["level"] == "error"
    second = list(operator.journal.find())[1]
    last = [line["msg"] for line in lines if line.get("reconcileID") == second.reconcile_id][-1]
    assert last.startswith("reconcile ended in ")


async def test_the_story_in_text() -> None:
    """Each line ends with the fields, so that grep for the id tells the story."""
    stream = io.StringIO()
    operator = make_operator()
    with logging_to(stream, "text"):
        async with one_life(operator):
            pass
    first = next(operator.journal.find())
    story = [line for line in stream.getvalue().splitlines() if f"reconcileID={first.reconcile_id}" in line]
    assert "reconcile starts: Website create default/a" in story[0]
    assert "controller=website" in story[0]
    assert "namespace=default name=a" in story[0]
    assert "retry in 0.005 s: patch services default/a: 500 InternalError" in story[-1]


async def test_the_story_as_a_trace() -> None:
    """A reconcile is a span with its object; each request is a child of it; the failed one has the error."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    operator = make_operator()
    async with one_life(operator, OpenTelemetryHook(provider)):
        pass
    spans = exporter.get_finished_spans()
    reconciles = [span for span in spans if span.name == "reconcile website"]
    first = min(reconciles, key=lambda span: span.start_time or 0)
    children = [s for s in spans if s.parent is not None and s.context and s.parent.span_id == span_id(first)]
    assert len(children) == len(next(operator.journal.find()).requests)
    assert not first.status.is_ok
    failed = [span for span in children if not span.status.is_ok]
    assert len(failed) == 1
    assert "services" in failed[0].name


def span_id(span: ReadableSpan) -> int:
    """Return the id of a span."""
    assert span.context is not None
    return span.context.span_id


class BrokenExporter(SpanExporter):
    """Raises at every export."""

    def export(self, spans: Any) -> SpanExportResult:
        raise RuntimeError("the collector is down")


class BrokenHandler(logging.Handler):
    """Raises at every record."""

    def emit(self, record: logging.LogRecord) -> None:
        raise OSError("the disk is full")


async def test_back_ends_that_fail_fail_no_reconcile() -> None:
    """A log handler and a trace exporter that raise do not fail a reconcile."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(BrokenExporter()))
    handler = BrokenHandler()
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        operator = make_operator()
        async with one_life(operator, OpenTelemetryHook(provider)) as client:
            assert (await client.get(Website, "default/a")).status is not None
        assert [record.result for record in operator.journal.find()][:2] == ["error", "success"]
    finally:
        root.removeHandler(handler)
