"""The operator between the in-process API server and the fake DNS, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

import envtest
from application.api import Application, ApplicationSpec
from application.children import migration
from application.dns import DnsClient, DnsError, Record
from fake_dns import FakeDns, make_doubles
from opsdk import Client, Cluster, Condition, ObjectMeta, Unstructured, crd_for
from opsdk.api.apps.v1 import Deployment, StatefulSet
from opsdk.api.batch.v1 import Job
from opsdk.api.core.v1 import Service
from opsdk.apiserver import ServeOptions, WebServer
from opsdk.client.patch import merge_patch
from opsdk.recipes import get_condition
from opsdk.testing.doubles import EMPTY_CLUSTER
from opsdk.testing.running import running

KEY = "default/shop"
RIGHTS = Path(__file__).parents[1] / "config" / "rbac.yaml"


@dataclass
class World:
    """An API server, the fake DNS, and the operator."""

    env: envtest.Environment
    client: Client
    dns: FakeDns

    async def create(self, **spec: Any) -> Application:
        """Create the Application."""
        desired = {"image": "shop:1", "migrate": ["sleep", "5"], "host": "shop.example.com", **spec}
        meta = ObjectMeta(name="shop", namespace="default")
        return await self.client.create(Application(metadata=meta, spec=ApplicationSpec(**desired)))

    async def change(self, **spec: Any) -> None:
        """Change the Application."""
        app = await self.client.get(Application, KEY)
        await self.client.patch(app, merge_patch({"spec": spec}))

    async def ready(self) -> Condition:
        """The condition Ready."""
        app = await self.client.get(Application, KEY)
        assert app.status is not None
        condition = get_condition(app.status.conditions, "Ready")
        assert condition is not None
        return condition

    async def until_ready(self, image: str = "shop:1") -> None:
        """Wait until the whole application serves an image."""

        async def serves() -> None:
            app = await self.client.get(Application, KEY)
            assert (await self.ready()).status == "True"
            assert (await self.ready()).observed_generation == app.metadata.generation
            assert app.status is not None
            assert app.status.image == image

        await self.env.eventually(serves, within=120, interval=1)

    async def image(self) -> str:
        """The image of the servers."""
        template = (await self.client.get(Deployment, "default/shop-web")).spec.template
        assert template.spec is not None
        return template.spec.containers[0].image or ""


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    """Run the operator with simulated workloads."""
    doubles = make_doubles(EMPTY_CLUSTER)
    async with (
        envtest.Environment(controllers="cluster") as env,
        Cluster(env.config) as cluster,
        running(doubles.operator(), env),
    ):
        yield World(env, cluster.uncached, doubles.systems)


async def test_the_parts_come_in_their_order() -> None:
    """Each part is created when the one before it is ready; the name in the DNS is the last."""
    async with world() as here:
        here.env.journal.clear()
        await here.create()
        await here.until_ready()
        resources = ("statefulsets", "jobs", "deployments")
        created = [e.ref.resource for e in here.env.journal if e.before is None and e.ref.resource in resources]
        assert created == list(resources)
        [record] = here.dns.records.values()
        assert (record.host, record.target, record.state) == ("shop.example.com", "shop-web.default.svc", "active")
        app = await here.client.get(Application, KEY)
        assert app.status is not None
        assert app.status.record.id == record.id


async def test_the_condition_names_the_part_that_is_not_ready() -> None:
    """While the migration runs, no server exists."""
    async with world() as here:
        app = await here.create(migrate=["sleep", "60"])
        await asyncio.sleep(30)
        condition = await here.ready()
        assert (condition.status, condition.reason) == ("False", "Waiting")
        assert f"Job default/{migration(app).metadata.name}" in condition.message
        assert await here.client.get_or_none(Deployment, "default/shop-web") is None
        assert not here.dns.records


async def test_a_new_image_is_migrated_before_it_serves() -> None:
    """The servers keep the old image until the migration has ended; its predecessor's Job is pruned."""
    async with world() as here:
        await here.create()
        await here.until_ready()
        await here.change(image="shop:2", migrate=["sleep", "60"])
        await asyncio.sleep(30)
        assert await here.image() == "shop:1"
        await here.until_ready("shop:2")
        assert await here.image() == "shop:2"
        [job] = await here.client.list(Job, namespace="default")
        assert job.metadata.name == migration(await here.client.get(Application, KEY)).metadata.name


