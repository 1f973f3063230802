"""Lifecycles against the embedded server: what is called, and which writes reach the server in which order."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from envtest.testing.effects import Conflict, Fail, Reset
from opsdk import Context
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.kinds import metadata_only
from opsdk.apimachinery.object import deep_copy
from opsdk.errors import UsageError
from opsdk.event.predicates import of_object, on
from opsdk.lifecycle.errors import WrongObjectError
from opsdk.lifecycle.generic_controller import GenericController
from opsdk.lifecycle.names import LifecycleNames

FINALIZER = "controller.cattle.io/dns"
CREATED = "lifecycle.cattle.io/create.dns"


class Dns:
    """Records its calls, and fails as often as it should."""

    def __init__(self, **failures: int) -> None:
        self.calls: list[str] = []
        self.failures = failures

    async def create(self, obj: ConfigMap) -> None:
        self.called("create")

    async def updated(self, obj: ConfigMap) -> None:
        self.called("updated")

    async def remove(self, obj: ConfigMap) -> None:
        self.called("remove")

    def called(self, method: str) -> None:
        self.calls.append(method)
        if self.failures.get(method, 0) > 0:
            self.failures[method] -= 1
            raise ValueError(f"{method} fails")


def is_ours(obj: ConfigMap) -> bool:
    """Whether a test created the ConfigMap."""
    return obj.metadata.namespace == "default" and "kube" not in obj.metadata.name


def controller_of(world: Any, *lifecycles: tuple[str, Any], **options: Any) -> GenericController[ConfigMap]:
    """Return a controller with lifecycles for the ConfigMaps that the tests create."""
    controller = GenericController(world.cluster, ConfigMap)
    for name, instance in lifecycles:
        controller.add_lifecycle(name, instance, when=is_ours, **options)
    return controller


def writes(world: Any, name: str = "a") -> list[dict[str, Any]]:
    """Return metadata of each state that the journal has of a ConfigMap, the creation included."""
    return [
        (entry.after or {}).get("metadata", {})
        for entry in world.env.journal
        if entry.ref.resource == "configmaps" and entry.ref.name == name
    ]


def steps(world: Any, name: str = "a") -> list[tuple[list[str], Mapping[str, str]]]:
    """Return finalizers and annotations of each state."""
    return [(meta.get("finalizers", []), meta.get("annotations", {})) for meta in writes(world, name)]


async def test_the_order_of_the_writes(world: Any) -> None:
    """Norman Lifecycle.create: finalizer, effects of create, annotation; updated is not called in the same pass."""
    at_create: list[list[str]] = []

    class Recording(Dns):
        async def create(self, obj: ConfigMap) -> ConfigMap:
            self.called("create")
            live = await world.read()
            at_create.append(live.metadata.finalizers)
            obj.data["made"] = "yes"
            return obj

        async def updated(self, obj: ConfigMap) -> None:
            self.called("updated")
            assert obj.metadata.annotations[CREATED] == "true"

    lifecycle = Recording()
    _ = world.env.journal  # records from here on
    async with world.running(controller_of(world, ("dns", lifecycle))):
        await world.config()
        await world.until(lambda: len(lifecycle.calls) >= 2)
        await asyncio.sleep(5)
    assert lifecycle.calls[:2] == ["create", "updated"]
    assert lifecycle.calls.count("create") == 1
    assert at_create == [[FINALIZER]]
    assert steps(world) == [([], {}), ([FINALIZER], {}), ([FINALIZER], {CREATED: "true"})]
    assert (await world.read()).data == {"made": "yes"}


async def test_only_updated_writes_nothing(world: Any) -> None:
    """Norman Lifecycle interface: a class with only `updated` adds neither finalizer nor annotation."""
    names: list[str] = []

    class Updated:
        async def updated(self, obj: ConfigMap) -> ConfigMap:
            names.append(obj.metadata.name)
            return obj

    _ = world.env.journal  # records from here on
    async with world.running(controller_of(world, ("dns", Updated()))):
        await world.config()
        await world.until(lambda: names)
        await asyncio.sleep(5)
    assert steps(world) == [([], {})]


async def test_no_change_is_no_put(world: Any) -> None:
    """Norman Updated: a change of the returned object is written once; without a difference there is no PUT."""

    class Once:
        calls = 0

        async def updated(self, obj: ConfigMap) -> ConfigMap:
            self.calls += 1
            obj.data["seen"] = "yes"
            return obj

    lifecycle = Once()
    async with world.running(controller_of(world, ("dns", lifecycle))):
        config = await world.config()
        await world.until(lambda: lifecycle.calls == 2)
        async with world.env.no_writes():
            config = await world.read()
            await asyncio.sleep(5)
        config.metadata.labels["by"] = "user"
        await world.user.update(config)
        await world.until(lambda: lifecycle.calls == 3)
        async with world.env.no_writes():
            await asyncio.sleep(5)


async def test_remove_that_raises_twice(world: Any) -> None:
    """Norman Lifecycle.finalize: while remove raises the object lives; the third time it is gone."""
    held: list[list[str]] = []

    class Holding(Dns):
        async def remove(self, obj: ConfigMap) -> None:
            held.append((await world.read()).metadata.finalizers)
            self.called("remove")

    lifecycle = Holding(remove=2)
    async with world.running(controller_of(world, ("dns", lifecycle))):
        config = await world.config()
        await world.until(lambda: lifecycle.calls[:2] == ["create", "updated"])
        await world.user.delete(config)
        await world.until_gone()
        await asyncio.sleep(60)
    assert held == [[FINALIZER]] * 3


async def test_what_a_failing_method_changed_is_written(world: Any) -> None:
    """Norman Lifecycle.finalize: the object is recorded if remove changed it, even when it raises."""

    class Failing(Dns):
        async def remove(self, obj: ConfigMap) -> None:
            obj.data[f"try{len(self.calls)}"] = "failed"
            self.called("remove")

    lifecycle = Failing(remove=1)
    _ = world.env.journal  # records from here on
    async with world.running(controller_of(world, ("dns", lifecycle))):
        config = await world.config()
        await world.until(lambda: lifecycle.calls[:2] == ["create", "updated"])
        await world.user.delete(config)
        await world.until_gone()
    assert lifecycle.calls.count("remove") == 2
    states = [e.after.get("data", {}) for e in world.env.journal if e.ref.name == "a" and e.after]
    assert any(value == "failed" for state in states for value in state.values())


async def test_two_lifecycles_on_one_object(world: Any) -> None:
    """Norman Two lifecycles: finalizers and annotations are independent; both remove methods run before it is gone."""
    one, two = Dns(), Dns(remove=3)
    async with world.running(controller_of(world, ("dns", one), ("vpn", two))):
        config = await world.config()
        await world.until(lambda: "updated" in one.calls and "updated" in two.calls)
        live = await world.read()
        assert live.metadata.finalizers == [FINALIZER, "controller.cattle.io/vpn"]
        assert set(live.metadata.annotations) == {CREATED, "lifecycle.cattle.io/create.vpn"}
        await world.user.delete(config)
        await world.until(lambda: two.calls.count("remove") == 4)
        assert one.calls.count("remove") == 1

        await world.until_gone()
    assert one.calls.count("create") == two.calls.count("create") == 1


async def test_an_object_without_our_finalizer_is_left_alone(world: Any) -> None:
    """Norman Lifecycle.finalize: our finalizer is absent on a deleting object, so nothing runs, not even updated."""
    lifecycle = Dns()
    config = await world.config(meta={"finalizers": ["other.example.com/keep"]})
    await world.user.delete(config)
    async with world.running(controller_of(world, ("dns", lifecycle))):
        await asyncio.sleep(10)
        async with world.env.no_writes(resource="configmaps"):
            await asyncio.sleep(5)
    assert lifecycle.calls == []


async def test_objects_that_rancher_wrote(world: Any) -> None:
    """Norman Finalizer names: an object with norman's finalizer and annotation is not created again, and is removed."""
    lifecycle = Dns()
    config = await world.config(meta={"finalizers": [FINALIZER], "annotations": {CREATED: "true"}})
    _ = world.env.journal  # records from here on
    async with world.running(controller_of(world, ("dns", lifecycle))):
        await world.until(lambda: lifecycle.calls == ["updated"])
        assert writes(world) == []
        await world.user.delete(config)
        await world.until(lambda: lifecycle.calls == ["updated", "remove"])

        await world.until_gone()


