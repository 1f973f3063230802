"""After any operations, a simulated cluster converges."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from slow_cases import mostly_slow

from envtest.controllers.stages import Stage, State
from envtest.environment import Environment
from opsdk.errors import AlreadyExistsError, ConflictError, NotFoundError
from opsdk.structured_merge.value import JsonObject
from tests.envtest.controllers.cluster import APPS, CORE, Kubectl, config_map, deployment, settle

_NAMES = ("a", "b", "c")


async def _random_operation(api: Kubectl, rng: random.Random) -> None:
    name = rng.choice(_NAMES)
    path = f"{APPS}/deployments/{name}"
    desired = deployment(name, replicas=rng.randrange(5), image=f"x:{rng.randrange(3)}")
    pods = await api.items(f"{CORE}/pods")
    sets = await api.items(f"{APPS}/replicasets")
    match rng.randrange(9):
        case 0 | 1:
            await api.create(f"{APPS}/deployments", desired)
        case 2:
            await api.send("PUT", path, desired)
        case 3:
            await api.merge(f"{path}/scale", {"spec": {"replicas": rng.randrange(6)}})
        case 4:
            await api.delete(path, propagationPolicy=rng.choice(["Background", "Foreground", "Orphan"]))
        case 5 if pods:
            await api.delete(f"{CORE}/pods/{rng.choice(pods)['metadata']['name']}")
        case 6 if pods:
            victim = rng.choice(pods)["metadata"]["name"]
            await api.merge(f"{CORE}/pods/{victim}/status", {"status": {"phase": "Failed"}})
        case 7 if sets:
            policy = rng.choice(["Background", "Foreground"])
            await api.delete(f"{APPS}/replicasets/{rng.choice(sets)['metadata']['name']}", propagationPolicy=policy)
        case 8 if pods and sets:
            owners = [rng.choice(pods), rng.choice(sets)]
            await api.create(f"{CORE}/configmaps", config_map(f"m{rng.randrange(10_000)}", *owners))


def _uids(*lists: list[JsonObject]) -> set[str]:
    return {o["metadata"]["uid"] for item in lists for o in item}


@pytest.mark.parametrize("seed", mostly_slow(range(8), every=4))
async def test_random_operations(seed: int) -> None:
    """After any operations every replica set has its pods, every deployment its size, and nothing is left over."""
    rng = random.Random(seed)
    delays = [rng.choice([0, 0, 1, 7]) for _ in range(2)]
    stages = (
        Stage(at=State.PENDING, to=State.READY, delay=delays[0]),
        Stage(at=State.TERMINATING, to=None, delay=delays[1]),
    )
    async with Environment(controllers="cluster", stages=stages) as env:
        api = Kubectl(env)
        for _ in range(60):
            # It may choose an object that is gone, or changing.
            with suppress(NotFoundError, ConflictError, AlreadyExistsError):
                await _random_operation(api, rng)
            if rng.random() < 0.6:
                await settle(rng.choice([0, 0, 0.5, 3]))
        await settle(300)
        deployments = await api.items(f"{APPS}/deployments")
        sets = await api.items(f"{APPS}/replicasets")
        pods = await api.items(f"{CORE}/pods")
        maps = await api.items(f"{CORE}/configmaps")
        there = _uids(deployments, sets, pods, maps)
        for obj in (*sets, *pods, *maps):
            assert "deletionTimestamp" not in obj["metadata"]
            owners = obj["metadata"].get("ownerReferences") or []
            assert not owners or any(o["uid"] in there for o in owners), obj["metadata"]
        for item in sets:
            uid = item["metadata"]["uid"]
            own_pods = [p for p in pods if uid in [o["uid"] for o in p["metadata"].get("ownerReferences") or []]]
            active = [p for p in own_pods if p["status"]["phase"] != "Failed"]
            assert len(active) == item["spec"]["replicas"] == item["status"].get("readyReplicas", 0)
        for item in deployments:
            assert item["status"].get("updatedReplicas", 0) == item["spec"]["replicas"]
            assert item["status"].get("replicas", 0) == item["spec"]["replicas"]
