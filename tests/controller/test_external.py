"""External resources: created once, updated, polled, and deleted in their place of the order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from boxes import environment, records, running, writes
from shops import External, Item, Service, Shop, make_operator, shop

from opsdk import (
    Client,
    Cluster,
    Context,
    ControllerOptions,
    ObjectMeta,
    Operator,
    Request,
    UsageError,
    crd_for,
)
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.client.patch import merge_patch
from opsdk.controller.external import ExternalRef, ExternalResource, ExternalStatus
from opsdk.recipes import get_condition


class World:
    """A server and the operator."""

    def __init__(self, env: Any, client: Client, service: Service) -> None:
        self.client, self.service = client, service
        self.operator = make_operator(service)
        self.task = asyncio.create_task(self.operator.start(env.config))

    async def stop(self) -> None:
        """End the operator."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def run(play: Callable[[World], Awaitable[None]]) -> None:
    """Play with an operator against a server."""
    async with environment.Environment(crds=[crd_for(Shop)]) as env, Cluster(env.config) as outside:
        world = World(env, outside.uncached, Service())
        try:
            await asyncio.sleep(1)
            await play(world)
        finally:
            await world.stop()


async def test_a_resource_is_created_updated_and_deleted() -> None:
    """The whole life: in the order, with its id in the status, and no request to the server at the fixpoint."""

    async def play(world: World) -> None:
        client, service = world.client, world.service
        await client.create(shop())
        await asyncio.sleep(5)
        obj = await client.get(Shop, "default/a")
        assert obj.status is not None
        assert obj.status.bucket == ExternalStatus(id="bucket-1", after="ConfigMap default/a-first")
        ready = get_condition(obj.status.conditions, "Ready")
        assert ready is not None
        assert (ready.reason, ready.message) == ("Waiting", "bucket: is_up returned False")
        assert records(world.operator)[-1].result == "waiting"
        await asyncio.sleep(60)
        obj = await client.get(Shop, "default/a")
        assert obj.status is not None
        assert obj.status.domain == ExternalStatus(id="domain-2", after="ConfigMap default/a-first, bucket")
        ready = get_condition(obj.status.conditions, "Ready")
        assert ready is not None
        assert ready.status == "True"
        service.calls.clear()
        await asyncio.sleep(100)
        assert service.calls == ["observe bucket", "observe domain"] * 10
        assert not writes(records(world.operator)[-1])
        await client.patch(shop(), merge_patch({"spec": {"size": 5}}))
        await asyncio.sleep(1)
        assert {item.size for item in service.items.values()} == {5}
        service.calls.clear()
        await client.delete(shop())
        await asyncio.sleep(60)
        assert await client.get_or_none(Shop, "default/a") is None
        assert not service.items
        deletions = dict.fromkeys(call for call in service.calls if call.startswith("delete "))
        assert list(deletions) == ["delete domain", "delete bucket"]
        assert await client.get_or_none(ConfigMap, "default/a-first") is None

    await run(play)


async def test_each_method_has_the_context_of_its_reconcile() -> None:
    """In a reconcile and in the deletion: the client reads a Secret, and the request and the logger are those."""

    async def play(world: World) -> None:
        client, service = world.client, world.service
        await client.create(Secret(metadata=ObjectMeta(name="key", namespace="default"), string_data={"key": "k"}))
        calls: set[tuple[str, bool]] = set()

        async def step(call: str) -> None:
            ctx = service.context
            assert (ctx.request, ctx.logger.name) == (Request("default", "a"), "opsdk.reconcile.shop")
            assert (await ctx.client.get(Secret, "default/key", uncached=True)).data["key"] == b"k"
            calls.add((call.partition(" ")[0], ctx.finalizing))

        service.step = step
        await client.create(shop())
        await asyncio.sleep(60)
        await client.patch(shop(), merge_patch({"spec": {"size": 5}}))
        await asyncio.sleep(1)
        await client.delete(shop())
        await asyncio.sleep(60)
        assert calls >= {("observe", False), ("create", False), ("update", False), ("observe", True), ("delete", True)}

    await run(play)


