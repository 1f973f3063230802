"""Metrics of informers over a whole server in this process."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.cache.health import InformerHealth, InformerState
from opsdk.cache.metrics import InformerCollector
from opsdk.cluster.cluster import Cluster

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")


def samples(collector: InformerCollector) -> dict[str, float]:
    """Each sample by its name without the prefix; all belong to one informer."""
    registry = CollectorRegistry()
    registry.register(collector)
    return {
        sample.name.removeprefix("opsdk_informer_"): sample.value
        for metric in registry.collect()
        for sample in metric.samples
    }


def config_map(name: str, **data: str) -> ConfigMap:
    """A config map in the default namespace."""
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data=data)


async def test_metrics_show_the_health_of_an_informer() -> None:
    """Objects, bytes, lists, watches, events, and the delay of own writes follow what happens."""
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        collector = InformerCollector(cluster.cache.health)
        assert "objects" not in samples(collector)
        running = asyncio.create_task(cluster.start())
        await cluster.wait_ready()
        await cluster.uncached.create(config_map("a", x="y" * 1000))
        await cluster.client.list(ConfigMap, namespace="default")
        before = samples(collector)
        assert (before["ready"], before["lists_total"], before["errors_total"]) == (1, 1, 0)
        assert 1000 < before["bytes"] < 2000
        await cluster.client.create(config_map("b"))
        await asyncio.sleep(1)
        after = samples(collector)
        assert after["objects"] == before["objects"] + 1
        assert after["bytes"] > before["bytes"]
        assert after["events_total"] > before["events_total"]
        assert after["own_write_delay_seconds_count"] == 1
        assert after["own_write_delay_seconds_sum"] <= 1
        await cluster.uncached.delete_all_of(ConfigMap, namespace="default")
        await asyncio.sleep(1)
        assert samples(collector)["bytes"] < before["bytes"]
        env.faults.expire_watches()
        env.faults.drop_watches()
        await asyncio.sleep(60)
        assert samples(collector)["lists_total"] == 2
        assert samples(collector)["seconds_since_contact"] <= 60
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def test_unknown_values_have_no_sample() -> None:
    """Before the first list there is no sample of the time since the last contact."""
    health = InformerHealth(
        name="pods", state=InformerState.SYNCING, seconds_since_contact=None, seconds_without_watch=3.0,
        last_error=None, failing_functions=(), function_failures=2, objects=0,
    )  # fmt: skip
    families = samples(InformerCollector(lambda: [health]))
    assert "seconds_since_contact" not in families
    assert (families["ready"], families["seconds_without_watch"], families["function_failures_total"]) == (0, 3, 2)
