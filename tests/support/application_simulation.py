"""The sample of ordered children, with a fake DNS that outlives the operator's process, for the simulator."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import envtest
from application.api import Application, ApplicationSpec
from application.children import migration
from fake_dns import make_doubles
from opsdk import ObjectMeta, crd_for
from opsdk.api.apps.v1 import Deployment, StatefulSet
from opsdk.api.batch.v1 import Job
from opsdk.api.core.v1 import Service
from opsdk.client.patch import merge_patch
from opsdk.recipes import get_condition, is_deleting
from opsdk.testing.simulate import Simulation, World

NAMESPACE = "default"


@asynccontextmanager
async def environment() -> AsyncIterator[Any]:
    """An environment with simulated workloads."""
    async with envtest.Environment(crds=[crd_for(Application)], controllers="cluster") as env:
        env.journal.clear()
        yield env


async def make_app(world: World) -> None:
    """Create an application with a name of its own."""
    name = f"app-{world.rng.randrange(10**6)}"
    spec = ApplicationSpec(image="app:1", migrate=["sleep", "2"], host=f"{name}.example.com")
    await world.client.create(Application(metadata=ObjectMeta(name=name, namespace=NAMESPACE), spec=spec))


async def _change(world: World, spec: dict[str, Any]) -> None:
    if apps := [app for app in await world.client.list(Application) if not is_deleting(app)]:
        await world.client.patch(world.rng.choice(apps), merge_patch({"spec": spec}))


async def change_image(world: World) -> None:
    """Change the image of an application."""
    await _change(world, {"image": f"app:{world.rng.randrange(5)}"})


async def change_host(world: World) -> None:
    """Change the name of an application in the DNS."""
    await _change(world, {"host": f"h-{world.rng.randrange(10**6)}.example.com"})


async def delete_app(world: World) -> None:
    """Delete an application."""
    if apps := await world.client.list(Application):
        await world.client.delete(world.rng.choice(list(apps)), missing_ok=True)


async def lose_a_record(world: World) -> None:
    """Remove a record, as another client of the DNS may."""
    if records := world.systems.records:
        del records[world.rng.choice(sorted(records))]


async def applications_serve(world: World) -> None:
    """Each application serves its image by its name, with the Job of this image; nothing is left of the others."""
    apps = {app.metadata.name: app for app in await world.client.list(Application)}
    jobs = {job.metadata.name for job in await world.client.list(Job, namespace=NAMESPACE)}
    images = {
        d.metadata.name: d.spec.template.spec.containers[0].image  # type: ignore[union-attr]
        for d in await world.client.list(Deployment, namespace=NAMESPACE)
    }
    for name, app in apps.items():
        assert not is_deleting(app), f"{name} is not let go"
        assert app.status is not None, f"{name} has no status"
        ready = get_condition(app.status.conditions, "Ready")
        assert ready is not None, f"{name} does not say whether it is ready"
        assert (ready.status, ready.observed_generation) == ("True", app.metadata.generation), f"{name} is {ready}"
        assert app.status.image == images.get(f"{name}-web") == app.spec.image, f"{name} serves {app.status.image}"
        record = world.systems.records.get(app.status.record.id)
        assert record is not None, f"{name} has lost its record"
        assert record.host == app.spec.host, f"{name} is known as {record.host}"
    assert jobs == {migration(app).metadata.name for app in apps.values()}, f"Jobs: {jobs}"
    assert len(images) == len(world.systems.records) == len(apps), "an object or a record is left over"
    for kind in (StatefulSet, Service):
        names = {obj.metadata.name for obj in await world.client.list(kind, namespace=NAMESPACE)} - {"kubernetes"}
        assert {name.rpartition("-")[0] for name in names} == set(apps), f"{kind.__name__}s: {names}"


async def images_are_migrated_before_they_serve(world: World) -> None:
    """A Deployment gets an image when a Job of the image has succeeded."""
    migrated = set[tuple[str, str]]()
    for entry in world.env.journal:
        tree = entry.after
        if tree is None or entry.ref.resource not in ("jobs", "deployments"):
            continue
        image = tree["spec"]["template"]["spec"]["containers"][0]["image"]
        served = tree["metadata"]["labels"]["app.kubernetes.io/instance"], image
        if entry.ref.resource == "deployments":
            assert served in migrated, f"{served} serves before its migration"
        elif tree.get("status", {}).get("succeeded"):
            migrated.add(served)


APPLICATIONS = Simulation(
    doubles=make_doubles,
    environment=environment,
    actions=[make_app, change_image, change_host, delete_app, lose_a_record],
    check=applications_serve,
    invariants=[images_are_migrated_before_they_serve],
    children=[Job, Service],
    max_actions=7,
)