def test_a_reference_is_its_id_and_its_token() -> None:
    """The context changes neither comparisons nor texts; a reference of a test has none."""
    ref = ExternalRef(id="a", token="b")
    other = ref.with_context(Context(request=None))
    assert (ref, hash(ref), repr(ref)) == (other, hash(other), repr(other))
    assert ref != ExternalRef(id="a", token="c")
    assert msgspec.json.encode(ref) == b'{"id":"a","token":"b"}'
    with pytest.raises(UsageError, match="has no context"):
        _ = ref.ctx


@pytest.mark.parametrize(
    ("call", "swallowed"),
    [
        ("observe bucket", False),
        ("observe bucket", True),
        ("update bucket", False),
        ("update bucket", True),
        ("hang", False),
        ("before", False),
        ("observe domain", False),
    ],
)
async def test_a_resource_whose_state_is_unknown_is_not_ready(call: str, swallowed: bool) -> None:
    """Wherever a pass fails before it has handled each resource of the object, the object is not ready."""
    service, failing = Service(), False

    async def step(called: str) -> None:
        if failing and called == call:
            raise OSError("no route to the service")
        if failing and call == "hang":
            await asyncio.sleep(3600)

    service.step = step
    operator, externals = Operator("shops"), [External(service, "bucket"), External(service, "domain")]
    options = ControllerOptions(ready_condition="Ready", reconciliation_timeout=5, max_interval=10)

    @operator.reconciler(Shop, owns=externals, options=options)
    async def reconcile(obj: Shop, ctx: Context) -> None:
        await step("before")
        for external in externals:
            with suppress(*([OSError] if swallowed else [])):
                await ctx.apply(external)

    async def ready(client: Client) -> tuple[str, str]:
        status = (await client.get(Shop, "default/a")).status
        condition = get_condition(status.conditions, "Ready") if status is not None else None
        return (condition.status, condition.message) if condition is not None else ("", "")

    async with running(operator, Shop) as client:
        await client.create(shop())
        await asyncio.sleep(30)
        assert await ready(client) == ("True", "the last reconcile succeeded")
        failing = True
        for item in service.items.values():
            item.size += 1  # a foreign change, so that there is something to update
        await asyncio.sleep(20)
        status, message = await ready(client)
        assert status == "False"
        assert ("TimeoutError" if call == "hang" else "no route to the service") in message
        failing = False
        await asyncio.sleep(60)
        assert await ready(client) == ("True", "the last reconcile succeeded")


@pytest.mark.parametrize(("takes", "limit"), [(0.0, 5), (40.0, 90), (2000.0, 2400)])
async def test_a_deletion_has_a_pace_of_its_own(takes: float, limit: float) -> None:
    """A deletion ends soon after the resources are gone, and asks ever more rarely, at most once in `poll` seconds."""
    service, observed = Service(), []

    async def step(call: str) -> None:
        if call.startswith("deleted"):
            for item in service.items.values():
                item.gone_at = min(item.gone_at or 1e9, asyncio.get_running_loop().time() + takes)
        if call.startswith("observe"):
            observed.append(asyncio.get_running_loop().time())

    service.step = step
    operator = make_operator(service, poll=300)
    async with running(operator, Shop) as client:
        await client.create(shop())
        await asyncio.sleep(1000)
        observed.clear()
        began = asyncio.get_running_loop().time()
        await client.delete(shop())
        while await client.get_or_none(Shop, "default/a", uncached=True) is not None:
            await asyncio.sleep(2)
            assert asyncio.get_running_loop().time() - began < limit
        waits = [b - a for a, b in pairwise(observed)]
        assert max(waits) <= 300
        assert len(observed) < 60


async def test_the_deletion_of_a_single_resource_does_not_wait_for_the_poll() -> None:
    """Without children, no event shows that the resource is gone: it is observed again after a second."""
    service, operator = Service(), Operator("shops")
    bucket = External(service, "bucket")
    bucket.poll = timedelta(seconds=300)

    @operator.reconciler(Shop, owns=[bucket])
    async def reconcile(obj: Shop, ctx: Context) -> None:
        await ctx.apply(bucket)

    async with running(operator, Shop) as client:
        await client.create(shop())
        await asyncio.sleep(1000)
        await client.delete(shop())
        await asyncio.sleep(9)  # the service needs five seconds
        assert await client.get_or_none(Shop, "default/a", uncached=True) is None


