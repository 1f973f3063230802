"""Which objects are cached: precedence of options, and their change at run time."""

from __future__ import annotations

import asyncio

import pytest
from cache_world import THING, mapping

from opsdk.api.core.v1 import ConfigMap, Namespace
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.selectors import FieldSelector, LabelRequirements
from opsdk.cache.options import ALL_NAMESPACES, ByObject, CacheOptions, NamespaceOptions, scopes
from opsdk.cache.store import Delta, DeltaType
from opsdk.cluster.cluster import Cluster
from opsdk.errors import UnknownNamespaceError
from opsdk.structured_merge.value import JsonObject

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")
MAPPING = mapping(THING.gvk)
RED, BLUE = LabelRequirements.equal({"color": "red"}), LabelRequirements.equal({"color": "blue"})


def stripped(tree: JsonObject) -> JsonObject:
    """A transform."""
    return tree


def test_the_first_set_option_of_four_levels_wins() -> None:
    """The order is: the kind's options for a namespace, the kind's, the cache's for a namespace, the cache's."""
    own = ByObject(label_selector=RED, resync=5.0)
    options = CacheOptions(
        namespaces={"a": NamespaceOptions(label_selector=BLUE, transform=stripped), "b": NamespaceOptions()},
        by_kind={THING.gvk: own},
        resync=9.0,
    )
    resolved = scopes(options, MAPPING)
    assert [resolved["a"].label_selector, resolved["a"].transform, resolved["a"].resync] == [RED, stripped, 5.0]
    assert resolved["b"].transform is None
    other = scopes(CacheOptions(namespaces={"a": NamespaceOptions(label_selector=BLUE)}), MAPPING)
    assert other["a"].label_selector == BLUE
    inner = ByObject(namespaces={"c": NamespaceOptions(label_selector=BLUE)}, label_selector=RED)
    assert scopes(CacheOptions(by_kind={THING.gvk: inner}), MAPPING)["c"].label_selector == BLUE


def test_all_namespaces_stands_for_those_that_are_not_named() -> None:
    """Beside named namespaces, ``ALL_NAMESPACES`` stands for those that are not named."""
    options = CacheOptions(namespaces={"a": NamespaceOptions(label_selector=RED), ALL_NAMESPACES: NamespaceOptions()})
    resolved = scopes(options, MAPPING)
    assert str(resolved[ALL_NAMESPACES].field_selector) == "metadata.namespace!=a"
    assert resolved[ALL_NAMESPACES].label_selector == LabelRequirements()


def test_a_field_selector_for_a_namespace_is_a_namespaced_list() -> None:
    """A selector for one namespace becomes a list of that namespace, which needs fewer permissions."""
    [scope] = scopes(CacheOptions(field_selector=FieldSelector.equal({"metadata.namespace": "a"})), MAPPING).values()
    assert (scope.namespace, str(scope.field_selector)) == ("a", "")


async def test_cache_options_can_change_while_the_cache_runs() -> None:
    """Namespaces come and go: handlers hear of every object that enters or leaves, others are not disturbed."""
    deltas: list[Delta] = []
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        for name in ("a", "b", "c"):
            await cluster.uncached.create(Namespace(metadata=ObjectMeta(name=name)))
            meta = ObjectMeta(name=f"in-{name}", namespace=name, labels={"mine": "yes"})
            await cluster.uncached.create(ConfigMap(metadata=meta))
        cache = cluster.cache
        running = asyncio.create_task(cluster.start())
        await cluster.wait_ready()
        selector = LabelRequirements.equal({"mine": "yes"})
        await cache.configure(ConfigMap, ByObject(namespaces=("a", "b"), label_selector=selector))
        cached = await cache.informer_for(ConfigMap)
        cached.add_handler(deltas.append)
        await cached.wait_synced()
        informer = cached.informers["b"]
        await cache.configure(ConfigMap, ByObject(namespaces=("b", "c"), label_selector=selector))
        await cached.wait_synced()
        await asyncio.sleep(1)
        assert cached.informers["b"] is informer
        assert [(d.change, d.entry.key.name) for d in deltas] == [
            (DeltaType.ADDED, "in-a"),
            (DeltaType.ADDED, "in-b"),
            (DeltaType.DELETED, "in-a"),
            (DeltaType.ADDED, "in-c"),
        ]
        assert {item.metadata.name for item in await cluster.client.list(ConfigMap)} == {"in-b", "in-c"}
        with pytest.raises(UnknownNamespaceError):
            await cluster.client.get(ConfigMap, "a/in-a")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
