"""Ordered children under faults: they converge, in their order, and go in the reverse one."""

from __future__ import annotations

from typing import Any

import pytest
from boxes import Box, BoxSpec, box
from ordered_boxes import boxes, broken_order, make_sequence_operator, make_set_operator
from shops import Service, Shop, make_operator, shop

import envtest
from opsdk import MergeFrom, crd_for
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.apimachinery.object import deep_copy
from opsdk.client.patch import merge_patch
from opsdk.recipes import get_condition, is_deleting
from opsdk.testing.doubles import ClusterSnapshot, Doubles
from opsdk.testing.simulate import Simulation, World, simulate


async def make_box(world: World) -> None:
    """Create a box with a name of its own."""
    await world.client.create(box(f"box-{world.rng.randrange(10**6)}"))


async def edit_box(world: World) -> None:
    """Change the size of a box."""
    live = [obj for obj in await world.client.list(Box) if not is_deleting(obj)]
    if live:
        obj = world.rng.choice(live)
        before = deep_copy(obj)
        obj.spec = BoxSpec(size=world.rng.randrange(10))
        await world.client.patch(obj, MergeFrom(before))


async def delete_box(world: World) -> None:
    """Delete a box."""
    if objects := await world.client.list(Box):
        await world.client.delete(world.rng.choice(list(objects)), missing_ok=True)


async def boxes_are_ready(world: World) -> None:
    """Each box has its children and the condition; nothing is left of the others."""
    objects = {obj.metadata.name: obj for obj in await world.client.list(Box)}
    configs = {config.metadata.name: config for config in await world.client.list(ConfigMap, namespace="default")}
    secrets = {secret.metadata.name for secret in await world.client.list(Secret, namespace="default")}
    for name, obj in objects.items():
        assert not is_deleting(obj), f"{name} is not let go"
        assert f"{name}-creds" in secrets, f"{name} has no Secret"
        for role in ("db", "cache", "web"):
            assert f"{name}-{role}" in configs, f"{name} has no {role}"
            assert configs[f"{name}-{role}"].data["size"] == str(obj.spec.size), f"{name} has an old {role}"
        ready = get_condition(obj.status.conditions if obj.status else [], "Ready")
        assert ready is not None, f"{name} does not say whether it is ready"
        assert (ready.status, ready.observed_generation) == ("True", obj.metadata.generation), f"{name} is {ready}"
    for name in [*configs, *secrets]:
        assert not name.startswith("box-") or name.rpartition("-")[0] in objects, f"{name} is left over"


async def children_keep_their_order(world: World) -> None:
    """A child is created when those before it have been ready, and deleted when those after it are gone."""
    deleted = {e.path.rpartition("/")[2] for e in world.exchanges if e.method == "DELETE" and e.status == 200}
    problems = broken_order(world.env.journal, deleted)
    assert not problems, problems


def simulation(operator: Any) -> Simulation:
    """Return the simulation of an operator."""
    return Simulation(
        operator=operator,
        environment=boxes,
        actions=[make_box, edit_box, delete_box],
        check=boxes_are_ready,
        invariants=[children_keep_their_order],
        children=[ConfigMap, Secret],
        max_actions=7,
    )


# ---------------------------------------------------------------- external resources
def make_service(_: ClusterSnapshot) -> Doubles[Service]:
    """A service without resources, and the operator that uses it."""
    service = Service()
    return Doubles(operator=lambda: make_operator(service), systems=service)


async def make_shop(world: World) -> None:
    """Create a shop with a name of its own."""
    await world.client.create(shop(f"shop-{world.rng.randrange(10**6)}"))


async def edit_shop(world: World) -> None:
    """Change the size of a shop."""
    live = [obj for obj in await world.client.list(Shop) if not is_deleting(obj)]
    if live:
        patch = {"spec": {"size": world.rng.randrange(10)}}
        await world.client.patch(world.rng.choice(live), merge_patch(patch))


async def delete_shop(world: World) -> None:
    """Delete a shop."""
    if objects := await world.client.list(Shop):
        await world.client.delete(world.rng.choice(list(objects)), missing_ok=True)


async def lose_a_resource(world: World) -> None:
    """Remove a resource of the service, as another client of it may."""
    if items := world.systems.items:
        del items[world.rng.choice(sorted(items))]


async def shops_have_their_resources(world: World) -> None:
    """Each shop has one bucket and one domain of its size, and its children; nothing is left of the others."""
    live = {item.id: item for item in world.systems.items.values() if not item.gone_at}
    ids = set[str]()
    for obj in await world.client.list(Shop):
        name = obj.metadata.name
        assert not is_deleting(obj), f"{name} is not let go"
        assert obj.status is not None, f"{name} has no status"
        ready = get_condition(obj.status.conditions, "Ready")
        assert ready is not None, f"{name} does not say whether it is ready"
        assert (ready.status, ready.observed_generation) == ("True", obj.metadata.generation), f"{name} is {ready}"
        for status in (obj.status.bucket, obj.status.domain):
            assert status.id in live, f"{name} has lost {status.id}"
            assert live[status.id].size == obj.spec.size, f"{status.id} of {name} has an old size"
            ids.add(status.id)
        last = await world.client.get_or_none(ConfigMap, f"default/{name}-last")
        assert last is not None, f"{name} has no last child"
        assert last.data == {"bucket": obj.status.bucket.id}, f"{name} has another bucket"
    assert set(live) == ids, f"{set(live) - ids} are left over"


async def nothing_is_created_twice(world: World) -> None:
    """While a resource is there, no second one with its token is created."""
    assert not world.systems.twice, f"created twice: {world.systems.twice}"


async def resources_go_in_reverse(world: World) -> None:
    """A bucket is deleted when the domain of its shop is gone."""
    assert not world.systems.too_early, f"deleted too early: {world.systems.too_early}"


EXTERNAL = Simulation(
    doubles=make_service,
    environment=lambda: envtest.Environment(crds=[crd_for(Shop)]),
    actions=[make_shop, edit_shop, delete_shop, lose_a_resource],
    check=shops_have_their_resources,
    invariants=[nothing_is_created_twice, resources_go_in_reverse],
    children=[ConfigMap],
    max_actions=7,
)


@pytest.mark.slow
def test_external_resources_converge() -> None:
    """Whatever happens to server, network and process, each resource exists once, and goes in its place.

    In schedule 80 a resource is lost, and the id of its successor cannot be written.
    """
    simulate(EXTERNAL, [80, *range(3)], name="EXTERNAL")


SET = simulation(make_set_operator)
SEQUENCE = simulation(make_sequence_operator)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "chosen"), [("SET", SET), ("SEQUENCE", SEQUENCE)])
def test_ordered_children_converge(name: str, chosen: Simulation) -> None:
    """Whatever happens to server, network and process, the children come and go in their order.

    In the schedules 237 and 251 a child is created and deleted in a gap of the watch, which shows neither.
    """
    simulate(chosen, [237, 251, *range(2)], name=name)
