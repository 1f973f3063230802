"""The operator between the in-process API server and the fake service, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

import envtest
from database.api import FINALIZER, Database, DatabaseSpec, SecretReference
from database.operator import POLL_INTERVAL, RESYNC_INTERVAL, make_operator
from database.service import HttpDatabaseService, Instance, Order, RejectedError, ServiceError
from database.v1beta1 import DatabaseV1Beta1
from database.webhooks import add_webhooks
from fake_service import FakeDatabaseService
from opsdk import Client, Cluster, Condition, ObjectMeta, OperatorOptions, TerminalError, Unstructured, crd_for
from opsdk.api.autoscaling.v1 import Scale
from opsdk.api.core.v1 import Secret
from opsdk.api.events.v1 import Event
from opsdk.apiserver import ServeOptions, WebServer
from opsdk.client.patch import merge_patch
from opsdk.errors import InvalidError
from opsdk.recipes import get_condition
from opsdk.testing.running import running

KEY = "default/orders"
RIGHTS = Path(__file__).parents[1] / "config" / "rbac.yaml"


@dataclass
class World:
    """An API server, the fake service, and the operator."""

    env: envtest.Environment
    client: Client
    service: FakeDatabaseService

    async def create(self, name: str = "orders", **spec: Any) -> Database:
        """Create a Database."""
        desired = {"engine": "postgres", "version": "17", "credentials": SecretReference(name="login"), **spec}
        meta = ObjectMeta(name=name, namespace="default")
        return await self.client.create(Database(metadata=meta, spec=DatabaseSpec(**desired)))

    async def set_password(self, password: str) -> None:
        """Write the Secret."""
        meta = ObjectMeta(name="login", namespace="default")
        secret = Secret(metadata=meta, string_data={"username": "orders", "password": password})
        await self.client.apply(secret, field_owner="test", force=True)

    async def ready(self) -> Condition:
        """The condition Ready."""
        database = await self.client.get(Database, KEY)
        assert database.status is not None
        condition = get_condition(database.status.conditions, "Ready")
        assert condition is not None
        return condition

    async def until_ready(self, reason: str = "Available") -> None:
        """Wait for the reason of the condition Ready."""

        async def has_reason() -> None:
            assert (await self.ready()).reason == reason

        await self.env.eventually(has_reason, within=120)

    async def until(self, check: Callable[[], bool]) -> None:
        """Wait for the service."""

        def holds() -> None:
            assert check()

        await self.env.eventually(holds, within=120)


@asynccontextmanager
async def world(*, webhooks: bool = False, options: OperatorOptions | None = None) -> AsyncIterator[World]:
    """Run a world with the Secret ``login``."""
    service = FakeDatabaseService()
    transport = httpx.ASGITransport(app=service)
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://service") as http,
        envtest.Environment() as env,
        Cluster(env.config) as cluster,
    ):
        operator = make_operator(HttpDatabaseService(http), options)
        async with running(add_webhooks(operator) if webhooks else operator, env):
            here = World(env, cluster.uncached, service)
            await here.set_password("one")
            yield here


async def test_a_database_gets_an_instance() -> None:
    """The instance is ordered once, with the credentials, and the status shows its endpoint."""
    async with world() as here:
        created = await here.create(size_gb=20, replicas=2)
        await here.until_ready()
        [order] = here.service.orders
        assert (order.instance.size_gb, order.username, order.password) == (20, "orders", "one")
        database = await here.client.get(Database, KEY)
        assert database.status is not None
        assert (database.status.endpoint, database.status.replicas) == (f"{created.metadata.uid}.example.com:5432", 2)
        assert database.metadata.finalizers == [FINALIZER]


async def test_a_settled_database_costs_nothing() -> None:
    """Polling continues without writes to the API server and without orders."""
    async with world() as here:
        await here.create()
        await here.until_ready()
        await asyncio.sleep(60)
        async with here.env.no_writes(resource="databases"):
            await asyncio.sleep(3000)
        assert len(here.service.orders) == 1


async def test_a_change_of_the_secret_wakes_its_databases() -> None:
    """A new password is ordered at once for every Database that refers to the Secret, and for no other one."""
    async with world() as here:
        await here.create()
        await here.create("other", credentials=SecretReference(name="missing"))
        await here.until_ready()
        await here.set_password("two")
        await here.until(lambda: [order.password for order in here.service.orders] == ["one", "two"])
        await here.until_ready()


async def test_a_missing_secret_is_reported_and_awaited() -> None:
    """The condition names the Secret; creating the Secret triggers the order."""
    async with world() as here:
        await here.client.delete(Secret, "default/login")
        await here.create()
        await here.until_ready("CredentialsMissing")
        assert "the Secret login" in (await here.ready()).message
        assert not here.service.orders
        await here.set_password("two")
        await here.until_ready()


async def test_a_refused_order_waits_for_a_change() -> None:
    """The condition has the service's reason, and the order is not retried until the Secret changes."""
    async with world() as here:
        await here.set_password("")
        await here.create()
        await here.until_ready("Rejected")
        assert "the password is empty" in (await here.ready()).message
        await here.set_password("two")
        await here.until_ready()


