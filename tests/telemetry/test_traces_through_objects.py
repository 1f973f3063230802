"""A trace over three operators in one simulated cluster: each reconcile links to the write that caused it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk: pip install opsdk[dev]")
pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from envtest.environment import Environment
from opsdk import BlockingContext, Cluster, Context, Operator, Unstructured
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.base.traceparent import TRACEPARENT_ANNOTATION
from opsdk.client.patch import merge_patch
from opsdk.telemetry.otel import OpenTelemetryHook
from opsdk.telemetry.records import ReconcileStarted
from tools.generate.traced_operators import Shop, ShopSpec, traced_operators

POD = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}}
_POLICY = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "no-traces"}}
REFUSING_POLICY = [
    {
        **_POLICY,
        "kind": "ValidatingAdmissionPolicy",
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["configmaps"],
                    }
                ]
            },
            "validations": [
                {
                    "expression": f"!('{TRACEPARENT_ANNOTATION}' in object.metadata.?annotations.orValue({{}}))",
                    "message": "not here",
                }
            ],
        },
    },
    {
        **_POLICY,
        "kind": "ValidatingAdmissionPolicyBinding",
        "spec": {"policyName": "no-traces", "validationActions": ["Deny"]},
    },
]


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


# ------------------------------------------------------------------ other reconcilers
@asynccontextmanager
async def traced(operator: Operator) -> AsyncIterator[tuple[Cluster, InMemorySpanExporter]]:
    """Run an operator on a new cluster with annotations, and yield a cluster of a user and the spans."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with Environment() as env, Cluster(env.config) as user:
        hook = OpenTelemetryHook(provider, annotate_objects=True)
        running = asyncio.create_task(operator.start(env.config, hooks=[hook]))
        await asyncio.sleep(5)
        exporter.clear()
        try:
            yield user, exporter
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_an_update_that_the_server_reverts_comes_to_rest() -> None:
    """Only the first one carries the annotation. Without it, the update has no effect, and causes no event."""
    operator, names = Operator("reverted"), list[str]()

    @operator.reconciler(unstructured_kind("v1", "ConfigMap"))
    async def reconcile(config: Unstructured, ctx: Context) -> None:
        names.append(config.metadata.name)
        config.content["unknown"] = {"field": "of a server that drops it"}
        await ctx.client.update(config)

    async with traced(operator) as (user, _):
        names.clear()
        await user.uncached.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
        await asyncio.sleep(3600)
    assert names == ["a", "a"]


async def test_a_blocking_reconciler_carries_its_context() -> None:
    """A thread has the span of its reconcile, so what it writes is linked."""
    operator = Operator("blocking")

    @operator.reconciler(ConfigMap)
    def reconcile(config: ConfigMap, ctx: BlockingContext) -> None:
        if config.metadata.name == "a":
            ctx.apply(ConfigMap(metadata=ObjectMeta(name="b", namespace="default")))

    async with traced(operator) as (user, exporter):
        await user.uncached.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
        await asyncio.sleep(60)
        first, *_ = [span for span in exporter.get_finished_spans() if span.name == "apply ConfigMap"]
        linked = [span for span in reconciles(exporter.get_finished_spans()) if span.links]
    assert linked
    assert all(link.context.span_id == first.context.span_id for span in linked for link in span.links)


async def test_combined_writes_are_links_of_one_reconcile() -> None:
    """The queue combines the events of several writes into one request."""
    operator, gate = Operator("combined"), asyncio.Event()

    @operator.reconciler(Deployment, owns=[ConfigMap])
    async def deployment(_: Deployment, __: Context) -> None:
        await gate.wait()

    writers = [f"00-{number:032x}-{number:016x}-01" for number in (1, 2, 3)]
    async with traced(operator) as (user, exporter):
        tree = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "default"}}
        live = await user.uncached.create(
            Unstructured.from_tree({**tree, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": POD}})
        )
        await asyncio.sleep(10)
        for replicas, traceparent in enumerate(writers, 2):
            annotations = {TRACEPARENT_ANNOTATION: traceparent}
            change = {"metadata": {"annotations": annotations}, "spec": {"replicas": replicas}}
            await user.uncached.patch(live, merge_patch(change))
            await asyncio.sleep(1)
        gate.set()
        await asyncio.sleep(60)
    (linked,) = [span for span in reconciles(exporter.get_finished_spans()) if span.links]
    assert [link.context.trace_id for link in linked.links] == [1, 2, 3]


async def test_a_policy_against_the_annotation_fails_no_reconcile() -> None:
    """An admission policy refuses the first annotated write; all writes succeed without the annotation."""
    operator = Operator("refused")

    @operator.reconciler(ConfigMap)
    async def reconcile(config: ConfigMap, ctx: Context) -> None:
        if config.metadata.name.startswith("a"):
            await ctx.apply(ConfigMap(metadata=ObjectMeta(name=f"child-{config.metadata.name}", namespace="default")))

    async with traced(operator) as (user, exporter):
        for tree in REFUSING_POLICY:
            await user.uncached.create(Unstructured.from_tree(tree))
        await asyncio.sleep(10)
        for name in ("a", "ab"):
            await user.uncached.create(ConfigMap(metadata=ObjectMeta(name=name, namespace="default")))
            await asyncio.sleep(60)
            child = await user.uncached.get(ConfigMap, f"default/child-{name}")
            assert TRACEPARENT_ANNOTATION not in child.metadata.annotations
        results = {str((span.attributes or {})["result"]) for span in reconciles(exporter.get_finished_spans())}
        attempts = [span for span in exporter.get_finished_spans() if span.name == "patch configmaps"]
    assert results == {"success"}
    assert len(attempts) == 3


async def test_a_retry_keeps_the_links_of_the_failed_attempt() -> None:
    """The trace does not end at a failure: each attempt links to the write that caused the first one."""
    operator, failures = Operator("retried"), iter([ValueError("no luck"), ValueError("no luck"), None])

    @operator.reconciler(ConfigMap)
    async def reconcile(config: ConfigMap, _: Context) -> None:
        if config.metadata.name == "a" and (failure := next(failures)) is not None:
            raise failure

    async with traced(operator) as (user, exporter):
        annotations = {TRACEPARENT_ANNOTATION: f"00-{7:032x}-{8:016x}-01"}
        meta = ObjectMeta(name="a", namespace="default", annotations=annotations)
        await user.uncached.create(ConfigMap(metadata=meta))
        await asyncio.sleep(60)
    attempts = [span for span in reconciles(exporter.get_finished_spans()) if (span.attributes or {})["name"] == "a"]
    assert [[link.context.trace_id for link in span.links] for span in attempts] == [[7], [7], [7]]
    assert [(span.attributes or {})["result"] for span in attempts] == ["error", "error", "success"]


async def test_a_trace_that_is_not_sampled_annotates_nothing() -> None:
    """No back end has its spans, so a link would lead nowhere."""
    hook = OpenTelemetryHook(TracerProvider(sampler=ALWAYS_OFF), annotate_objects=True)
    async with Environment() as env, Cluster(env.config, hook=hook) as cluster:
        with hook.reconcile(ReconcileStarted(controller="a")):
            live = await cluster.uncached.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
    assert live.metadata.annotations == {}
