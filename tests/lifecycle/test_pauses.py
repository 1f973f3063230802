"""Paused objects of named handlers and lifecycles: no handler is called for them until the pause ends."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from typing import Any

import pytest

from envtest import Environment
from opsdk import Cluster, Context, ObjectMeta, Operator, OperatorOptions, UsageError
from opsdk.aio.clock import utc_now
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import ConfigMap
from opsdk.api.events.v1 import Event
from opsdk.client.patch import merge_patch
from opsdk.controller.journal import Journal
from opsdk.controller.pausing import PAUSED_ANNOTATION, Pausing, format_time
from opsdk.event.predicates import generation_changed
from opsdk.lifecycle import SharedControllerFactory
from opsdk.lifecycle.generic_controller import GenericController
from opsdk.lifecycle.options import GenericControllerOptions, RetryPolicy
from opsdk.testing.running import running


def is_own(config: ConfigMap) -> bool:
    """Whether a test made the ConfigMap: the server has others."""
    return config.metadata.namespace == "default" and config.metadata.name != "kube-root-ca.crt"


async def annotate(world: Any, name: str = "a", **annotations: str | None) -> None:
    """Set annotations of opsdk.dev on a ConfigMap, and wait; None removes one."""
    words = {f"opsdk.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    await change(world, name, metadata={"annotations": words})


async def change(world: Any, name: str = "a", **patch: Any) -> None:
    """Patch a ConfigMap, and wait."""
    target = ConfigMap(metadata=ObjectMeta(name=name, namespace="default"))
    await world.user.patch(target, merge_patch(patch))
    await asyncio.sleep(1)


class Recorder:
    """A handler that records what it was called with, and may fail."""

    def __init__(self, controller: GenericController[ConfigMap], name: str = "record") -> None:
        self.calls: list[str | None] = []
        self.error: Exception | None = None
        controller.add_handler(name, self.handle, when=is_own)

    async def handle(self, request: Any, config: ConfigMap | None) -> None:
        """Record the data; None for an object that is gone."""
        if self.error is not None:
            raise self.error
        self.calls.append(config.data.get("n", "") if config is not None else None)


def controller_of(world: Any, **options: Any) -> GenericController[ConfigMap]:
    """Return a controller of ConfigMaps."""
    return GenericController(world.cluster, ConfigMap, options=GenericControllerOptions(**options), journal=Journal())


def held(controller: GenericController[ConfigMap]) -> int:
    """The number of paused objects."""
    gate = controller.controller.chain.gate
    assert gate is not None
    return len(gate.book.held)


async def test_handlers_of_a_paused_object_are_called_once_when_the_pause_is_removed(world: Any) -> None:
    """Three changes during the pause become one call with the last state, for each handler."""
    controller = controller_of(world)
    first, second = Recorder(controller, "first"), Recorder(controller, "second")
    await world.config("a", data={"n": "0"})
    async with world.running(controller):
        await asyncio.sleep(1)
        await annotate(world, paused="true")
        assert held(controller) == 1
        for number in (1, 2, 3):
            await change(world, data={"n": str(number)})
        await asyncio.sleep(3600)
        assert first.calls == second.calls == ["0"]
        await annotate(world, paused=None)
        assert first.calls == second.calls == ["0", "3"]
        assert held(controller) == 0


async def test_a_pause_ends_at_its_time_without_an_event(world: Any) -> None:
    """The handlers are called when the time has come."""
    controller = controller_of(world)
    recorder = Recorder(controller)
    until = format_time(utc_now() + timedelta(hours=1))
    await world.config("a", data={"n": "7"}, meta={"annotations": {PAUSED_ANNOTATION: until}})
    async with world.running(controller):
        await asyncio.sleep(3590)
        assert recorder.calls == []
        await asyncio.sleep(15)
        assert recorder.calls == ["7"]


@pytest.mark.parametrize("retry", list(RetryPolicy))
@pytest.mark.parametrize("timed", [False, True])
async def test_retries_wait_too(world: Any, retry: RetryPolicy, timed: bool) -> None:
    """A handler that fails is not called during the pause; afterwards its retries go on until it succeeds."""
    controller = controller_of(world, retry=retry)
    good, bad = Recorder(controller, "good"), Recorder(controller, "bad")
    bad.error = OSError("not now")
    attempts: list[float] = []

    async def count(request: Any, config: ConfigMap | None) -> None:
        attempts.append(world.now())

    controller.add_handler("count", count, when=lambda config: is_own(config) and bad.error is not None)
    await world.config("a", data={"n": "1"})
    async with world.running(controller):
        await asyncio.sleep(10)
        assert bad.calls == []
        await annotate(world, paused=format_time(utc_now() + timedelta(seconds=1000)) if timed else "true")
        good.calls.clear()
        await asyncio.sleep(900)
        assert good.calls == []
        assert not [time for time in attempts if time > world.now() - 850]
        if timed:
            await asyncio.sleep(120)
        else:
            await annotate(world, paused=None)
        assert good.calls[:1] == ["1"]
        await asyncio.sleep(10)
        bad.error = None
        await asyncio.sleep(200)
        assert bad.calls == ["1"]


async def test_a_paused_retry_leaves_its_place_to_others(world: Any) -> None:
    """One worker retries: parked retries of other objects go on while the first object is paused."""
    controller = controller_of(world, workers=2, handler_timeout=20)
    done: list[str] = []
    healthy = False

    async def slow(request: Any, config: ConfigMap | None) -> None:
        await asyncio.sleep(10)
        if not healthy:
            raise OSError("not now")
        done.append(request.name)

    controller.add_handler("slow", slow, when=is_own)
    names = ["a", "b", "c", "d"]
    for name in names:
        await world.config(name)
    async with world.running(controller):
        await asyncio.sleep(60)
        await annotate(world, "a", paused="true")
        await annotate(world, "b", paused="true")
        await asyncio.sleep(60)
        healthy = True
        await asyncio.sleep(600)
        assert {"c", "d"} <= set(done)
        before = len(done)
        await annotate(world, "a", paused=None)
        await annotate(world, "b", paused=None)
        await asyncio.sleep(120)
        assert {"a", "b"} <= set(done[before:])


async def test_the_end_of_a_pause_passes_predicates_that_drop_annotations(world: Any) -> None:
    """With ``generation_changed`` the pause begins and ends, and a call can be requested."""
    controller = GenericController(world.cluster, world.Site, predicates=[generation_changed()])
    calls: list[str] = []

    async def handle(request: Any, site: Any) -> None:
        calls.append(request.name)

    controller.add_handler("handle", handle)
    site = await world.site()

    async def annotate_site(**words: str | None) -> None:
        annotations = {f"opsdk.dev/{key}": value for key, value in words.items()}
        await world.user.patch(site, merge_patch({"metadata": {"annotations": annotations}}))
        await asyncio.sleep(1)

    async with world.running(controller):
        await asyncio.sleep(1)
        await annotate_site(paused="true")
        await annotate_site(reconcile="1")
        assert calls == ["a"]
        await annotate_site(paused=None)
        assert calls == ["a", "a"]
        await annotate_site(reconcile="2")
        assert calls == ["a", "a", "a"]


class Lifecycle:
    """A lifecycle that records its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def create(self, config: ConfigMap) -> None:
        """Record it."""
        self.calls.append("create")

    async def remove(self, config: ConfigMap) -> None:
        """Record it."""
        self.calls.append("remove")


