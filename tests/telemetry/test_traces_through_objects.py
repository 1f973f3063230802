"""A trace over three operators in one simulated cluster: each reconcile links to the write that caused it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk: pip install opsdk[dev]")
pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from opsdk.api.apps.v1 import Deployment
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.base.traceparent import TRACEPARENT_ANNOTATION
from opsdk.client.patch import merge_patch
from tools.generate.traced_operators import Shop, ShopSpec, traced_operators


def shop() -> Shop:
    """A shop."""
    return Shop(metadata=ObjectMeta(name="books", namespace="default"), spec=ShopSpec(customers=1))


def operator_of(span: ReadableSpan) -> str:
    """The operator that made a span."""
    return str(span.resource.attributes["service.name"])


def reconciles(spans: Sequence[ReadableSpan]) -> list[ReadableSpan]:
    """The spans of reconciles."""
    return [span for span in spans if span.name.startswith("reconcile ")]


async def test_each_operator_links_to_the_write_of_the_one_before() -> None:
    """Links lead from the last operator to the first one, over spans of writes, and no span has a foreign parent."""
    exporter = InMemorySpanExporter()
    async with traced_operators(exporter) as user:
        exporter.clear()
        await user.uncached.create(shop())
        await asyncio.sleep(60)
    spans = exporter.get_finished_spans()
    by_id = {span.context.span_id: span for span in spans}
    path = []
    span = next(s for s in reconciles(spans) if operator_of(s) == "alerts")
    while span.links:
        (link,) = span.links
        write = by_id[link.context.span_id]
        assert (link.context.is_remote, link.context.trace_id) == (True, write.context.trace_id)
        assert write.parent is not None
        path.append((operator_of(span), dict(link.attributes or {})["cause"].split(" at ")[0], write.name))
        span = by_id[write.parent.span_id]
    assert path == [
        ("alerts", "Deployment create default/books", "apply Deployment"),
        ("websites", "Website create default/books", "apply Website"),
    ]
    assert operator_of(span) == "shops"
    assert all(span.parent is None for span in reconciles(spans))
    assert len({span.context.trace_id for span in reconciles(spans)}) == len(reconciles(spans))


async def _writes(*, annotate_objects: bool) -> tuple[Counter[str], Deployment]:
    """The patches of the operators by name, and the Deployment, after a creation and a change of the replicas."""
    exporter = InMemorySpanExporter()
    async with traced_operators(exporter, annotate_objects=annotate_objects) as user:
        live = await user.uncached.create(shop())
        await asyncio.sleep(60)
        await user.uncached.patch(live, merge_patch({"spec": {"customers": 3}}))
        await asyncio.sleep(600)
        deployment = await user.uncached.get(Deployment, "default/books")
        requests = [s for s in exporter.get_finished_spans() if "http.request.method" in (s.attributes or {})]
        names = [span.name for span in requests]
    return Counter(name for name in names if name.startswith("patch ")), deployment


async def test_annotations_cause_no_request() -> None:
    """The operators send the same writes with and without annotations, and come to rest."""
    plain, unannotated = await _writes(annotate_objects=False)
    traced, annotated = await _writes(annotate_objects=True)
    assert traced == plain == {
        "patch websites.demo.opsdk.dev": 2, "patch deployments.apps": 2, "patch configmaps": 2
    }  # fmt: skip
    assert TRACEPARENT_ANNOTATION not in unannotated.metadata.annotations
    assert TRACEPARENT_ANNOTATION in annotated.metadata.annotations
    assert annotated.spec == unannotated.spec


async def test_a_foreign_write_is_linked_once() -> None:
    """A user's write with the annotation is linked; its later writes without a new one are not."""
    exporter = InMemorySpanExporter()
    traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4737-00f067aa0ba902b7-01"
    async with traced_operators(exporter) as user:
        live = shop()
        live.metadata.annotations = {TRACEPARENT_ANNOTATION: traceparent}
        await user.uncached.create(live)
        await asyncio.sleep(60)
        await user.uncached.patch(live, merge_patch({"spec": {"customers": 2}}))
        await asyncio.sleep(60)
        hostile = {"metadata": {"annotations": {TRACEPARENT_ANNOTATION: "00-" + "x" * 100_000}}}
        await user.uncached.patch(live, merge_patch(hostile))
        await asyncio.sleep(60)
    linked = [
        span
        for span in reconciles(exporter.get_finished_spans())
        if any(f"{link.context.trace_id:032x}" in traceparent for link in span.links)
    ]
    assert [operator_of(span) for span in linked] == ["shops"]