async def test_former_names_are_renamed_in_one_write(world: Any) -> None:
    """Adoption: finalizers and annotations of a former name are replaced in place, by one update, without create."""
    lifecycle = Dns()
    meta = {
        "finalizers": ["first.example.com/x", FINALIZER, "last.example.com/x"],
        "annotations": {CREATED: "true", "k": "v"},
    }
    await world.config(meta=meta)
    names = LifecycleNames.norman("zones", prefix="dns.example.com/", adopt=["dns"])
    _ = world.env.journal  # records from here on
    async with world.running(controller_of(world, ("zones", lifecycle), names=names)):
        await world.until(lambda: lifecycle.calls)
        await asyncio.sleep(5)
    finalizers = ["first.example.com/x", "dns.example.com/zones", "last.example.com/x"]
    assert steps(world) == [(finalizers, {"k": "v", "lifecycle.cattle.io/create.zones": "true"})]
    assert set(lifecycle.calls) == {"updated"}


@pytest.mark.parametrize("value", ["false", "", "True", "{", '{"uid": "another"}', "[]", "é"])
async def test_a_broken_annotation_means_that_create_runs(world: Any, value: str) -> None:
    """Broken metadata: an annotation that records no success lets create run, and is replaced."""
    lifecycle = Dns()
    await world.config(meta={"annotations": {CREATED: value}})
    async with world.running(controller_of(world, ("dns", lifecycle))):
        await world.until(lambda: "updated" in lifecycle.calls)
    assert lifecycle.calls[0] == "create"
    assert (await world.read()).metadata.annotations[CREATED] == "true"