@pytest.mark.parametrize("hold_deletions", [False, True])
async def test_deletions_of_paused_objects_are_as_declared(world: Any, hold_deletions: bool) -> None:
    """`remove` runs during a pause, unless the declaration holds deletions back; then it runs at its end."""
    controller, lifecycle = controller_of(world, pausing=Pausing(hold_deletions=hold_deletions)), Lifecycle()
    controller.add_lifecycle("life", lifecycle, when=is_own)
    await world.config("a")
    async with world.running(controller):
        await asyncio.sleep(1)
        await annotate(world, paused="true")
        await world.user.delete(ConfigMap, "a", namespace="default")
        await asyncio.sleep(60)
        assert lifecycle.calls == (["create"] if hold_deletions else ["create", "remove"])
        if hold_deletions:
            await annotate(world, paused=None)
        assert lifecycle.calls == ["create", "remove"]
        await asyncio.sleep(1)
        assert await world.read() is None
        assert held(controller) == 0


async def test_a_paused_object_gets_no_finalizer(world: Any) -> None:
    """A lifecycle writes nothing while its object is paused, so it can be deleted at once, and is forgotten."""
    controller, lifecycle = controller_of(world), Lifecycle()
    controller.add_lifecycle("life", lifecycle, when=is_own)
    await world.config("a", meta={"annotations": {PAUSED_ANNOTATION: "true"}})
    async with world.running(controller):
        await asyncio.sleep(10)
        assert (await world.read()).metadata.finalizers == []
        await world.user.delete(ConfigMap, "a", namespace="default")
        await asyncio.sleep(1)
        assert await world.read() is None
        assert lifecycle.calls == []
        assert held(controller) == 0


