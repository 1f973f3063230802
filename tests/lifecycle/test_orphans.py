"""Finalizers of a program that is gone: found, reported, removed."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from envtest.testing.effects import Conflict
from opsdk import ObjectMeta
from opsdk.api.core.v1 import ConfigMap, Namespace
from opsdk.errors import ConflictError, UsageError
from opsdk.lifecycle.generic_controller import GenericController
from opsdk.lifecycle.orphans import drain, drain_all

OURS = "controller.cattle.io/dns"


class Lifecycle:
    """A lifecycle with a finalizer."""

    async def remove(self, obj: Any) -> None: ...


@pytest.mark.k8s(controllers="cluster")
async def test_an_uninstall_leaves_no_finalizers(world: Any) -> None:
    """Norman Orphaned finalizer pain: after the uninstall no object has our finalizers, and the namespace ends."""
    await world.user.create(Namespace(metadata=ObjectMeta(name="shop")))
    controller = GenericController(world.cluster, ConfigMap)
    controller.add_lifecycle("dns", Lifecycle(), when=lambda obj: obj.metadata.name == "b")
    sites = GenericController(world.cluster, world.Site)
    sites.add_lifecycle("dns", Lifecycle())
    await world.site("a", "shop")
    await world.config("b", "shop")

    async def prepared() -> bool:
        objects = [await world.user.get(world.Site, "shop/a"), await world.user.get(ConfigMap, "shop/b")]
        return all(OURS in obj.metadata.finalizers for obj in objects)

    async with world.running(controller, sites):
        await world.until(prepared)
    # The program is gone. Without it, the deletion of the namespace waits forever.
    await world.user.delete(Namespace, "shop")
    await asyncio.sleep(600)
    assert await world.user.get_or_none(Namespace, "shop") is not None
    planned = await drain_all(world.cluster, [OURS], dry_run=True)
    result = await drain_all(world.cluster, [OURS])
    assert planned == result
    assert result.problems == ()
    assert sorted(str(one) for one in result.drained) == [
        f"ConfigMap shop/b, which is being deleted: {OURS}",
        f"Site shop/a, which is being deleted: {OURS}",
    ]

    async def gone() -> bool:
        return await world.user.get_or_none(Namespace, "shop") is None

    await world.until(gone)
    assert (await drain_all(world.cluster, ["controller.cattle.io/"])).drained == ()


async def test_only_the_named_finalizers_go(world: Any) -> None:
    """A prefix matches all names below it; finalizers of others keep their place; a dry run writes nothing."""
    finalizers = ["x.example.com/1", OURS, "controller.cattle.io/vpn", "x.example.com/2"]
    await world.config("a", meta={"finalizers": finalizers})
    await world.config("b", meta={"finalizers": ["x.example.com/1"]})
    async with world.env.no_writes():
        (planned,) = await drain(world.cluster, ConfigMap, ["controller.cattle.io/"], dry_run=True)
    (drained,) = await drain(world.cluster, ConfigMap, ["controller.cattle.io/"])
    assert planned == drained
    assert drained.finalizers == (OURS, "controller.cattle.io/vpn")
    assert (await world.read("a")).metadata.finalizers == ["x.example.com/1", "x.example.com/2"]
    assert await drain(world.cluster, ConfigMap, ["controller.cattle.io/"]) == []


async def test_other_writers_are_respected(world: Any) -> None:
    """Conflicts are retried with the newest object; an endless one is an error, and other kinds are drained."""
    await world.config("a", meta={"finalizers": [OURS]})
    world.env.faults.add(Conflict(), verb="patch", resource="configmaps", times=2)
    assert len(await drain(world.cluster, ConfigMap, [OURS])) == 1
    await world.config("b", meta={"finalizers": [OURS]})
    await world.site(finalizers=[OURS])
    world.env.faults.add(Conflict(), verb="patch", resource="configmaps")
    with pytest.raises(ConflictError, match="ConfigMap default/b changed 5 times"):
        await drain(world.cluster, ConfigMap, [OURS])
    result = await drain_all(world.cluster, [OURS])
    assert [one.gvk.kind for one in result.drained] == ["Site"]
    assert [gvk.kind for gvk, _ in result.problems] == ["ConfigMap"]


@pytest.mark.parametrize("names", [[], [""], ["/"], ["orphan"], ["foregroundDeletion"]])
async def test_finalizers_of_kubernetes_are_refused(world: Any, names: list[str]) -> None:
    """Bad input: empty names, and finalizers that belong to Kubernetes, are refused before any request."""
    with pytest.raises(UsageError):
        await drain(world.cluster, ConfigMap, names)


async def test_an_unknown_finalizer_is_reported_once(world: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A finalizer with the prefix of our lifecycles that none of them has is one warning with the command to run."""
    for name in ("a", "b"):
        await world.config(name, meta={"finalizers": ["controller.cattle.io/old", "x.example.com/1", OURS]})
    controller = GenericController(world.cluster, ConfigMap)
    controller.add_lifecycle("dns", Lifecycle())
    with caplog.at_level(logging.WARNING):
        async with world.running(controller):
            await asyncio.sleep(10)
    (record,) = [r for r in caplog.records if "finalizer" in r.getMessage()]
    assert ("opsdk cleanup --finalizers controller.cattle.io/old --kind ConfigMap") in record.getMessage()