async def test_a_migration_that_fails_leaves_the_old_image() -> None:
    """The condition says which Job needs attention; a corrected command goes on."""
    async with world() as here:
        await here.create()
        await here.until_ready()
        await here.change(image="shop:2", migrate=["false"])
        await asyncio.sleep(300)
        assert await here.image() == "shop:1"
        assert (await here.ready()).reason == "ChildFailed"
        await here.change(migrate=["true"])
        await here.until_ready("shop:2")


async def test_a_record_follows_its_application() -> None:
    """A new host changes it; one that is lost, or changed by hand, comes back with the next poll."""
    async with world() as here:
        await here.create()
        await here.until_ready()
        await here.change(host="www.example.com")
        await here.until_ready()
        [record] = here.dns.records.values()
        assert record.host == "www.example.com"
        here.dns.records.clear()
        await asyncio.sleep(60)
        [another] = here.dns.records.values()
        assert another.id != record.id
        another.target = "elsewhere"
        await asyncio.sleep(60)
        assert [r.target for r in here.dns.records.values()] == ["shop-web.default.svc"]


async def test_an_outage_of_the_dns_is_survived() -> None:
    """The application waits for its name, and its name is created once."""
    async with world() as here:
        here.dns.down = True
        await here.create()
        await asyncio.sleep(300)
        condition = await here.ready()
        assert (condition.status, condition.reason) == ("False", "DnsError")
        here.dns.down = False
        await here.until_ready()
        assert len(here.dns.records) == 1


async def test_the_parts_go_in_reverse() -> None:
    """The name first, the database last; then the Application."""
    async with world() as here:
        app = await here.create()
        await here.until_ready()
        here.env.journal.clear()
        await here.client.delete(app)

        async def is_gone() -> None:
            assert await here.client.get_or_none(Application, KEY) is None

        await here.env.eventually(is_gone, within=120, interval=1)
        assert not here.dns.records
        resources = ("deployments", "jobs", "statefulsets")
        deleted = [e.ref.resource for e in here.env.journal if e.after is None and e.ref.resource in resources]
        assert deleted == list(resources)
        for kind in (StatefulSet, Job, Deployment):
            assert not await here.client.list(kind, namespace="default")
        assert [s.metadata.name for s in await here.client.list(Service, namespace="default")] == ["kubernetes"]


async def test_a_settled_application_writes_nothing() -> None:
    """Only the DNS is polled."""
    async with world() as here:
        await here.create()
        await here.until_ready()
        await asyncio.sleep(60)
        async with here.env.no_writes(resource="applications"), here.env.no_writes(resource="deployments"):
            await asyncio.sleep(3000)


async def test_the_rights_of_the_manifests_suffice() -> None:
    """The operator runs as a user with the ClusterRole of the manifests, and no request is forbidden."""
    [role] = [o for o in yaml.safe_load_all(RIGHTS.read_text()) if o["kind"] == "ClusterRole"]
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "application-operator"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["metadata"]["name"]},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "operator"}],
    }
    doubles = make_doubles(EMPTY_CLUSTER)
    async with (
        envtest.Environment(crds=[crd_for(Application)], controllers="cluster") as env,
        Cluster(env.config) as cluster,
    ):
        for tree in (role, binding):
            await cluster.uncached.create(Unstructured.from_tree(tree))
        async with running(doubles.operator(), env.add_user("operator").config):
            here = World(env, cluster.uncached, doubles.systems)
            app = await here.create()
            await here.until_ready()
            await here.change(image="shop:2")
            await here.until_ready("shop:2")
            await here.client.delete(app)
            await asyncio.sleep(60)
            assert await here.client.get_or_none(Application, KEY) is None


@pytest.mark.realtime
async def test_the_dns_over_sockets() -> None:
    """All calls of the client, against the stand-in as a server."""
    fake = FakeDns(seconds=0)
    async with (
        WebServer(fake, ServeOptions(port=0)) as server,
        httpx.AsyncClient(base_url=server.url, trust_env=False) as http,
    ):
        client, order = DnsClient(http), Record(token="uid/record", host="a.example.com", target="a")
        assert await client.find("uid/record") is None
        created = await client.create(order)
        assert await client.create(order) == await client.find("uid/record") == await client.get(created.id)
        created.target = "b"
        assert (await client.change(created)).target == "b"
        await client.delete(created.id)
        await client.delete(created.id)
        with pytest.raises(DnsError, match="no longer exists"):
            await client.change(created)
        fake.down = True
        with pytest.raises(DnsError, match="HTTP 503"):
            await client.get(created.id)
