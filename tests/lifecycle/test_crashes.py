"""Random histories: users create, change and delete objects while the program crashes and starts again.

``OPSDK_HISTORIES=200 make test-deep`` plays more of them.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from envtest import Environment
from envtest.testing.effects import Conflict, Delay, Fail, Reset
from opsdk import Cluster, ClusterOptions, ObjectMeta
from opsdk.api.core.v1 import ConfigMap
from opsdk.errors import ConflictError, InternalServerError, NotFoundError, TransportError
from opsdk.lifecycle.generic_controller import GenericController

HISTORIES = int(os.environ.get("OPSDK_HISTORIES", "48"))
FINALIZERS = {name: f"controller.cattle.io/{name}" for name in ("dns", "vpn")}


class External:
    """A system outside the cluster, with records by uid, and a lifecycle of it."""

    def __init__(self, name: str, rng: random.Random) -> None:
        self.name, self.rng = name, rng
        self.records: set[str] = set()
        self.removed: set[str] = set()
        self.created: Counter[str] = Counter()

    async def create(self, obj: ConfigMap) -> None:
        await self.work()
        self.created[obj.metadata.uid] += 1
        self.records.add(obj.metadata.uid)
        await self.work()

    async def updated(self, obj: ConfigMap) -> None:
        assert obj.metadata.annotations[f"lifecycle.cattle.io/create.{self.name}"] == "true"
        assert FINALIZERS[self.name] in obj.metadata.finalizers

    async def remove(self, obj: ConfigMap) -> None:
        await self.work()
        self.records.discard(obj.metadata.uid)
        self.removed.add(obj.metadata.uid)
        await self.work()

    async def work(self) -> None:
        await asyncio.sleep(self.rng.random() * 0.2)
        if self.rng.random() < 0.1:
            raise ValueError("the external system failed")


async def run_program(env: Environment, externals: list[External]) -> None:
    """Run the program in a cluster of its own until it is cancelled; then it is gone at once."""
    async with Cluster(env.config, ClusterOptions(name="program")) as cluster:
        controller = GenericController(cluster, ConfigMap)
        for external in externals:
            controller.add_lifecycle(external.name, external, when=lambda obj: obj.metadata.name.startswith("x"))
        tasks = [asyncio.create_task(cluster.start()), asyncio.create_task(controller.start())]
        try:
            await asyncio.wait(tasks)
        finally:
            for _ in range(2):  # the second cancellation ends the drain
                for task in tasks:
                    task.cancel()
                await asyncio.sleep(0)
            await asyncio.gather(*tasks, return_exceptions=True)


async def act(rng: random.Random, user: Any) -> None:
    """Do something that users and other programs do."""
    key = f"default/x{rng.randrange(4)}"
    config = await user.get_or_none(ConfigMap, key)
    try:
        if config is None:
            await user.create(ConfigMap(metadata=ObjectMeta(name=key.partition("/")[2], namespace="default")))
        elif rng.random() < 0.4:
            await user.delete(config)
        else:
            config.data["n"] = str(rng.random())
            await user.update(config)
    except (ConflictError, NotFoundError):
        return


async def history(env: Environment, seed: int) -> tuple[int, int]:
    """Play one history and check its laws. Returns the number of objects and of crashes."""
    rng = random.Random(seed)
    externals = [External(name, rng) for name in FINALIZERS]
    crashes = 0
    _ = env.journal
    env.faults.add(Delay(0.0, jitter=0.2), verb="update", resource="configmaps")
    for effect in (Fail(500), Reset(), Reset(after_commit=True), Conflict()):
        env.faults.add(effect, verb="update", resource="configmaps", namespace="default", user="", probability=0.05)
    async with Cluster(env.config, ClusterOptions(name="user")) as outside:
        user = outside.uncached
        for _ in range(6):
            program = asyncio.create_task(run_program(env, externals))
            for _ in range(rng.randrange(2, 8)):
                with suppress(InternalServerError, TransportError):  # the faults hit the user as well
                    await act(rng, user)
                await asyncio.sleep(rng.random() * 0.5)
            program.cancel()
            await asyncio.gather(program, return_exceptions=True)
            crashes += 1
        program = asyncio.create_task(run_program(env, externals))
        for number in range(4):
            await user.delete(ConfigMap, f"default/x{number}", missing_ok=True)

        async def gone() -> bool:
            return not [c for c in await user.list(ConfigMap, namespace="default") if c.metadata.name[0] == "x"]

        await env.eventually(gone, within=600)
        program.cancel()
        await asyncio.gather(program, return_exceptions=True)
    check(env, externals)
    return len({entry.after["metadata"]["uid"] for entry in entries(env) if entry.after}), crashes


def entries(env: Environment) -> list[Any]:
    """Return the writes of the objects of the histories."""
    return [e for e in env.journal if e.ref.resource == "configmaps" and e.ref.name[0] == "x"]


def check(env: Environment, externals: list[External]) -> None:
    """Nothing is left, create precedes its one annotation, remove precedes the end of the finalizer."""
    annotated: Counter[tuple[str, str]] = Counter()
    for entry in entries(env):
        before, after = ((tree or {}).get("metadata", {}) for tree in (entry.before, entry.after))
        uid = after.get("uid") or before["uid"]
        for external in externals:
            key, finalizer = f"lifecycle.cattle.io/create.{external.name}", FINALIZERS[external.name]
            was, is_now = before.get("annotations", {}).get(key), after.get("annotations", {}).get(key)
            if is_now == "true" and was != "true":
                annotated[uid, external.name] += 1
                assert finalizer in before["finalizers"]
                assert external.created[uid] >= 1
            if finalizer in before.get("finalizers", []) and finalizer not in after.get("finalizers", []):
                assert uid in external.removed
    assert max(annotated.values(), default=0) <= 1
    assert [external.records for external in externals] == [set()] * len(externals)


@pytest.mark.parametrize("seed", range(8))
async def test_a_history_with_crashes(k8s_env: Environment, seed: int) -> None:
    """Crash safety: create ran before its one annotation, remove before its finalizer went; nothing is left."""
    objects, crashes = await history(k8s_env, seed)
    assert (objects > 0, crashes) == (True, 6)


@pytest.mark.slow
@pytest.mark.deep
@pytest.mark.parametrize("block", range(8))
async def test_many_histories_with_crashes(block: int) -> None:
    """The law of the crash histories holds for more seeds."""
    for seed in range(block, HISTORIES, 8):
        async with Environment() as env:
            await history(env, 1000 + seed)
