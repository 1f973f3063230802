"""Random sequences of sets with crashes at any write and foreign edits, against a model.

``OPSDK_HISTORIES=200 make test-slow`` plays more of them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from envtest import Environment
from opsdk import Cluster, ClusterOptions, ObjectMeta
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.client.decorators.intercept import intercept
from opsdk.client.operations import Get, List, Operation
from opsdk.client.patch import merge_patch
from opsdk.errors import ConnectionLostError
from opsdk.lifecycle.object_set import ObjectSet
from opsdk.lifecycle.set_options import ObjectSetOptions, SetMode

HISTORIES = int(os.environ.get("OPSDK_HISTORIES", "48"))
NAMES = "abcd"
Model = dict[tuple[type[Any], str], dict[str, str]]


def desired_objects(rng: random.Random) -> Model:
    """A random set: names of two kinds with random values."""
    keys = [(kind, name) for kind in (ConfigMap, Secret) for name in NAMES]
    return {key: {f"k{rng.randrange(3)}": str(rng.randrange(3))} for key in rng.sample(keys, rng.randrange(len(keys)))}


def as_objects(model: Model) -> list[Any]:
    """The objects of a model."""
    objects = []
    for (kind, name), data in model.items():
        field = "data" if kind is ConfigMap else "string_data"
        objects.append(kind(metadata=ObjectMeta(name=name, namespace="default"), **{field: data}))
    return objects


async def run_once(env: Environment, model: Model, mode: SetMode, crash_at: int | None) -> None:
    """Apply a set in a new process that ends before or after its write number `crash_at`."""
    writes = 0

    async def crash(operation: Operation, proceed: Callable[[Operation], Awaitable[Any]]) -> Any:
        nonlocal writes
        if isinstance(operation, Get | List):
            return await proceed(operation)
        writes += 1
        if crash_at is not None and writes > crash_at // 2:
            if crash_at % 2:
                await proceed(operation)
            raise ConnectionLostError("the process ends here")
        return await proceed(operation)

    async with Cluster(env.config, ClusterOptions(name="program")) as cluster:
        client = intercept(cluster.uncached, crash)
        applier = type(cluster.applier())(client, field_owner="program")
        settings = ObjectSetOptions(mode=mode)
        parts = ObjectSet(client, applier, set_id="parts", kinds=[ConfigMap, Secret], options=settings)
        await parts.apply(as_objects(model))


async def edit(rng: random.Random, user: Any) -> None:
    """Change an object as a foreign program: another value, another field, or a deletion."""
    kind, name = rng.choice([ConfigMap, Secret]), rng.choice(NAMES)
    live = await user.get_or_none(kind, f"default/{name}")
    if live is None:
        return
    if rng.random() < 0.3:
        await user.delete(live)
    else:
        field = {"data": {f"k{rng.randrange(3)}": "Zm9yZWlnbg=="}}
        await user.patch(live, merge_patch(field), field_owner="user")


async def history(env: Environment, seed: int, mode: SetMode) -> int:
    """Play one history, and check the model after each run that ends. Returns the number of runs."""
    rng, runs = random.Random(seed), 0
    async with Cluster(env.config, ClusterOptions(name="user")) as outside:
        user = outside.uncached
        await user.create(ConfigMap(metadata=ObjectMeta(name="foreign", namespace="default"), data={"k0": "1"}))
        foreign = await user.get(ConfigMap, "default/foreign")
        for _ in range(6):
            model = desired_objects(rng)
            for _ in range(rng.randrange(3)):
                with suppress(ConnectionLostError):
                    await run_once(env, desired_objects(rng), mode, rng.randrange(12))
                await edit(rng, user)
            await run_once(env, model, mode, None)
            runs += 1
            await check(user, model)
            async with env.no_writes():
                await run_once(env, model, mode, None)
        assert await user.get(ConfigMap, "default/foreign") == foreign
    return runs


async def check(user: Any, model: Model) -> None:
    """Exactly the desired objects exist, with the desired values."""
    for kind in (ConfigMap, Secret):
        stored = {obj.metadata.name: obj for obj in await user.list(kind, namespace="default")}
        assert stored.keys() - {"foreign", "kube-root-ca.crt"} == {name for cls, name in model if cls is kind}
        for name, data in ((name, data) for (cls, name), data in model.items() if cls is kind):
            values = {
                key: bytes(value).decode() if kind is Secret else value for key, value in stored[name].data.items()
            }
            assert data.items() <= values.items()


@pytest.mark.parametrize("mode", list(SetMode))
@pytest.mark.parametrize("seed", range(4))
async def test_a_history_of_sets(k8s_env: Environment, seed: int, mode: SetMode) -> None:
    """Crashes at any write and foreign edits: afterwards exactly the desired objects; foreign ones are untouched."""
    assert await history(k8s_env, seed, mode) == 6


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(SetMode))
@pytest.mark.parametrize("block", range(4))
async def test_many_histories_of_sets(block: int, mode: SetMode) -> None:
    """The law of the set histories holds for more seeds, half of them in each mode."""
    for seed in range(block, HISTORIES // 2, 4):
        async with Environment() as env:
            await history(env, 1000 + seed, mode)