async def test_an_outage_is_reported_and_survived() -> None:
    """Ready is Unknown while the service is down; no order is lost, and no instance is ordered twice."""
    async with world() as here:
        here.service.down = True
        await here.create()
        await here.until_ready("ServiceUnavailable")
        assert (await here.ready()).status == "Unknown"
        await asyncio.sleep(300)
        here.service.down = False
        await here.until_ready()
        assert len(here.service.orders) == 1


async def test_a_slow_service_is_looked_at_again() -> None:
    """The instance takes ten minutes; the status is right within seconds after them."""
    async with world() as here:
        here.service.seconds = 600
        await here.create()
        await here.until_ready("InProgress")
        await asyncio.sleep(590)
        assert (await here.ready()).reason == "InProgress"
        await asyncio.sleep(20)
        assert (await here.ready()).reason == "Available"


@pytest.mark.parametrize(("age", "delay"), [(60, POLL_INTERVAL), (6, RESYNC_INTERVAL)])
async def test_an_instance_that_disappears_is_ordered_again(age: float, delay: float) -> None:
    """The next poll detects it; if no poll saw the instance, the resync detects it."""
    async with world() as here:
        created = await here.create()
        await asyncio.sleep(age)
        del here.service.instances[created.metadata.uid]
        await asyncio.sleep(1.2 * delay)
        assert len(here.service.orders) == 2
        await here.until_ready()


async def test_a_change_by_hand_in_the_service_is_reverted() -> None:
    """The Database describes the instance."""
    async with world() as here:
        created = await here.create()
        await here.until_ready()
        here.service.instances[created.metadata.uid].size_gb = 99
        await here.until(lambda: here.service.instances[created.metadata.uid].size_gb == 10)


@pytest.mark.slow
async def test_a_database_goes_after_its_instance() -> None:
    """The finalizer waits for the service, and through its outage."""
    async with world() as here:
        await here.create()
        await here.until_ready()
        here.service.down, here.service.seconds = True, 10
        await here.client.delete(Database, KEY)
        await asyncio.sleep(120)
        assert (await here.client.get(Database, KEY)).metadata.finalizers == [FINALIZER]
        here.service.down = False
        await here.until(lambda: [i.state for i in here.service.instances.values()] == ["deleting"])
        assert await here.client.get_or_none(Database, KEY) is not None

        async def is_gone() -> None:
            assert await here.client.get_or_none(Database, KEY) is None

        await here.env.eventually(is_gone, within=120)
        assert not here.service.instances


@pytest.mark.parametrize("kind", [Database, DatabaseV1Beta1])
async def test_every_version_is_read_and_scaled(kind: type[Database | DatabaseV1Beta1]) -> None:
    """The conversion runs in the API server's requests; the service follows the scale subresource."""
    async with world(webhooks=True) as here:
        await here.create()
        await here.until_ready()
        obj = await here.client.get(kind, KEY)
        await here.client.subresource("scale").patch(obj, merge_patch({"spec": {"replicas": 3}}))
        await here.until(lambda: here.service.orders[-1].instance.replicas == 3)

        async def has_scaled() -> None:
            scale = await here.client.subresource("scale").get(obj, Scale)
            assert scale.status is not None
            assert scale.status.replicas == 3

        await here.env.eventually(has_scaled, within=120)


