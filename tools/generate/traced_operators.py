"""Three operators in one simulated cluster, with their spans in memory. Each reacts to what another one writes.

``shops`` applies a Website for each Shop, ``websites`` a Deployment for each Website, and ``alerts`` a ConfigMap for
each Deployment. Each has a tracer provider of its own, as in a process of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from envtest.environment import Environment
from opsdk import Cluster, Context, GroupVersionKind, Model, Object, ObjectMeta, Operator, Unstructured, crd_for
from opsdk.aio.virtual_loop import VirtualLoop
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import ConfigMap
from opsdk.telemetry.otel import OpenTelemetryHook

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

_GROUP = "demo.opsdk.dev"
_TREE = {
    "selector": {"matchLabels": {"app": "web"}},
    "template": {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "nginx:1.27"}]},
    },
}


class ShopSpec(Model):
    """The desired state of a Shop."""

    customers: int = 1


class Shop(Object[ShopSpec, None]):
    """A shop, which needs a website."""

    gvk = GroupVersionKind(_GROUP, "v1", "Shop")


class WebsiteSpec(Model):
    """The desired state of a Website."""

    replicas: int = 1


class Website(Object[WebsiteSpec, None]):
    """A website, which needs a Deployment."""

    gvk = GroupVersionKind(_GROUP, "v1", "Website")


def shops() -> Operator:
    """Return the operator of shops."""
    operator = Operator("shops")

    @operator.reconciler(Shop, owns=[Website])
    async def shop(shop: Shop, ctx: Context) -> None:
        meta = ObjectMeta(name=shop.metadata.name, namespace=shop.metadata.namespace)
        await ctx.apply(Website(metadata=meta, spec=WebsiteSpec(replicas=shop.spec.customers)))

    return operator


def websites() -> Operator:
    """Return the operator of websites."""
    operator = Operator("websites")

    @operator.reconciler(Website, owns=[Deployment])
    async def website(site: Website, ctx: Context) -> None:
        meta = {"name": site.metadata.name, "namespace": site.metadata.namespace}
        tree = {"metadata": meta, "spec": {**_TREE, "replicas": site.spec.replicas}}
        await ctx.apply(Unstructured.from_tree({"apiVersion": "apps/v1", "kind": "Deployment", **tree}))

    return operator


def alerts() -> Operator:
    """Return the operator of alerts."""
    operator = Operator("alerts")

    @operator.reconciler(Deployment, owns=[ConfigMap])
    async def deployment(deployment: Deployment, ctx: Context) -> None:
        meta = ObjectMeta(name=f"{deployment.metadata.name}-alerts", namespace=deployment.metadata.namespace)
        rule = f"up < {deployment.spec.replicas}"
        await ctx.apply(ConfigMap(metadata=meta, data={"rule": rule}))

    return operator


OPERATORS: Sequence[Callable[[], Operator]] = (shops, websites, alerts)


@asynccontextmanager
async def traced_operators(exporter: SpanExporter, *, annotate_objects: bool = True) -> AsyncIterator[Cluster]:
    """Run the operators on a new cluster, with spans that go to `exporter`. Yields a cluster of a user.

    Args:
        exporter: gets the spans of all operators; the attribute ``service.name`` of a span's resource is the operator.
        annotate_objects: see `OpenTelemetryHook`.
    """
    async with Environment() as env, Cluster(env.config) as user:
        for kind in (Shop, Website):
            await user.uncached.create(Unstructured.from_tree(crd_for(kind)))
        await asyncio.sleep(1)
        hooks = [
            OpenTelemetryHook(_provider(make.__name__, exporter), annotate_objects=annotate_objects)
            for make in OPERATORS
        ]
        running = [
            asyncio.create_task(make().start(env.config, hooks=[hook]), name=make.__name__)
            for make, hook in zip(OPERATORS, hooks, strict=True)
        ]
        try:
            await asyncio.sleep(5)
            yield user
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)


def _provider(name: str, exporter: SpanExporter) -> TracerProvider:
    """Return a tracer provider of one operator."""
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - only this needs the SDK
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: PLC0415

    provider = TracerProvider(resource=Resource({"service.name": name}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


async def spans_of_one_shop() -> Sequence[ReadableSpan]:
    """Return the spans of all operators from the creation of a Shop until nothing is left to do."""
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import (  # noqa: PLC0415 - as above
        InMemorySpanExporter,
    )

    exporter = InMemorySpanExporter()
    async with traced_operators(exporter) as user:
        exporter.clear()
        await user.uncached.create(Shop(metadata=ObjectMeta(name="books", namespace="default"), spec=ShopSpec()))
        await asyncio.sleep(60)
        return exporter.get_finished_spans()


def record_spans() -> Sequence[ReadableSpan]:
    """Return the spans of `spans_of_one_shop` in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(spans_of_one_shop())