async def test_a_record_with_the_uid_is_not_valid_for_a_copy(world: Any) -> None:
    """Modern record: it holds uid and generation, so create runs for a copy of the object; "true" is still read."""
    lifecycle = Dns()
    names = LifecycleNames.norman("dns", record_uid=True)
    await world.config("old", meta={"annotations": {CREATED: "true"}})
    async with world.running(controller_of(world, ("dns", lifecycle), names=names)):
        await world.until(lambda: "updated" in lifecycle.calls)
        assert "create" not in lifecycle.calls
        await world.config("a")
        await world.until(lambda: lifecycle.calls[-2:] == ["updated", "updated"] and "create" in lifecycle.calls)
        first = await world.read("a")
        assert first.metadata.uid in first.metadata.annotations[CREATED]
        await world.config("copy", meta={"annotations": first.metadata.annotations})
        await world.until(lambda: lifecycle.calls.count("create") == 2)


async def test_repeated_finalizers_all_go(world: Any) -> None:
    """Broken metadata: a finalizer that is in the list twice is removed with all its copies."""
    lifecycle = Dns()
    config = await world.config(meta={"finalizers": [FINALIZER, "x.example.com/y", FINALIZER]})
    async with world.running(controller_of(world, ("dns", lifecycle))):
        await world.until(lambda: "updated" in lifecycle.calls)
        await world.user.delete(config)
        await world.until(lambda: "remove" in lifecycle.calls)

        async def without() -> bool:
            return (await world.read()).metadata.finalizers == ["x.example.com/y"]

        await world.until(without)


async def test_a_finalizer_that_another_program_removed(world: Any) -> None:
    """Broken metadata: on a living object the finalizer is added again; create does not run again."""
    lifecycle = Dns()
    async with world.running(controller_of(world, ("dns", lifecycle))):
        await world.config()
        await world.until(lambda: lifecycle.calls[:2] == ["create", "updated"])
        live = await world.read()
        live.metadata.finalizers = []
        await world.user.update(live)

        async def added() -> bool:
            return (await world.read()).metadata.finalizers == [FINALIZER]

        await world.until(added)
    assert lifecycle.calls.count("create") == 1


async def test_a_finalizer_removed_while_deleting(world: Any) -> None:
    """Broken metadata: another program removes our finalizer during remove; the object goes, and nothing fails."""

    class Slow(Dns):
        async def remove(self, obj: ConfigMap) -> None:
            self.called("remove")
            live = await world.read()
            live.metadata.finalizers = []
            await world.user.update(live)

    lifecycle = Slow()
    controller = controller_of(world, ("dns", lifecycle))
    async with world.running(controller):
        config = await world.config()
        await world.until(lambda: lifecycle.calls[:2] == ["create", "updated"])
        await world.user.delete(config)
        await world.until(lambda: "remove" in lifecycle.calls)
        await asyncio.sleep(60)
    assert lifecycle.calls.count("remove") == 1
    assert await world.read() is None


async def test_the_finalizer_is_removed_in_three_tries(world: Any) -> None:
    """Norman Lifecycle.finalize: two conflicts at the removal of the finalizer do not call remove again."""
    lifecycle = Dns()
    async with world.running(controller_of(world, ("dns", lifecycle))):
        config = await world.config()
        await world.until(lambda: lifecycle.calls[:2] == ["create", "updated"])
        await world.user.delete(config)
        world.env.faults.add(Conflict(), verb="update", resource="configmaps", namespace="default", times=2)

        await world.until_gone()
    assert lifecycle.calls.count("remove") == 1


