"""Generating handlers: the objects that a function returns exist, and the others do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from opsdk import Context, ObjectMeta
from opsdk.api.core.v1 import ConfigMap, Namespace, Secret
from opsdk.api.rbac.v1 import ClusterRole
from opsdk.errors import UsageError
from opsdk.lifecycle.generating import GeneratingHandler, GeneratingOptions, generates
from opsdk.lifecycle.generic_controller import GenericController


def named(name: str, namespace: str = "", **data: str) -> ConfigMap:
    """Return a ConfigMap to generate."""
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data=data)


async def maps(world: Any, namespace: str = "default") -> list[str]:
    """Return the names of the generated ConfigMaps."""
    return sorted(m.metadata.name for m in await world.user.list(ConfigMap, namespace=namespace) if m.data.get("by"))


async def update(world: Any, **annotations: str) -> None:
    """Change the annotations of the Site."""
    site = await world.user.get(world.Site, "default/a")
    site.metadata.annotations.update(annotations)
    await world.user.update(site)


async def test_an_object_that_is_no_longer_yielded_is_pruned(world: Any) -> None:
    """Wrangler GeneratingHandler: one that is not yielded is pruned; {a,b} -> {b,c} leaves b alone."""
    await world.site(annotations={"names": "a b"})
    controller = GenericController(world.cluster, world.Site)

    @generates(controller, ConfigMap)
    async def configuration(site: Any) -> AsyncIterator[ConfigMap]:
        for name in site.metadata.annotations["names"].split():
            yield named(name, by="site")

    async with world.running(controller):
        await world.until(lambda: _equal(maps(world), ["a", "b"]))
        before = await world.user.get(ConfigMap, "default/b")
        await update(world, names="b c")
        await world.until(lambda: _equal(maps(world), ["b", "c"]))
        after = await world.user.get(ConfigMap, "default/b")
        assert after.metadata.resource_version == before.metadata.resource_version
        assert after.metadata.owner_references[0].kind == "Site"
        await world.user.delete(after)  # a change by others is repaired
        await world.until(lambda: _equal(maps(world), ["b", "c"]))
        async with world.env.no_writes():
            controller.enqueue("default", "a")
            await asyncio.sleep(10)
    assert repr(configuration) == "<GeneratingHandler configuration: ConfigMap>"


async def _equal(names: Any, expected: list[str]) -> bool:
    return await names == expected


@pytest.mark.parametrize(
    ("child", "text"),
    [
        (named("x", "other", by="site"), "set allow_cross_namespace"),
        (ClusterRole(metadata=ObjectMeta(name="x")), "set allow_cluster_scoped"),
        (Secret(metadata=ObjectMeta(name="x")), "add it to kinds"),
        ("x", "return typed or unstructured objects"),
    ],
)
async def test_what_the_options_do_not_allow(world: Any, child: Any, text: str) -> None:
    """Wrangler GeneratingHandler, options: an object that they do not allow is an error with the option's name."""
    await world.site()
    controller = GenericController(world.cluster, world.Site)

    @generates(controller, ConfigMap, ClusterRole)
    async def wrong(site: Any) -> list[Any]:
        return [child]

    async with world.running(controller):
        record = await controller.controller.reconcile_once(controller.keys()[0])
    assert text in record.detail


async def test_objects_without_owner_reference(world: Any) -> None:
    """Wrangler GeneratingHandler: cross-namespace and cluster-scoped objects are pruned, and go with their owner."""
    await world.user.create(Namespace(metadata=ObjectMeta(name="other")))
    site = await world.site(annotations={"names": "a b"})
    controller = GenericController(world.cluster, world.Site)
    options = GeneratingOptions(allow_cross_namespace=True, allow_cluster_scoped=True)

    @generates(controller, ConfigMap, ClusterRole, options=options)
    async def far(site: Any, ctx: Context) -> list[Any]:
        names = site.metadata.annotations["names"].split()
        return [*(named(n, "other", by="x") for n in names), named("near", by="x"), _role("far")]

    async with world.running(controller):
        await world.until(lambda: _equal(maps(world, "other"), ["a", "b"]))
        copy = await world.user.get(ConfigMap, "other/a")
        assert copy.metadata.owner_references == []
        own_copy = named("copy", "other", by="user")
        own_copy.metadata.labels, own_copy.metadata.annotations = copy.metadata.labels, copy.metadata.annotations
        await world.user.create(own_copy)
        await update(world, names="b")
        await world.until(lambda: _equal(maps(world, "other"), ["b", "copy"]))
        await world.user.delete(await world.user.get(ConfigMap, "other/b"))
        await world.until(lambda: _equal(maps(world, "other"), ["b", "copy"]))
        await world.user.delete(site)

        async def gone() -> bool:
            return await world.user.get_or_none(world.Site, "default/a") is None

        await world.until(gone)
    assert await maps(world, "other") == ["copy"]
    assert await world.user.get_or_none(ClusterRole, "far") is None


def _role(name: str) -> ClusterRole:
    return ClusterRole(metadata=ObjectMeta(name=name))


async def test_kinds_that_are_not_declared(world: Any) -> None:
    """Wrangler GeneratingHandler, DynamicLookup: kinds are recorded on the owner, for other processes."""
    await world.site(annotations={"names": "a"})
    options = GeneratingOptions(dynamic_lookup=True)

    async def dynamic(site: Any) -> list[Any]:
        return [named(name, by="x") for name in site.metadata.annotations["names"].split()]

    for names, expected in (("a", ["a"]), ("", [])):
        controller = GenericController(world.cluster, world.Site)
        generates(controller, options=options)(dynamic)
        await update(world, names=names)
        async with world.running(controller):
            await world.until(lambda expected=expected: _equal(maps(world), expected))
    site = await world.user.get(world.Site, "default/a")
    assert site.metadata.annotations["objectset.opsdk.dev/kinds.dynamic"] == "v1/ConfigMap"


async def test_one_apply_for_a_resource_version(world: Any) -> None:
    """Wrangler GeneratingHandler, UniqueApplyForResourceVersion: one call for a version of the owner."""
    calls: list[str] = []
    await world.site()
    controller = GenericController(world.cluster, world.Site)

    @generates(controller, ConfigMap, options=GeneratingOptions(unique_apply_for_resource_version=True))
    async def single(site: Any) -> list[ConfigMap]:
        calls.append(site.metadata.resource_version)
        return [named("a", by="x")]

    async with world.running(controller):
        await world.until(lambda: calls)
        controller.enqueue("default", "a")
        await asyncio.sleep(10)
        await update(world, changed="yes")
        await world.until(lambda: len(calls) == 2)
        await asyncio.sleep(10)
    assert len(set(calls)) == len(calls) == 2


async def test_a_handler_without_kinds_is_refused() -> None:
    """Bad input: nothing would be pruned."""

    async def generate(site: Any) -> None: ...

    with pytest.raises(UsageError, match="declares no kinds"):
        GeneratingHandler("a", generate, kinds=[])