async def test_rules_hold_in_the_api_server() -> None:
    """Schema, CEL and validator name the field."""
    async with world(webhooks=True) as here:
        database = await here.create(size_gb=20, version="16")
        for spec, reason in (
            ({"engine": "mysql"}, r"spec\.engine: .*is immutable"),
            ({"sizeGb": 10}, r"spec\.sizeGb: .*cannot shrink"),
            ({"version": "15"}, r"spec\.version: .*cannot be downgraded"),
            ({"version": "99"}, r"spec\.version: .*offered in the versions"),
        ):
            with pytest.raises(InvalidError, match=reason):
                await here.client.patch(database, merge_patch({"spec": spec}))


async def test_only_the_leader_orders() -> None:
    """With leader election a second replica waits; orders are not doubled."""
    options = OperatorOptions(leader_election=True, leader_election_namespace="default")
    async with world(options=options) as here:
        http = httpx.AsyncClient(transport=httpx.ASGITransport(app=here.service), base_url="http://service")
        async with http, running(make_operator(HttpDatabaseService(http), options), here.env):
            await here.create()
            await here.until_ready()
            assert len(here.service.orders) == 1


async def test_a_service_that_does_not_answer_is_an_error() -> None:
    """Network errors have the type that the reconciler retries."""

    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    async with httpx.AsyncClient(transport=httpx.MockTransport(refuse), base_url="http://service") as http:
        with pytest.raises(ServiceError, match="GET instance a: ConnectError"):
            await HttpDatabaseService(http).find("a")
    assert not issubclass(ServiceError, TerminalError)


async def test_the_rights_of_the_manifests_suffice() -> None:
    """The operator runs as a user with the ClusterRole of the manifests, and no request is forbidden."""
    [role] = [o for o in yaml.safe_load_all(RIGHTS.read_text()) if o["kind"] == "ClusterRole"]
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "database-operator"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["metadata"]["name"]},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "operator"}],
    }
    service = FakeDatabaseService()
    transport = httpx.ASGITransport(app=service)
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://service") as http,
        envtest.Environment(crds=[crd_for(Database)]) as env,
        Cluster(env.config) as cluster,
    ):
        for tree in (role, binding):
            await cluster.uncached.create(Unstructured.from_tree(tree))
        user = env.add_user("operator")
        async with running(make_operator(HttpDatabaseService(http)), user.config):
            here = World(env, cluster.uncached, service)
            await here.set_password("one")
            await here.create()
            await here.until_ready()
            await here.client.delete(Database, KEY)
            await here.until(lambda: not service.instances)
            await asyncio.sleep(30)
            assert await here.client.get_or_none(Database, KEY) is None
            events = await here.client.list(Event, namespace="default")
            assert [(event.reason, event.reporting_controller) for event in events] == [
                ("Available", "database-operator")
            ]


@pytest.mark.realtime
async def test_the_service_over_sockets() -> None:
    """All calls of the client, against the stand-in as a server."""
    fake = FakeDatabaseService(seconds=0)
    async with (
        WebServer(fake, ServeOptions(port=0)) as server,
        httpx.AsyncClient(base_url=server.url, trust_env=False) as http,
    ):
        service = HttpDatabaseService(http)
        desired = Instance(owner=KEY, engine="postgres", version="17", size_gb=10, replicas=1)
        assert await service.find("a") is None
        assert (await service.put("a", Order(instance=desired, username="u", password="p"))).state == "creating"
        assert (await service.instances())["a"].state == "available"
        with pytest.raises(RejectedError, match="the password is empty"):
            await service.put("a", Order(instance=desired, username="u", password=""))
        assert not await service.delete("a")
        assert await service.delete("a")
        fake.down = True
        with pytest.raises(ServiceError, match="HTTP 503"):
            await service.instances()