async def test_a_controller_can_ignore_pauses(world: Any) -> None:
    """With ``pausing=None`` the annotation has no effect."""
    controller = controller_of(world, pausing=None)
    recorder = Recorder(controller)
    await world.config("a", meta={"annotations": {PAUSED_ANNOTATION: "true"}})
    async with world.running(controller):
        await asyncio.sleep(1)
        assert recorder.calls == [""]


async def test_the_condition_and_the_warning_are_those_of_reconcilers(world: Any) -> None:
    """`Pausing.condition` shows the pause; an annotation that is not understood is a Warning Event."""
    options = GenericControllerOptions(pausing=Pausing(condition="Paused"))
    controller = GenericController(world.cluster, world.Site, options=options)

    async def handle(request: Any, site: Any) -> None: ...

    controller.add_handler("handle", handle)
    await world.site(annotations={PAUSED_ANNOTATION: "1h"})
    async with world.running(controller):
        await asyncio.sleep(5)
        site = await world.user.get(world.Site, "default/a")
        assert [(c.type, c.status, c.reason) for c in site.status.conditions] == [("Paused", "True", "InvalidPause")]
        assert [e.reason for e in await world.user.list(Event, namespace="default")] == ["InvalidPause"]


@pytest.mark.parametrize("seed", range(6))
async def test_no_call_during_a_pause_and_the_last_state_after_all(world: Any, seed: int) -> None:
    """After any changes, pauses, failures and deletions each handler has the last state, and none ran in a pause."""
    rng = random.Random(seed)
    controller = controller_of(world, retry=rng.choice(list(RetryPolicy)), workers=rng.choice([1, 2, 5]))
    paused_since: dict[str, float] = {}
    latest: dict[tuple[str, str], str | None] = {}
    wrong: list[str] = []
    failing = 0.4

    def handler_of(handler: str) -> Any:
        async def handle(request: Any, config: ConfigMap | None) -> None:
            since = paused_since.get(request.name)
            if since is not None and world.now() > since + 0.5:
                wrong.append(f"{handler} ran for {request}")
            await asyncio.sleep(rng.choice([0, 0, 0.2]))
            if rng.random() < failing:
                raise OSError("not now")
            latest[handler, request.name] = config.data.get("n") if config is not None else None

        return handle

    for handler in ("one", "two"):
        controller.add_handler(handler, handler_of(handler))
    async with world.running(controller):
        for number in range(60):
            name = rng.choice("abc")
            exists = await world.read(name) is not None
            if not exists:
                await world.config(name, data={"n": str(number)})
            elif rng.random() < 0.1:
                paused_since.pop(name, None)
                await world.user.delete(ConfigMap, name, namespace="default")
            elif rng.random() < 0.4:
                if name in paused_since:
                    del paused_since[name]
                    await annotate(world, name, paused=None)
                else:
                    paused_since[name] = world.now() + 1
                    await annotate(world, name, paused="true")
            else:
                await change(world, name, data={"n": str(number)})
            await asyncio.sleep(rng.choice([0, 1, 30]))
        assert not wrong
        failing = 0.0
        for name in list(paused_since):
            del paused_since[name]
            await annotate(world, name, paused=None)
        await asyncio.sleep(600)
        for name in "abc":
            config = await world.read(name)
            last = config.data["n"] if config is not None else None
            assert {latest.get((handler, name)) for handler in ("one", "two")} == {last}
        assert held(controller) == 0