async def test_a_conflict_is_retried_and_is_no_error(world: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Norman GenericController: conflicts are retried, and not logged as errors."""
    lifecycle = Dns()
    world.env.faults.add(Conflict(), verb="update", resource="configmaps", namespace="default", times=2)
    with caplog.at_level(logging.INFO):
        async with world.running(controller_of(world, ("dns", lifecycle))):
            await world.config()
            await world.until(lambda: lifecycle.calls[:2] == ["create", "updated"])
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert "changed concurrently" in caplog.text


@pytest.mark.parametrize("effect", [Fail(500), Reset(), Reset(after_commit=True)], ids=["500", "lost", "late"])
@pytest.mark.parametrize("nth", [1, 2, 3])
async def test_a_crash_at_the_nth_write(world: Any, nth: int, effect: Any) -> None:
    """Crash safety: the nth write fails or its answer is lost; create ran at least once, remove before the end."""
    lifecycle = Dns()
    _ = world.env.journal  # records from here on
    world.env.faults.add(effect, verb="update", resource="configmaps", namespace="default", nth=nth)
    async with world.running(controller_of(world, ("dns", lifecycle))):
        config = await world.config()
        await world.until(lambda: "updated" in lifecycle.calls)
        await world.user.delete(config)
        await world.until_gone()
    annotated = [annotations.get(CREATED) for _, annotations in steps(world)]
    changes = sum(now == "true" and before is None for before, now in itertools.pairwise(annotated))
    assert changes == 1
    assert lifecycle.calls.index("create") < lifecycle.calls.index("updated") < lifecycle.calls.index("remove")


async def test_a_webhook_that_strips_finalizers_is_named(world: Any) -> None:
    """An object that never keeps the finalizer is an error that says what to look for, not an endless loop."""
    controller = controller_of(world, ("dns", Dns()))

    class Client:
        async def update(self, obj: ConfigMap) -> ConfigMap:
            obj.metadata.finalizers = []
            return obj

    class Ctx:
        client = Client()

    registration = controller.handlers.get("dns")
    config = await world.config()
    with pytest.raises(UsageError, match="find the admission webhook"):
        await registration.function(None, config, Ctx())


async def test_another_object_is_refused(world: Any) -> None:
    """Bad input: a method that returns another object is named; nothing is written."""
    errors: list[BaseException] = []

    class Wrong:
        async def updated(self, obj: ConfigMap, ctx: Context) -> ConfigMap:
            other = deep_copy(obj)
            other.metadata.name = "b"
            return other

    controller = controller_of(world, ("dns", Wrong()))
    config = await world.config()
    async with world.running(controller):
        await asyncio.sleep(1)
        async with world.env.no_writes():
            record = await controller.controller.reconcile_once(
                controller.keys()[0]._replace(name="a", namespace="default")
            )
    assert "updated of lifecycle dns returned ConfigMap default/b" in record.detail
    assert errors == []
    assert issubclass(WrongObjectError, UsageError)
    assert config.metadata.name == "a"


@pytest.mark.parametrize(
    ("instance", "text"),
    [
        (object(), "has none of create, updated and remove"),
        (Dns, "is a class"),
        (type("Plain", (), {"updated": lambda self, obj: None})(), "is not async"),
    ],
)
async def test_what_cannot_be_a_lifecycle(world: Any, instance: object, text: str) -> None:
    """Bad input: a lifecycle that cannot be called is refused when it is added."""
    with pytest.raises(UsageError, match=text):
        GenericController(world.cluster, ConfigMap).add_lifecycle("dns", instance)


async def test_metadata_alone_has_no_lifecycle(world: Any) -> None:
    """Bad input: a lifecycle updates whole objects, so a kind of metadata only is refused."""
    with pytest.raises(UsageError, match="writes whole objects"):
        GenericController(world.cluster, metadata_only(ConfigMap)).add_lifecycle("dns", Dns())


@pytest.mark.parametrize("name", ["", "a/b", "x" * 64, "-a", "a b"])
def test_names_that_the_server_would_refuse(name: str) -> None:
    """Bad input: a name that makes no valid finalizer is refused before the first object comes."""
    with pytest.raises(UsageError, match="not a qualified name"):
        LifecycleNames.norman(name)


async def test_a_deletion_passes_predicates_to_lifecycles(world: Any) -> None:
    """Predicates that drop every update do not leave an object with a lifecycle's finalizer in its deletion."""
    removed: list[str] = []

    class Cleaning:
        async def remove(self, obj: ConfigMap) -> None:
            removed.append(obj.metadata.name)

    controller = GenericController(
        world.cluster, ConfigMap, predicates=[of_object(lambda obj: obj.metadata.name == "a"), on(update=False)]
    )
    controller.add_lifecycle("dns", Cleaning())
    async with world.running(controller):
        await world.config()
        await asyncio.sleep(5)
        await world.user.delete(ConfigMap, "default/a")
        await world.until_gone()
    assert removed == ["a"]
