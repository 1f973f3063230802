"""Paused objects of a running operator, against the embedded server in virtual time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from msgspec import field

from opsdk import (
    Client,
    Cluster,
    Condition,
    Context,
    GroupVersionKind,
    Model,
    Object,
    ObjectMeta,
    Operator,
    Request,
    Result,
    Unstructured,
    UsageError,
    crd_for,
)
from opsdk.aio.clock import utc_now
from opsdk.api.core.v1 import ConfigMap
from opsdk.api.events.v1 import Event
from opsdk.apimachinery.kinds import metadata_only
from opsdk.client.patch import merge_patch
from opsdk.controller.daemons import DaemonSpec
from opsdk.controller.options import ControllerOptions
from opsdk.controller.pausing import PAUSED_ANNOTATION, Pausing, format_time
from opsdk.event.predicates import generation_changed
from opsdk.testing.running import running

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")


class LampSpec(Model):
    """How bright it is."""

    level: int = 1


class LampStatus(Model):
    """What the operator did."""

    level: int = 0
    observed_generation: int = 0
    conditions: list[Condition] = field(default_factory=list)


class Lamp(Object[LampSpec, LampStatus]):
    """A kind with conditions."""

    gvk = GroupVersionKind("tests.opsdk.dev", "v1", "Lamp")


class World:
    """A running operator, the levels that it reconciled, and a client beside it."""

    def __init__(self, client: Client, operator: Operator, passes: list[tuple[str, int]]) -> None:
        self.client = client
        self.operator = operator
        self.passes = passes

    async def create(self, name: str = "a", *, paused: str | None = None, **meta: Any) -> None:
        """Create a lamp."""
        annotations = {PAUSED_ANNOTATION: paused} if paused is not None else {}
        meta = {"name": name, "namespace": "default", "annotations": annotations, **meta}
        await self.client.create(Lamp(metadata=ObjectMeta(**meta), spec=LampSpec()))
        await asyncio.sleep(1)

    async def annotate(self, name: str = "a", **annotations: str | None) -> None:
        """Set annotations of opsdk.dev; None removes one."""
        words = {f"opsdk.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
        await self._patch(name, {"metadata": {"annotations": words}})

    async def set_level(self, level: int, name: str = "a") -> None:
        """Change the spec."""
        await self._patch(name, {"spec": {"level": level}})

    async def _patch(self, name: str, patch: dict[str, Any]) -> None:
        meta = ObjectMeta(name=name, namespace="default")
        await self.client.patch(Lamp(metadata=meta, spec=LampSpec()), merge_patch(patch))
        await asyncio.sleep(1)

    async def lamp(self, name: str = "a") -> Lamp:
        """Read a lamp from the server."""
        return await self.client.get(Lamp, f"default/{name}")

    async def events(self) -> list[Event]:
        """The Warning Events."""
        return [e for e in await self.client.list(Event) if e.type == "Warning"]

    def metric(self) -> float:
        """The number of paused objects."""
        lines = self.operator.manager.metrics.expose().decode().splitlines()
        return next(float(x.split()[-1]) for x in lines if x.startswith("opsdk_controller_paused_objects{"))


@asynccontextmanager
async def lamps(**options: Any) -> AsyncIterator[World]:
    """Run an operator of lamps; a reconciler that takes the object."""
    operator, passes = Operator("lamps"), []
    finalizers = options.pop("finalizers", {})
    predicates = options.pop("predicates", ())

    @operator.reconciler(Lamp, options=ControllerOptions(**options), finalizers=finalizers, predicates=predicates)
    async def reconcile(lamp: Lamp) -> None:
        passes.append((lamp.metadata.name, lamp.spec.level))

    async with environment.Environment() as env, Cluster(env.config) as outside, running(operator, env):
        yield World(outside.uncached, operator, passes)


@asynccontextmanager
async def lamps_by_request(**options: Any) -> AsyncIterator[World]:
    """Run an operator of lamps; a reconciler that takes the request."""
    operator, passes = Operator("lamps"), []

    @operator.reconciler(Lamp, options=ControllerOptions(**options))
    async def reconcile(request: Request, ctx: Context) -> None:
        lamp = await ctx.client.get_or_none(Lamp, request.key)
        passes.append((request.name, lamp.spec.level if lamp is not None else 0))

    async with environment.Environment() as env, Cluster(env.config) as outside, running(operator, env):
        yield World(outside.uncached, operator, passes)


@pytest.mark.parametrize("world_of", [lamps, lamps_by_request])
async def test_a_paused_object_is_reconciled_once_when_its_pause_is_removed(world_of: Any) -> None:
    """Three changes during the pause become one reconcile of the last state; the metric counts the object."""
    async with world_of() as world:
        await world.create()
        await world.annotate(paused="true")
        assert world.metric() == 1
        passes = list(world.passes)
        for level in (2, 3, 4):
            await world.set_level(level)
        await asyncio.sleep(3600)
        assert world.passes == passes
        await world.annotate(paused=None)
        assert world.passes == [*passes, ("a", 4)]
        assert world.metric() == 0


@pytest.mark.parametrize("world_of", [lamps, lamps_by_request])
async def test_a_pause_ends_at_its_time_without_an_event(world_of: Any) -> None:
    """The reconcile runs when the time has come, with the causes that waited, and the end of the pause."""
    async with world_of() as world:
        await world.create()
        until = utc_now() + timedelta(hours=1)
        await world.annotate(paused=format_time(until))
        await world.set_level(7)
        passes = len(world.passes)
        await asyncio.sleep(3590)
        assert len(world.passes) == passes
        await asyncio.sleep(15)
        assert world.passes[passes:] == [("a", 7)]
        causes = [str(cause) for cause in list(world.operator.journal.find(name="a"))[-1].causes]
        assert causes[0].startswith("Lamp update default/a")
        assert causes[-1].startswith("pause (ended at ")


async def test_a_pause_can_be_made_longer_and_shorter() -> None:
    """The last annotation counts: the timer of an earlier one starts nothing."""
    async with lamps() as world:
        await world.create(paused=format_time(utc_now() + timedelta(seconds=100)))
        await world.annotate(paused=format_time(utc_now() + timedelta(seconds=1000)))
        await asyncio.sleep(500)
        assert world.passes == []
        await world.annotate(paused=format_time(utc_now() + timedelta(seconds=50)))
        await asyncio.sleep(60)
        assert world.passes == [("a", 1)]


async def test_an_operator_that_starts_finds_the_pause() -> None:
    """The pause is in the object, so it holds after a restart and for every replica; others are reconciled."""
    async with environment.Environment() as env, Cluster(env.config) as outside:
        await outside.uncached.create(Unstructured.from_tree(crd_for(Lamp)))
        for name, annotations in (("a", {PAUSED_ANNOTATION: "true"}), ("b", {})):
            meta = ObjectMeta(name=name, namespace="default", annotations=annotations)
            await outside.uncached.create(Lamp(metadata=meta, spec=LampSpec()))
        for _ in range(2):
            operator, passes = Operator("lamps"), []

            @operator.reconciler(Lamp)
            async def reconcile(lamp: Lamp, passes: list[str] = passes) -> None:  # a list for each operator
                passes.append(lamp.metadata.name)

            async with running(operator, env):
                await asyncio.sleep(5)
            assert passes == ["b"]


async def test_the_end_of_a_pause_passes_predicates_that_drop_annotations() -> None:
    """With ``generation_changed`` the pause begins, ends, and a reconcile can be requested."""
    async with lamps(predicates=[generation_changed()]) as world:
        await world.create()
        await world.annotate(paused="true")
        assert world.metric() == 1
        await world.set_level(5)
        await world.annotate(paused=None)
        assert world.passes == [("a", 1), ("a", 5)]
        await world.annotate(reconcile="now-1")
        await world.annotate(reconcile="now-1", other="x")
        assert world.passes == [("a", 1), ("a", 5), ("a", 5)]


async def test_a_requested_reconcile_waits_for_the_end_of_the_pause() -> None:
    """A pause is stronger than the request, which is not lost."""
    async with lamps(predicates=[generation_changed()]) as world:
        await world.create(paused="true")
        await world.annotate(reconcile="1")
        await world.annotate(reconcile="2")
        assert world.passes == []
        await world.annotate(paused="false")
        assert world.passes == [("a", 1)]


async def test_polls_and_retries_wait_too() -> None:
    """A request with ``requeue_after`` or failures is held back, and its timers stop until the pause ends."""
    operator, passes = Operator("lamps"), []

    @operator.reconciler(Lamp)
    async def reconcile(lamp: Lamp) -> Result:
        passes.append(lamp.metadata.name)
        if lamp.metadata.name == "fails":
            raise RuntimeError("not now")
        return Result(requeue_after=10)

    async with environment.Environment() as env, Cluster(env.config) as outside, running(operator, env):
        world = World(outside.uncached, operator, [])
        for name in ("polls", "fails"):
            await world.create(name)
            await world.annotate(name, paused="true")
        await asyncio.sleep(3600)
        count = len(passes)
        assert world.metric() == 2
        await asyncio.sleep(3600)
        assert len(passes) == count
        for name in ("polls", "fails"):
            await world.annotate(name, paused=None)
        await asyncio.sleep(25)
        assert passes[count:].count("polls") >= 3
        assert passes[count:].count("fails") >= 10


# -------------------------------------------------------------- deletions
@pytest.mark.parametrize("hold_deletions", [False, True])
async def test_deletions_of_paused_objects_are_as_declared(hold_deletions: bool) -> None:
    """Finalizers run during a pause, unless the declaration holds deletions back; then they run at its end."""
    cleaned: list[str] = []

    async def clean(lamp: Lamp, ctx: Context) -> None:
        cleaned.append(lamp.metadata.name)

    async with lamps(
        finalizers={"tests.opsdk.dev/clean": clean}, pausing=Pausing(hold_deletions=hold_deletions)
    ) as world:
        await world.create()
        await world.annotate(paused="true")
        await world.client.delete(await world.lamp())
        await asyncio.sleep(60)
        assert cleaned == ([] if hold_deletions else ["a"])
        if hold_deletions:
            await world.annotate(paused=None)
        assert cleaned == ["a"]
        assert await world.client.get_or_none(Lamp, "default/a") is None
        assert world.metric() == 0


async def test_a_paused_object_gets_no_finalizer() -> None:
    """A paused object is not written: it can be deleted at once, without cleanup."""

    async def clean(lamp: Lamp, ctx: Context) -> None:
        """Have nothing to do."""

    async with lamps(finalizers={"tests.opsdk.dev/clean": clean}) as world:
        await world.create(paused="true")
        assert (await world.lamp()).metadata.finalizers == []
        await world.client.delete(await world.lamp())
        await asyncio.sleep(1)
        assert world.metric() == 0
        assert world.passes == []


@pytest.mark.parametrize("world_of", [lamps, lamps_by_request])
async def test_no_memory_of_paused_objects_that_are_gone(world_of: Any) -> None:
    """A hundred paused objects come and go: the controller forgets each."""
    async with world_of(pausing=Pausing(hold_deletions=True)) as world:
        for number in range(100):
            await world.create(f"a{number}", paused="true")
        assert world.metric() == 100
        for number in range(100):
            await world.client.delete(await world.lamp(f"a{number}"))
        await asyncio.sleep(1)
        assert world.metric() == 0


# -------------------------------------------------------------- what people see
async def test_a_condition_shows_the_pause_and_is_written_once() -> None:
    """A condition is true with its reason during a pause and false afterwards, each written once."""
    async with lamps(pausing=Pausing(condition="Paused")) as world:
        await world.create()
        assert (await world.lamp()).status is None
        await world.annotate(paused="true", paused_reason="maintenance of the grid")
        lamp = await world.lamp()
        assert lamp.status is not None
        (condition,) = lamp.status.conditions
        assert (condition.type, condition.status, condition.reason) == ("Paused", "True", "Paused")
        assert condition.message == "paused: maintenance of the grid"
        assert lamp.status.observed_generation == 0
        version = lamp.metadata.resource_version
        await asyncio.sleep(7200)
        assert (await world.lamp()).metadata.resource_version == version
        await world.set_level(2)
        await world.annotate(paused=None)
        lamp = await world.lamp()
        assert lamp.status is not None
        (condition,) = lamp.status.conditions
        assert (condition.status, condition.reason, condition.message) == (
            "False",
            "NotPaused",
            "the object is not paused",
        )
        assert world.passes[-1] == ("a", 2)


async def test_a_condition_of_a_pause_that_ended_while_the_operator_was_away_is_cleared() -> None:
    """The first reconcile after the start writes it."""
    async with lamps(pausing=Pausing(condition="Paused")) as world:
        await world.create()
        lamp = await world.lamp()
        condition = {"type": "Paused", "status": "True", "reason": "Paused", "message": ""}
        condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        await world.client.status().patch(lamp, merge_patch({"status": {"conditions": [condition]}}))
        await asyncio.sleep(1)
        lamp = await world.lamp()
        assert lamp.status is not None
        assert lamp.status.conditions[0].status == "False"


async def test_an_annotation_that_is_not_understood_is_a_warning() -> None:
    """The object stays paused, and one Warning Event says what to write; the corrected value ends it."""
    async with lamps(pausing=Pausing(condition="Paused")) as world:
        await world.create(paused="1h")
        await world.set_level(2)
        await asyncio.sleep(30)
        (event,) = await world.events()
        assert (event.reason, event.regarding.name if event.regarding else "") == ("InvalidPause", "a")
        assert (event.note or "").startswith(
            'the annotation opsdk.dev/paused is "1h": write "true", "false", or the end'
        )
        lamp = await world.lamp()
        assert lamp.status is not None
        assert lamp.status.conditions[0].reason == "InvalidPause"
        assert world.passes == []
        await world.annotate(paused="false")
        assert world.passes == [("a", 2)]


async def test_the_journal_has_one_record_of_a_pause() -> None:
    """``opsdk why`` shows when the pause began and why, not each event that it held back."""
    async with lamps() as world:
        await world.create()
        await world.annotate(paused="true", paused_reason="maintenance")
        for level in range(2, 20):
            await world.set_level(level)
        records = list(world.operator.journal.find(name="a"))
        assert [record.result for record in records] == ["success", "paused"]
        assert records[-1].detail == "paused: maintenance"
        await world.annotate(paused=None)
        record = list(world.operator.journal.find(name="a"))[-1]
        assert record.result == "success"
        assert "times" in str(record.causes[0])


async def test_a_controller_can_ignore_pauses() -> None:
    """With ``pausing=None`` the annotation has no effect."""
    async with lamps(pausing=None) as world:
        await world.create(paused="true")
        assert world.passes == [("a", 1)]


@pytest.mark.parametrize("kind", [metadata_only(ConfigMap), ConfigMap])
def test_a_kind_without_conditions_is_refused_at_the_declaration(kind: Any) -> None:
    """The error says what the status needs, with this file and line."""
    operator, options = Operator("lamps"), ControllerOptions(pausing=Pausing(condition="Paused"))
    with pytest.raises(UsageError, match="condition='Paused' needs conditions in the status of ConfigMap") as error:
        operator.reconciler(kind, options=options)
    assert f"{__file__}:" in str(error.value)


async def test_a_pause_is_no_success_for_the_condition_of_errors() -> None:
    """The condition that shows a failure stays while a pause holds the retry back."""
    operator = Operator("lamps")

    @operator.reconciler(Lamp, options=ControllerOptions(error_condition="Stalled"))
    async def reconcile(lamp: Lamp) -> None:
        raise RuntimeError("no power")

    async with environment.Environment() as env, Cluster(env.config) as outside, running(operator, env):
        world = World(outside.uncached, operator, [])
        await world.create()
        await world.annotate(paused="true")
        await asyncio.sleep(3600)
        lamp = await world.lamp()
        assert lamp.status is not None
        (condition,) = lamp.status.conditions
        assert (condition.type, condition.status, condition.message) == ("Stalled", "True", "no power")


async def test_daemons_of_a_paused_object_end_until_the_pause_ends() -> None:
    """A daemon acts for its object, so a pause stops it too."""
    operator, log = Operator("lamps"), list[str]()

    async def monitor(lamp: Lamp, ctx: Context) -> None:
        log.append("started")
        try:
            await asyncio.sleep(math.inf)
        finally:
            log.append("ended")

    @operator.reconciler(Lamp, daemons=[DaemonSpec(function=monitor)])
    async def reconcile(lamp: Lamp) -> None:
        """Leave it to the daemon."""

    async with environment.Environment() as env, Cluster(env.config) as outside, running(operator, env):
        world = World(outside.uncached, operator, [])
        await world.create()
        assert log == ["started"]
        await world.annotate(paused="true")
        assert log == ["started", "ended"]
        await world.annotate(paused=None)
        assert log == ["started", "ended", "started"]