# -------------------------------------------------------------- whole controllers
async def test_a_config_map_pauses_the_controllers_of_lifecycles() -> None:
    """A ConfigMap pauses the controllers of lifecycles, also of later ones; others continue."""
    calls: list[str] = []
    operator = Operator("keeper", OperatorOptions(namespace="default", pause_config_map="pauses"))
    factories: list[SharedControllerFactory] = []

    def handler_of(kind: Any) -> Any:
        async def handle(request: Any, obj: Any) -> None:
            calls.append(f"{kind.gvk.kind} {request.name}")

        return handle

    @operator.setup
    def add(operator: Operator) -> None:
        factories.append(SharedControllerFactory.of(operator))
        factories[0].for_kind(ConfigMap).add_handler("first", handler_of(ConfigMap))

    @operator.reconciler(ConfigMap)
    async def reconcile(config: ConfigMap, ctx: Context) -> None:
        calls.append(f"reconcile {config.metadata.name}")

    pauses = ConfigMap(
        metadata=ObjectMeta(name="pauses", namespace="default"),
        data={"configmap-handlers": "true", "event-handlers": "true"},
    )
    async with Environment() as env, Cluster(env.config) as outside:
        await outside.uncached.create(pauses)
        async with running(operator, env):
            await asyncio.sleep(5)
            assert "reconcile pauses" in calls
            factories[0].for_kind(Event).add_handler("late", handler_of(Event))
            outside.recorder.event(pauses, "Normal", "Test", "a note", action="Test")
            await asyncio.sleep(60)
            assert not [call for call in calls if not call.startswith("reconcile")]
            await outside.uncached.delete(pauses)
            await asyncio.sleep(60)
            assert [call for call in calls if call.startswith("ConfigMap")]
            assert [call for call in calls if call.startswith("Event")]


# -------------------------------------------------------------- declarations
@pytest.mark.parametrize("pausing", [True, "Paused", Pausing])
def test_wrong_options_of_pauses_are_refused(pausing: Any) -> None:
    """The error has file and line."""
    with pytest.raises(UsageError, match=rf"{__file__}:\d+: pausing takes the options of pauses, but got"):
        GenericControllerOptions(pausing=pausing)


async def test_a_kind_without_conditions_is_refused(world: Any) -> None:
    """The error says what the status needs, with file and line of the controller's declaration."""
    with pytest.raises(UsageError, match=rf"{__file__}:\d+: condition='Paused' needs conditions"):
        controller_of(world, pausing=Pausing(condition="Paused"))


async def test_the_condition_implies_its_permission() -> None:
    """A factory declares the patch of the status."""
    operator = Operator("keeper")

    @operator.setup
    def add(operator: Operator) -> None:
        options = GenericControllerOptions(pausing=Pausing(condition="Ready"))
        SharedControllerFactory.of(operator, options=options).for_kind(Deployment)

    async with Environment() as env:
        operator.prepare(env.config)
        assert "patch deployments.apps/status" in str(operator.rules())
        await operator.cluster.aclose()
