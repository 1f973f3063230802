"""The operator's process ends at any await: the next one mends everything."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from boxes import Box, box, environment
from ordered_boxes import boxes, broken_order, make_set_operator
from shops import Service, Shop, make_operator, shop
from slow_cases import mostly_slow

from opsdk import Client, Cluster, crd_for
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.apimachinery.object import to_dict
from opsdk.client.patch import merge_patch
from tests.controller.kills import Killer, supervised

# Larger than the number of awaits of the longest run, which a test checks.
SET_AWAITS, EXTERNAL_AWAITS = 70, 84
_CHANGING = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "lastTransitionTime")


def without_ids(value: Any) -> Any:
    """Return a tree without what differs in each run."""
    if isinstance(value, dict):
        return {key: without_ids(item) for key, item in value.items() if key not in _CHANGING}
    return [without_ids(item) for item in value] if isinstance(value, list) else value


async def objects_of(client: Client) -> dict[str, Any]:
    """Return the boxes and what they own, by kind and name."""
    objects = [obj for kind in (Box, ConfigMap, Secret) for obj in await client.list(kind, namespace="default")]
    return {
        f"{obj.gvk.kind} {obj.metadata.name}": without_ids(to_dict(obj))
        for obj in objects
        if obj.metadata.name.startswith("box-")
    }


async def life_of_a_box(at: int) -> tuple[list[dict[str, Any]], Killer]:
    """Create, change and delete a box with ordered children. Returns what is stored after each, and the killer."""
    killer, stages = Killer(at), []
    async with boxes() as env, Cluster(env.config) as outside, supervised(make_set_operator, env.config, killer):
        client = outside.uncached
        await asyncio.sleep(1)
        obj = await client.create(box("box-1"))
        await asyncio.sleep(25)
        stages.append(await objects_of(client))
        await client.patch(obj, merge_patch({"spec": {"size": 7}}))
        await asyncio.sleep(25)
        stages.append(await objects_of(client))
        await client.delete(obj)
        await asyncio.sleep(25)
        stages.append(await objects_of(client))
        names = {f"box-1-{role}" for role in ("creds", "db", "cache", "web")}
        problems = broken_order(env.journal, names)
        assert not problems, problems
    return stages, killer


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, Any]:
    """What the run without a kill stored, which the first test keeps here."""
    return {}


@pytest.mark.parametrize("at", mostly_slow(range(SET_AWAITS), every=5))
async def test_a_killed_ordered_set_ends_as_an_undisturbed_one(at: int, undisturbed: dict[str, Any]) -> None:
    """After the creation, the change and the deletion the server has the same objects, and the order always held."""
    if not undisturbed:
        undisturbed["stages"], killer = await life_of_a_box(0)
        created, changed, deleted = undisturbed["stages"]
        assert len(created) == len(changed) == 5
        assert deleted == {}
        assert changed["ConfigMap box-1-web"]["data"] == {"size": "7", "seen": "7"}
        assert 20 < killer.count < SET_AWAITS
    stages, killer = await life_of_a_box(at)
    assert stages == undisturbed["stages"]
    assert killer.killed or not 0 < at <= killer.count


@pytest.mark.parametrize("at", mostly_slow(range(EXTERNAL_AWAITS), every=5))
async def test_a_kill_beside_external_resources_is_mended_by_the_next_reconcile(at: int) -> None:
    """Wherever the process ends, each resource exists once in the end, and nothing is left after the deletion."""
    killer, service = Killer(at), Service()
    service.deletion_seconds = 0.5  # fewer observations, and so fewer places for a kill

    async def step(call: str) -> None:
        await killer.step()

    service.step = step
    async with (
        environment.Environment(crds=[crd_for(Shop)]) as env,
        Cluster(env.config) as outside,
        supervised(lambda: make_operator(service), env.config, killer),
    ):
        client = outside.uncached
        await asyncio.sleep(1)
        await client.create(shop())
        await asyncio.sleep(50)
        obj = await client.get(Shop, "default/a")
        assert obj.status is not None
        assert set(service.items) == {obj.status.bucket.id, obj.status.domain.id}
        assert service.created == 2
        assert (await client.get(ConfigMap, "default/a-last")).data == {"bucket": obj.status.bucket.id}
        await client.delete(shop())
        await asyncio.sleep(50)
        assert not service.items
        assert await client.get_or_none(Shop, "default/a") is None
        assert not [c for c in await client.list(ConfigMap, namespace="default") if c.metadata.owner_references]
    assert killer.count < EXTERNAL_AWAITS
    assert killer.killed or not 0 < at <= killer.count