async def test_a_resource_that_vanishes_is_created_again() -> None:
    """The poll finds it gone; its new id replaces the old one."""

    async def play(world: World) -> None:
        await world.client.create(shop())
        await asyncio.sleep(60)
        world.service.items.pop("bucket-1")
        await asyncio.sleep(60)
        obj = await world.client.get(Shop, "default/a")
        assert obj.status is not None
        assert obj.status.bucket.id == "bucket-3"
        assert (await world.client.get(ConfigMap, "default/a-last")).data == {"bucket": "bucket-3"}

    await run(play)


# ------------------------------------------------------------------ wrong declarations
class Nameless(External):
    """A resource whose name is not a field."""

    def __init__(self) -> None:
        super().__init__(Service(), "")


class Plain(External):
    """A resource with a plain method."""

    def delete(self, obj: Shop, ref: ExternalRef) -> None: ...  # type: ignore[override]


class Never(External):
    """A resource with a wrong poll."""

    poll = 0  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("owned", "message"),
    [
        (External, r"owns got the class External: pass an instance, External\(...\)"),
        (Nameless(), "the name of Nameless is '': name a field of the status"),
        (Plain(Service(), "bucket"), "delete of Plain is not async: declare it with `async def`"),
        (Never(Service(), "bucket"), "poll of Never is 0: pass more than 0 seconds, or a timedelta"),
        (External(Service(), "queue"), "External keeps its id in the status of Shop: add `queue: ExternalStatus = "),
        (External(Service(), "conditions"), "keeps its id in the status of Shop: add `conditions: ExternalStatus"),
    ],
)
def test_a_wrong_resource_is_refused(owned: Any, message: str) -> None:
    """Each declaration that cannot work says what to write, with file and line."""
    with pytest.raises(UsageError, match=rf"test_external.py:\d+: .*{message}"):

        @Operator("shops").reconciler(Shop, owns=[owned])
        async def reconcile(obj: Shop) -> None: ...


def test_a_resource_without_a_method_has_no_instance() -> None:
    """Python refuses an instance of a resource without `create` or `delete`, and names both."""

    class Partial(ExternalResource[Shop, Item]):
        name = "bucket"

        async def observe(self, obj: Shop, ref: ExternalRef) -> Item | None: ...

    with pytest.raises(TypeError, match=r"abstract class Partial .*create.*delete"):
        Partial()  # type: ignore[abstract]


def test_a_resource_needs_an_owner() -> None:
    """Without a kind there is no status for the id, and a reconciler of requests would run during the deletion."""
    bucket = External(Service(), "bucket")
    with pytest.raises(
        UsageError, match=r"test_external.py:\d+: .*needs a reconciled kind: the id is kept in its status"
    ):

        @Operator("shops").reconciler(name="kindless", owns=[bucket])
        async def reconcile(request: Request) -> None: ...


@pytest.mark.parametrize(
    ("ready", "declared", "message"),
    [
        (False, False, r"<External bucket> is not declared, so nothing would delete it: add the same instance to owns"),
        (True, True, "ready of <External bucket> is True: write a function of the state that observe returns"),
        ("self.up", True, "ready of <External bucket> is 'self.up': write a function"),
    ],
)
async def test_a_wrong_apply_is_refused(ready: Any, declared: bool, message: str) -> None:
    """A resource that is not declared would never be deleted; its readiness is a function."""
    operator, errors = Operator("shops"), list[UsageError]()
    bucket, other = External(Service(), "bucket"), External(Service(), "bucket")

    @operator.reconciler(Shop, owns=[bucket])
    async def reconcile(obj: Shop, ctx: Context) -> None:
        with pytest.raises(UsageError, match=message) as raised:
            await ctx.apply(bucket if declared else other, ready=ready)
        errors.append(raised.value)

    async with environment.Environment(crds=[crd_for(Shop)]) as env, Cluster(env.config) as outside:
        task = asyncio.create_task(operator.start(env.config))
        await outside.uncached.create(shop())
        await asyncio.sleep(2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert errors


def test_the_permissions_are_declared() -> None:
    """The id is in the status, and the finalizer is known."""
    operator = make_operator(Service())
    rules = str(operator.rules())
    assert "patch shops.tests.opsdk.dev" in rules
    assert "patch shops.tests.opsdk.dev/status" in rules
    assert operator.finalizer_names() == {"opsdk.dev/shops.shop"}
