"""`Cluster.wait_for` returns when an object is as it should be, and says what it lacks when the time is up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from boxes import Box
from boxes import box as make_box

from opsdk import Client, Cluster, MergeFrom, ObjectMeta
from opsdk.api.core.v1 import ConfigMap, Namespace
from opsdk.apimachinery.crd import crd_for
from opsdk.client.patch import merge_patch
from opsdk.errors import DeadlineError, ForbiddenError, NoMatchError, UsageError

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")

effects = pytest.importorskip("envtest.testing.effects", reason="needs the envtest extra: pip install opsdk[envtest]")


@asynccontextmanager
async def new_cluster() -> AsyncIterator[Cluster]:
    """A cluster that no one has started: `wait_for` needs no cache of it."""
    async with environment.Environment(crds=[crd_for(Box)]) as env, Cluster(env.config) as cluster:
        yield cluster


def config(name: str = "a", **data: str) -> ConfigMap:
    """Return a ConfigMap in the default namespace."""
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data=data)


def later(action: Callable[[], Any], seconds: float = 30.0) -> asyncio.Task[Any]:
    """Call something after a while."""

    async def act() -> Any:
        await asyncio.sleep(seconds)
        return await action()

    return asyncio.create_task(act())


async def set_condition(client: Client, box: Box, **fields: Any) -> None:
    """Write the only condition of a box."""
    live = await client.get(Box, f"default/{box.metadata.name}")
    time = "2026-01-01T00:00:00Z"
    condition = {"type": "Ready", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": time, **fields}
    status = {"observedGeneration": live.metadata.generation, "conditions": [condition]}
    await client.status().patch(live, merge_patch({"status": status}))


async def test_it_returns_an_object_that_is_created_later() -> None:
    """Also a cluster-scoped one; others of the kind do not count."""
    async with new_cluster() as cluster:
        client = cluster.uncached
        later(lambda: client.create(config("b")), 10)
        later(lambda: client.create(config("a", color="red")))
        live = await cluster.wait_for(ConfigMap, "default/a", until="create")
        assert live.data == {"color": "red"}
        later(lambda: client.create(Namespace(metadata=ObjectMeta(name="late"))))
        assert (await cluster.wait_for(Namespace, "late", until="create")).metadata.name == "late"


async def test_it_returns_when_an_object_is_gone() -> None:
    """An object that was never there is gone; one with a finalizer is not."""
    async with new_cluster() as cluster:
        client = cluster.uncached
        assert await cluster.wait_for(ConfigMap, "default/a", until="delete") is None  # type: ignore[func-returns-value]
        held = config()
        held.metadata.finalizers = ["demo.opsdk.dev/hold"]
        live = await client.create(held)
        await client.delete(live)
        with pytest.raises(DeadlineError, match=r"to be gone: it is being deleted \(finalizers: demo.opsdk"):
            await cluster.wait_for(live, until="delete", within=5)
        live = await client.get(ConfigMap, "default/a")
        live.metadata.finalizers = []
        later(lambda: client.patch(live, MergeFrom()))
        await cluster.wait_for(live, until="delete")


@pytest.mark.parametrize(
    ("until", "condition"),
    [
        ("condition=Ready", {"status": "True"}),
        ("condition=ready=true", {"status": "True"}),
        ("condition=Ready=False", {"status": "False"}),
        ("self.status.conditions[0].reason == 'Done'", {"reason": "Done"}),
        (lambda box: bool(box.status and box.status.conditions[0].message == "done"), {"message": "done"}),
        (True, {"status": "True", "observedGeneration": 1}),
    ],
)
async def test_each_form_of_a_wish_is_awaited(until: Any, condition: dict[str, Any]) -> None:
    """Conditions as kubectl reads them, CEL, functions, and kstatus."""
    async with new_cluster() as cluster:
        box = await cluster.uncached.create(make_box())
        other = {"status": "Unknown", "reason": "NotYet", "message": "not yet", "observedGeneration": 1}
        await set_condition(cluster.uncached, box, **other)
        task = later(lambda: set_condition(cluster.uncached, box, **condition))
        live = await cluster.wait_for(Box, "default/a", until=until)
        assert task.done()
        assert live.metadata.name == "a"


async def test_the_error_says_what_the_object_lacks() -> None:
    """The newest state counts, and a condition of an older generation is not believed."""
    async with new_cluster() as cluster:
        box = await cluster.uncached.create(make_box())

        async def error(until: Any) -> str:
            with pytest.raises(DeadlineError) as caught:
                await cluster.wait_for(box, until=until, within=3)
            return str(caught.value)

        prefix = "waited 3 s for Box default/a to have condition=Ready: "
        assert await error("condition=Ready") == prefix + "it has no condition Ready"
        await set_condition(cluster.uncached, box, status="False", reason="NoDisk", message="the disk is full")
        assert await error("condition=Ready") == prefix + "its condition Ready is False: NoDisk: the disk is full"
        await set_condition(cluster.uncached, box, observedGeneration=1)
        box = await cluster.uncached.get(Box, "default/a")
        box.spec.size = 9
        await cluster.uncached.patch(box, MergeFrom())
        assert await error("condition=Ready") == prefix + "its condition Ready is of generation 1, not 2"
        expected = "waited 3 s for Box default/a to meet self.spec.size == 3: generation 2 is not observed yet"
        assert (await error("self.spec.size == 3")).startswith(expected)
        with pytest.raises(DeadlineError, match=r"waited 3 s for ConfigMap default/none to exist: it does not exist"):
            await cluster.wait_for(ConfigMap, "default/none", until="create", within=3)


@pytest.mark.parametrize("effect", [effects.DropWatch(0), effects.ExpireWatch(), effects.Fail(503)], ids=repr)
async def test_a_wait_survives_a_watch_that_ends(effect: Any) -> None:
    """The change comes while no watch is open."""
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        live = await cluster.uncached.create(config(n="1"))
        until = "self.data.n == '2'"
        waiting = asyncio.create_task(cluster.wait_for(ConfigMap, "default/a", until=until, within=3600))
        with env.faults.add(effect, verb="watch"):
            await asyncio.sleep(60)
            live.data["n"] = "2"
            await cluster.uncached.patch(live, MergeFrom())
            await asyncio.sleep(60)
        assert (await waiting).data == {"n": "2"}


async def test_a_forbidden_kind_is_an_error_at_once() -> None:
    """Not after the time."""
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        env.faults.add(effects.Fail(403), resource="configmaps")
        with pytest.raises(ForbiddenError):
            await cluster.wait_for(ConfigMap, "default/a", until="create")


async def test_the_error_names_what_the_watch_fails_with() -> None:
    """A server that does not answer is another reason than an object that lacks something."""
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        env.faults.add(effects.Fail(503), resource="configmaps")
        with pytest.raises(DeadlineError, match=r"the server has not answered; the watch fails now: .*503"):
            await cluster.wait_for(ConfigMap, "default/a", until="create", within=20)
        assert len(cluster.caches()) == 1


async def test_what_can_never_come_is_an_error_at_once() -> None:
    """A kind that is not served, and wishes that cannot be read."""
    async with new_cluster() as cluster:

        class Absent(Box):
            gvk = Box.gvk._replace(kind="Absent")

        with pytest.raises(NoMatchError):
            await cluster.wait_for(Absent, "default/a")
        for until in ("", False, "condition=", "self.nothing ==", 3):
            with pytest.raises(UsageError):
                await cluster.wait_for(Box, "default/a", until=until)  # type: ignore[call-overload]
        with pytest.raises(UsageError, match="an object, or a kind and a key"):
            await cluster.wait_for(Box)  # type: ignore[call-overload]
