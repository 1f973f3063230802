"""Operators of many shapes, whose recorded runs replay identically, and those whose runs cannot."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import field

import envtest
from opsdk import (
    BlockingContext,
    Condition,
    Context,
    GroupVersionKind,
    Model,
    Object,
    ObjectMeta,
    Operator,
    OperatorOptions,
    Request,
    Result,
    Unstructured,
    crd_for,
)
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.builder.arguments import WatchSpec
from opsdk.client.patch import merge_patch
from opsdk.controller.external import ExternalRef, ExternalResource, ExternalStatus
from opsdk.event.timers import CronSource, TimerSource
from opsdk.recipes.conditions import set_condition
from opsdk.recording.calls import record_calls
from opsdk.testing.simulate import Fault, Simulation, World
from opsdk.webhook.conversion import HubSpokeConverter, Spoke
from opsdk.webhook.handlers import AdmissionContext

NAMESPACE = "default"


class ThingSpec(Model, kw_only=True):
    """A number."""

    size: int = 0
    owner: str = ""


class ThingStatus(Model, kw_only=True):
    """What the reconciler reports."""

    text: str = ""
    bucket: ExternalStatus = field(default_factory=ExternalStatus)
    conditions: list[Condition] = field(default_factory=list)


class Thing(Object[ThingSpec, ThingStatus]):
    """What all operators reconcile."""

    gvk = GroupVersionKind("shapes.opsdk.dev", "v1", "Thing")


class Place(Object[ThingSpec, ThingStatus]):
    """The same, of the cluster."""

    gvk = GroupVersionKind("shapes.opsdk.dev", "v1", "Place")
    namespaced = False


class OldThingSpec(Model, kw_only=True):
    """The number, under its former name."""

    count: int = 0


class OldThing(Object[OldThingSpec, ThingStatus]):
    """The former version of a thing."""

    gvk = GroupVersionKind("shapes.opsdk.dev", "v1alpha1", "Thing")


def _child(thing: Thing | Place, name: str = "", **data: str) -> ConfigMap:
    meta = ObjectMeta(name=name or thing.metadata.name, namespace=NAMESPACE)
    return ConfigMap(metadata=meta, data={"size": str(thing.spec.size), **data})


def _of(reconcile: Callable[..., Any], kind: type[Any] = Thing, **options: Any) -> Operator:
    operator = Operator("shapes")
    operator.reconciler(kind, **options)(reconcile)
    return operator


# ---------------------------------------------------------------- shapes that repeat
def secret() -> Operator:
    """It generates a password once, and copies it."""

    async def reconcile(thing: Thing, ctx: Context) -> None:
        meta, password = ObjectMeta(name=thing.metadata.name), secrets.token_urlsafe()
        login = await ctx.create_once(Secret(metadata=meta, string_data={"password": password}))
        await ctx.apply(_child(thing, url=f"db://{login.data['password'].decode()}@db"))

    return _of(reconcile, owns=[Secret, ConfigMap])


def webhook() -> Operator:
    """It has webhooks with certificates of its own."""

    def set_owner(thing: Thing, ctx: AdmissionContext) -> None:
        thing.spec.owner = thing.spec.owner or ctx.user.username

    async def reconcile(thing: Thing, ctx: Context) -> None:
        await ctx.apply(_child(thing, owner=thing.spec.owner))

    operator = _of(reconcile, owns=[ConfigMap])
    operator.webhook_for(Thing).with_defaulter(set_owner)
    return operator


def conversion() -> Operator:
    """It converts the former version of its kind."""

    def to_hub(old: OldThing) -> Thing:
        return Thing(spec=ThingSpec(size=old.spec.count))

    def from_hub(thing: Thing) -> OldThing:
        return OldThing(spec=OldThingSpec(count=thing.spec.size))

    async def reconcile(thing: Thing, ctx: Context) -> None:
        await ctx.apply(_child(thing))

    operator = _of(reconcile, owns=[ConfigMap])
    converter = HubSpokeConverter(Thing, Spoke(OldThing, to_hub=to_hub, from_hub=from_hub))
    operator.webhook_for(Thing).with_converter(converter)
    return operator


def wrapped_client() -> Operator:
    """It calls another system through `record_calls`."""

    class Dns:
        async def create(self, host: str) -> str:
            await asyncio.sleep(0.01)
            return f"{host}-{uuid.uuid4()}"

    dns = record_calls(Dns(), name="dns")

    async def reconcile(thing: Thing, ctx: Context) -> None:
        if thing.status is None or not thing.status.text:
            record = await dns.create(thing.metadata.name)
            async with ctx.status(thing) as patch:
                patch.status.text = record

    return _of(reconcile)


def schedule() -> Operator:
    """Timers and a cron schedule queue it."""
    operator = Operator("shapes")
    requests = [Request(NAMESPACE, "report")]

    @operator.reconciler(name="report", sources=[TimerSource(7, requests), CronSource("* * * * *", requests)])
    async def reconcile(request: Request, ctx: Context) -> Result:
        meta = ObjectMeta(name=request.name, namespace=NAMESPACE)
        await ctx.apply(ConfigMap(metadata=meta, data={"at": ctx.now.isoformat()}), owner=None)
        return Result(requeue_after=11)

    return operator


def random_names() -> Operator:
    """It draws names from the module `random`."""

    async def reconcile(thing: Thing, ctx: Context) -> None:
        key = thing.metadata.uid or ""
        existing = await ctx.client.list(ConfigMap, namespace=NAMESPACE, owner_uid=key)
        if not list(existing):
            await ctx.apply(_child(thing, f"{thing.metadata.name}-{random.randrange(10**6)}"))

    return _of(reconcile, owns=[ConfigMap])


def operator_clock() -> Operator:
    """It reads the time of `Context.now`."""

    async def reconcile(thing: Thing, ctx: Context) -> None:
        async with ctx.status(thing) as patch:
            if not patch.status.text:
                patch.status.text = ctx.now.isoformat()
            set_condition(patch.status.conditions, "Ready", True, "Done", now=ctx.now)

    return _of(reconcile)


def threads() -> Operator:
    """Its reconciler is a plain function."""

    def reconcile(thing: Thing, ctx: BlockingContext) -> None:
        ctx.apply(_child(thing))
        ctx.sleep(0.5)

    return _of(reconcile, owns=[ConfigMap])


def two_controllers() -> Operator:
    """One controller reads what the other one writes."""
    operator = Operator("shapes")

    @operator.reconciler(Thing, name="first", owns=[ConfigMap])
    async def first(thing: Thing, ctx: Context) -> None:
        await ctx.apply(_child(thing))

    @operator.reconciler(
        Thing, name="second", watches=[WatchSpec(kind=ConfigMap, handler=lambda child: [Request.of(child)])]
    )
    async def second(thing: Thing, ctx: Context) -> None:
        child = await ctx.client.get_or_none(ConfigMap, f"{NAMESPACE}/{thing.metadata.name}")
        async with ctx.status(thing) as patch:
            patch.status.text = (child.data or {}).get("size", "") if child is not None else "absent"

    return operator


def leader() -> Operator:
    """It elects a leader, which changes."""

    async def reconcile(thing: Thing, ctx: Context) -> None:
        await ctx.apply(_child(thing))

    options = OperatorOptions(
        leader_election=True, leader_election_namespace=NAMESPACE, lease_duration=16, renew_deadline=11, retry_period=5
    )
    operator = Operator("shapes", options)
    operator.reconciler(Thing, owns=[ConfigMap])(reconcile)
    return operator


class Bucket(msgspec.Struct):
    """A bucket in a cloud."""

    id: str
    token: str


class BucketResource(ExternalResource[Thing, Bucket]):
    """A cloud in memory."""

    name = "bucket"
    poll = 30

    def __init__(self) -> None:
        self.buckets: dict[str, Bucket] = {}

    async def observe(self, obj: Thing, ref: ExternalRef) -> Bucket | None:
        return next((each for each in self.buckets.values() if ref.id == each.id or ref.token == each.token), None)

    async def create(self, obj: Thing, ref: ExternalRef) -> Bucket:
        bucket = Bucket(f"b-{uuid.uuid4()}", ref.token)
        self.buckets[bucket.id] = bucket
        return bucket

    async def update(self, obj: Thing, ref: ExternalRef, observed: Bucket) -> Bucket | None:
        return None

    async def delete(self, obj: Thing, ref: ExternalRef) -> None:
        self.buckets.pop(ref.id, None)


def external() -> Operator:
    """It owns a resource outside of Kubernetes, whose ids are random."""
    bucket = BucketResource()

    async def reconcile(thing: Thing, ctx: Context) -> None:
        observed = await ctx.apply(bucket)
        await ctx.apply(_child(thing, bucket=observed.id))

    return _of(reconcile, owns=[ConfigMap, bucket])


def pruned() -> Operator:
    """It prunes a set of children."""

    async def reconcile(thing: Thing, ctx: Context) -> None:
        children = [_child(thing, f"{thing.metadata.name}-{number}") for number in range(thing.spec.size)]
        await ctx.apply_all(children, prune=[ConfigMap])

    return _of(reconcile, owns=[ConfigMap])


def unstructured() -> Operator:
    """Its kind has no class."""

    async def reconcile(thing: Unstructured, ctx: Context) -> None:
        size = thing.get("spec", "size", default=0)
        meta = ObjectMeta(name=thing.metadata.name)
        await ctx.apply(ConfigMap(metadata=meta, data={"size": str(size)}))
        await ctx.client.status().patch(thing, merge_patch({"status": {"text": str(size)}}))

    return _of(reconcile, unstructured_kind("shapes.opsdk.dev/v1", "Thing"), owns=[ConfigMap])


def cluster_scoped() -> Operator:
    """Its kind has no namespace."""

    async def reconcile(place: Place, ctx: Context) -> None:
        await ctx.apply(_child(place), owner=None)

    return _of(reconcile, Place)


def finalizer() -> Operator:
    """It cleans up."""

    async def finalize(thing: Thing, ctx: Context) -> None:
        await ctx.client.delete(_child(thing), missing_ok=True)

    async def reconcile(thing: Thing, ctx: Context) -> None:
        await ctx.apply(_child(thing), owner=None)

    return _of(reconcile, finalizers={"shapes.opsdk.dev/child": finalize})


def daemon() -> Operator:
    """It runs daemons and timers beside a reconciler."""
    operator = Operator("shapes")

    @operator.daemon(Thing, every=5, jitter=0.3)
    async def probe(thing: Thing, ctx: Context) -> None:
        async with ctx.status(thing) as patch:
            patch.status.text = ctx.now.isoformat()

    return operator


def events() -> Operator:
    """It writes Events, and fails now and then."""

    async def reconcile(thing: Thing, ctx: Context) -> None:
        ctx.event("Seen", f"size {thing.spec.size}")
        if random.random() < 0.5:
            raise OSError("the disk is full")
        ctx.event("Done", "all is well")

    return _of(reconcile)


SHAPES: Mapping[str, Callable[[], Operator]] = {
    each.__name__: each
    for each in (
        secret, webhook, conversion, wrapped_client, schedule, random_names, operator_clock, threads, two_controllers,
        leader, external, pruned, unstructured, cluster_scoped, finalizer, daemon, events,
    )
}  # fmt: skip
"""Operators whose recordings have all that they depend on."""


# ---------------------------------------------------------------- shapes that cannot repeat
def random_uuid() -> Operator:
    """It draws from the system: the name of a child is another one each time."""

    async def reconcile(thing: Thing, ctx: Context) -> None:
        if not list(await ctx.client.list(ConfigMap, namespace=NAMESPACE, owner_uid=thing.metadata.uid or "")):
            await ctx.apply(_child(thing, f"child-{uuid.uuid4()}"))

    return _of(reconcile, owns=[ConfigMap])


def random_token() -> Operator:
    """It draws a token, and shows it in clear."""

    async def reconcile(thing: Thing, ctx: Context) -> None:
        async with ctx.status(thing) as patch:
            patch.status.text = patch.status.text or secrets.token_hex()

    return _of(reconcile)


def wall_clock() -> Operator:
    """It reads the time of the system."""

    async def reconcile(thing: Thing, ctx: Context) -> None:
        async with ctx.status(thing) as patch:
            patch.status.text = patch.status.text or datetime.now(UTC).isoformat()

    return _of(reconcile)


def unix_time() -> Operator:
    """It reads the seconds of the system."""

    async def reconcile(thing: Thing, ctx: Context) -> None:
        async with ctx.status(thing) as patch:
            patch.status.text = patch.status.text or str(time.time())

    return _of(reconcile)


UNREPEATABLE: Mapping[str, tuple[Callable[[], Operator], str]] = {
    "random_uuid": (random_uuid, "uuid.uuid4"),
    "random_token": (random_token, ""),
    "wall_clock": (wall_clock, "datetime.now"),
    "unix_time": (unix_time, "time.time"),
}
"""Operators that depend on what no recording has, and its name; empty if it is not named when the recording begins."""


# ---------------------------------------------------------------- the workload
async def create(world: World) -> None:
    """Create a thing and a place."""
    name, spec = f"thing-{world.rng.randrange(1000)}", ThingSpec(size=world.rng.randrange(4))
    await world.client.apply(Thing(metadata=ObjectMeta(name=name, namespace=NAMESPACE), spec=spec), field_owner="user")
    await world.client.apply(Place(metadata=ObjectMeta(name=name), spec=spec), field_owner="user")


async def create_old(world: World) -> None:
    """Create a thing of the former version."""
    meta = ObjectMeta(name=f"old-{world.rng.randrange(1000)}", namespace=NAMESPACE)
    await world.client.create(OldThing(metadata=meta, spec=OldThingSpec(count=2)))


async def change(world: World) -> None:
    """Change a thing."""
    for thing in list(await world.client.list(Thing))[:1]:
        await world.client.patch(thing, merge_patch({"spec": {"size": world.rng.randrange(4)}}))


async def delete(world: World) -> None:
    """Delete a thing."""
    for thing in list(await world.client.list(Thing))[:1]:
        await world.client.delete(thing, missing_ok=True)


async def _hold(_: World) -> None:
    """Hold always: what counts is the replay."""


def simulation_of(make: Callable[[], Operator]) -> Simulation:
    """Return a simulation of an operator."""
    actions: list[Callable[[World], Awaitable[None]]] = [create, change, delete]
    classes: list[type[Any]] = [Thing]
    if make is conversion:
        actions, classes = [*actions, create_old], [Thing, OldThing]
    return Simulation(
        operator=make,
        environment=lambda: envtest.Environment(crds=[crd_for(*classes), crd_for(Place)]),
        actions=actions,
        check=_hold,
        children=[ConfigMap],
        replicas=2 if make is leader else 1,
        faults=[Fault.CRASH, Fault.LOSE_ANSWERS, Fault.UNAVAILABLE, Fault.CUT_WATCHES],
        duration=20.0,
        settle=60.0,
        calm=0.0,
    )
