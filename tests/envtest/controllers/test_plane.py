"""The simulated cluster under seeded random operations: invariants during the run, and the final state."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress

import pytest
from slow_cases import mostly_slow

from envtest.controllers import rollout
from envtest.controllers.job import is_finished
from envtest.controllers.job_pods import has_tracking_finalizer
from envtest.controllers.objects import controlled_by, deleting, is_active, is_ready
from envtest.controllers.stages import Stage, State
from envtest.controllers.writes import PODS
from envtest.environment import Environment
from opsdk.apiserver.storage.ports import StorageChange
from opsdk.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    TooManyRequestsError,
)
from opsdk.structured_merge.value import JsonObject
from tests.envtest.controllers.cluster import APPS, CORE, Kubectl, deployment, settle, template

BATCH = "/apis/batch/v1/namespaces/default"
POLICY = "/apis/policy/v1/namespaces/default"
NODES = "/api/v1/nodes"
_PASSING = (NotFoundError, ConflictError, AlreadyExistsError, InvalidError, TooManyRequestsError, ForbiddenError)


# ------------------------------------------------------------------ objects
def _sets(name: str, kind: str, rng: random.Random) -> JsonObject:
    labels = {"app": name}
    spec: JsonObject = {"selector": {"matchLabels": labels}, "template": template(name, image=f"x:{rng.randrange(3)}")}
    if kind == "StatefulSet":
        spec |= {"serviceName": "s", "replicas": rng.randrange(4), "minReadySeconds": rng.choice([0, 0, 3])}
        spec |= {"podManagementPolicy": rng.choice(["OrderedReady", "Parallel"])}
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        spec["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
        policy = {"whenScaled": rng.choice(["Retain", "Delete"]), "whenDeleted": "Delete"}
        spec["persistentVolumeClaimRetentionPolicy"] = policy
    if kind == "DaemonSet":
        surge = rng.choice([0, 0, 1])
        rolling = {"maxSurge": surge, "maxUnavailable": 0 if surge else rng.choice([1, "50%"])}
        spec["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _job(name: str, rng: random.Random) -> JsonObject:
    spec: JsonObject = {"template": template(name, restartPolicy="Never"), "parallelism": rng.randrange(1, 4)}
    spec["backoffLimit"] = rng.choice([0, 2, 6])
    match rng.randrange(4):
        case 0:
            spec |= {"completions": rng.randrange(1, 5)}
        case 1:
            spec |= {"completions": rng.randrange(1, 5), "completionMode": "Indexed"}
        case 2:
            spec |= {"completions": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1, "maxFailedIndexes": 2}
            del spec["backoffLimit"]
        case _:
            spec |= {"ttlSecondsAfterFinished": rng.choice([5, 100]), "activeDeadlineSeconds": 60}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def _controller(name: str, rng: random.Random) -> JsonObject:
    spec = {"replicas": rng.randrange(4), "selector": {"app": name}, "template": template(name)}
    return {"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": name}, "spec": spec}


def _budget(name: str, rng: random.Random) -> JsonObject:
    spec: JsonObject = {"selector": {"matchLabels": {"app": name}}}
    spec |= rng.choice([{"minAvailable": 1}, {"maxUnavailable": "50%"}, {"maxUnavailable": 1}])
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}


_KINDS: dict[str, Callable[[str, random.Random], JsonObject]] = {
    f"{APPS}/deployments/d": lambda n, rng: deployment(n, replicas=rng.randrange(5), image=f"x:{rng.randrange(3)}"),
    f"{APPS}/statefulsets/s": lambda n, rng: _sets(n, "StatefulSet", rng),
    f"{APPS}/daemonsets/a": lambda n, rng: _sets(n, "DaemonSet", rng),
    f"{CORE}/replicationcontrollers/r": _controller,
    f"{BATCH}/jobs/j": _job,
    f"{POLICY}/poddisruptionbudgets/d": _budget,
    f"{POLICY}/poddisruptionbudgets/s": _budget,
    f"{NODES}/n2": lambda n, _: {"apiVersion": "v1", "kind": "Node", "metadata": {"name": n}},
}
_SCALED = (f"{APPS}/deployments/d", f"{APPS}/statefulsets/s", f"{CORE}/replicationcontrollers/r")


async def _operate(api: Kubectl, rng: random.Random) -> None:
    path, make = rng.choice(list(_KINDS.items()))
    where, _, name = path.rpartition("/")
    pods = await api.items(f"{CORE}/pods")
    victim = rng.choice(pods)["metadata"]["name"] if pods else ""
    match rng.randrange(10):
        case 0 | 1 | 2:
            await api.create(where, make(name, rng))
        case 3:
            image = [{"name": "c", "image": f"x:{rng.randrange(4)}"}]
            await api.merge(path, {"spec": {"template": {"spec": {"containers": image}}}})
        case 4:
            await api.merge(f"{rng.choice(_SCALED)}/scale", {"spec": {"replicas": rng.randrange(5)}})
        case 5:
            await api.delete(path, propagationPolicy=rng.choice(["Background", "Foreground"]))
        case 6 if pods:
            await api.delete(f"{CORE}/pods/{victim}")
        case 7 if pods:
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": victim}}
            await api.create(f"{CORE}/pods/{victim}/eviction", eviction)
        case 8:
            await api.merge(f"{BATCH}/jobs/j", {"spec": {"suspend": rng.random() < 0.5}})
        case 9:
            await api.merge(f"{NODES}/node-1", {"spec": {"unschedulable": rng.random() < 0.3}})


def _stages(rng: random.Random) -> tuple[Stage, ...]:
    return (
        Stage(at=State.PENDING, to=State.READY, delay=rng.choice([0, 0, 2])),
        Stage(at=State.READY, to=State.FAILED, owner="Job", delay=rng.choice([1, 4]), times=rng.randrange(8)),
        Stage(at=State.READY, to=State.SUCCEEDED, owner="Job", delay=rng.choice([0, 3])),
        Stage(at=State.READY, to=State.CRASHED, owner="StatefulSet", delay=3, times=rng.randrange(3)),
        Stage(at=State.TERMINATING, to=None, delay=rng.choice([0, 1, 40])),
    )


# ------------------------------------------------------------------ invariants
async def _assert_converged(api: Kubectl) -> None:
    pods = await api.items(f"{CORE}/pods")
    owners = [o for path in _KINDS if "/nodes" not in path for o in await api.items(path.rpartition("/")[0])]
    sets = await api.items(f"{APPS}/replicasets")
    claims = await api.items(f"{CORE}/persistentvolumeclaims")
    there = {o["metadata"]["uid"]: o for o in (*owners, *sets, *pods)}
    for obj in (*pods, *sets, *claims, *await api.items(f"{APPS}/controllerrevisions")):
        assert not deleting(obj) or _held(obj, there), obj["metadata"]
        references = obj["metadata"].get("ownerReferences") or []
        assert not references or any(r["uid"] in there for r in references), obj["metadata"]
    for owner in owners:
        generation = owner.get("status", {}).get("observedGeneration", owner["metadata"].get("generation"))
        assert generation == owner["metadata"].get("generation"), owner["metadata"]
        own_pods = [p for p in pods if controlled_by(p, owner)]
        {"StatefulSet": _stateful, "DaemonSet": _daemon, "Job": _done, "ReplicationController": _replicated}.get(
            owner["kind"], _nothing
        )(owner, own_pods)
    for item in sets:
        _replicated(item, [p for p in pods if controlled_by(p, item)])
    for item in [o for o in owners if o["kind"] == "Deployment"]:
        assert item["status"].get("availableReplicas", 0) == item["spec"]["replicas"]
        assert item["status"].get("updatedReplicas", 0) == item["spec"]["replicas"]
    for budget in [o for o in owners if o["kind"] == "PodDisruptionBudget"]:
        covered = [p for p in pods if p["metadata"]["labels"].get("app") == budget["metadata"]["name"]]
        assert budget["status"]["currentHealthy"] == sum(is_ready(p) for p in covered)


def _held(obj: JsonObject, there: dict[str, JsonObject]) -> bool:
    """A failed pod of an index that waits, with its job, for its successor."""
    job: JsonObject = there.get(
        next((r["uid"] for r in obj["metadata"].get("ownerReferences") or ()), ""), {"kind": ""}
    )
    return bool(job["kind"] == "Job" and job["spec"].get("suspend") and has_tracking_finalizer(obj))


def _nothing(owner: JsonObject, mine: list[JsonObject]) -> None:
    assert mine == []


def _replicated(owner: JsonObject, mine: list[JsonObject]) -> None:
    active = [p for p in mine if is_active(p)]
    assert len(active) == owner["spec"]["replicas"] == owner["status"].get("readyReplicas", 0)


def _stateful(owner: JsonObject, mine: list[JsonObject]) -> None:
    names = sorted(p["metadata"]["name"] for p in mine)
    assert names == [f"s-{n}" for n in range(owner["spec"]["replicas"])], "ordinals are contiguous"
    assert all(is_ready(p) for p in mine)
    status = owner["status"]
    assert status["currentRevision"] == status["updateRevision"]
    assert {p["metadata"]["labels"]["controller-revision-hash"] for p in mine} <= {status["updateRevision"]}


def _daemon(owner: JsonObject, mine: list[JsonObject]) -> None:
    nodes = [p["spec"]["nodeName"] for p in mine]
    assert len(nodes) == len(set(nodes)) == owner["status"]["desiredNumberScheduled"]
    assert owner["status"].get("updatedNumberScheduled", 0) == owner["status"].get("numberAvailable", 0) == len(nodes)


def _done(job: JsonObject, mine: list[JsonObject]) -> None:
    status = job["status"]
    waits = job["spec"].get("suspend") and job["spec"].get("backoffLimitPerIndex") is not None
    assert waits or not any(has_tracking_finalizer(p) and not is_active(p) for p in mine), "a finalizer is left"
    assert not any(status["uncountedTerminatedPods"].values())
    if job["spec"].get("suspend") and not is_finished(job):
        assert "active" not in status
        return
    assert is_finished(job), status
    ended = {p["metadata"]["name"]: p["status"]["phase"] for p in mine}
    assert status.get("succeeded", 0) >= sum(phase == "Succeeded" for phase in ended.values()) or status.get(
        "completedIndexes"
    )
    kinds = [c["type"] for c in status["conditions"] if c["status"] == "True"]
    assert ("Complete" in kinds) == ("SuccessCriteriaMet" in kinds) != ("Failed" in kinds)
    assert ("completionTime" in status) == ("Complete" in kinds)


def _versions(env: Environment) -> dict[str, str]:
    """The version of every object but Events, which end by their age."""
    buckets = env.plane.storage.snapshot().buckets
    kinds = [held.objects for name, held in buckets.items() if not name.endswith("events")]
    return {key: obj["metadata"]["resourceVersion"] for objects in kinds for key, obj in objects.items()}


@pytest.mark.parametrize("seed", mostly_slow(range(10), every=4))
async def test_random_operations_converge(seed: int) -> None:
    """After random user operations, every object reaches its desired state and no orphan is left."""
    rng = random.Random(seed)
    async with Environment(controllers="cluster", stages=_stages(rng)) as env:
        api = Kubectl(env)
        for _ in range(50):
            # It may choose an object that is gone, there already, or changing.
            with suppress(*_PASSING):
                await _operate(api, rng)
            if rng.random() < 0.6:
                await settle(rng.choice([0, 0, 0.5, 3, 30]))
        await api.merge(f"{NODES}/node-1", {"spec": {"unschedulable": None}})
        await settle(4000)
        await _assert_converged(api)
        before = _versions(env)
        await settle(3000)
        assert _versions(env) == before, "at rest, nobody writes"


# ------------------------------------------------------------------ what holds all the time
class Watch:
    """Looks at the pods of one app after every change, and remembers what was wrong."""

    def __init__(self, env: Environment, look: Callable[[list[JsonObject]], str]) -> None:
        self.storage = env.plane.storage
        self.look = look
        self.wrong: list[str] = []
        self.storage.subscribe(self._changed, PODS.prefix)

    def _changed(self, change: StorageChange) -> None:
        result = self.look([pod for _, pod in self.storage.list_now(PODS.prefix).items])
        if result:
            self.wrong.append(result)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
async def test_rolling_updates_keep_their_bounds(seed: int) -> None:
    """While a deployment rolls, again and again, there are never too many pods, nor too few that are available."""
    rng = random.Random(seed)
    chance = rng.randrange(1, 8)
    rolling: JsonObject = {
        "maxSurge": rng.choice([0, 1, "25%", "100%"]),
        "maxUnavailable": rng.choice([1, "25%", "50%"]),
    }
    obj = deployment("web", replicas=chance, strategy={"type": "RollingUpdate", "rollingUpdate": rolling})
    bounds = rollout.limits(obj)
    stages = (Stage(at=State.PENDING, to=State.READY, delay=rng.choice([0, 2])), Stage(at=State.TERMINATING, to=None))

    def look(pods: list[JsonObject]) -> str:
        live = [p for p in pods if not deleting(p)]
        ready = sum(is_ready(p) for p in live)
        if len(live) > chance + bounds.surge or ready < chance - bounds.unavailable:
            return f"{len(live)} pods, {ready} ready"
        return ""

    async with Environment(controllers="cluster", stages=stages) as env:
        api = Kubectl(env)
        await api.create(f"{APPS}/deployments", obj)
        await settle(10)
        watch = Watch(env, look)
        for number in range(2, 9):
            image = [{"name": "c", "image": f"x:{rng.choice([1, number])}"}]
            await api.merge(f"{APPS}/deployments/web", {"spec": {"template": {"spec": {"containers": image}}}})
            await settle(rng.choice([0, 1, 3, 30]))
        await settle(120)
        assert watch.wrong == []
        status = (await api.get(f"{APPS}/deployments/web"))["status"]
        assert status["updatedReplicas"] == status["availableReplicas"] == chance


@pytest.mark.parametrize("seed", range(6))
async def test_ordered_sets_move_one_at_a_time(seed: int) -> None:
    """An ordered stateful set never has a gap below a pod it made, and never two pods away during an update."""
    rng = random.Random(seed)
    stages = (Stage(at=State.PENDING, to=State.READY, delay=1), Stage(at=State.TERMINATING, to=None, delay=1))

    def look(pods: list[JsonObject]) -> str:
        away = [p for p in pods if deleting(p) or not is_ready(p)]
        numbers = sorted(int(p["metadata"]["name"].rpartition("-")[2]) for p in pods)
        gaps = [n for n in range(numbers[-1] + 1) if n not in numbers] if numbers else []
        return f"{len(away)} away, {gaps} missing" if len(away) + len(gaps) > 1 else ""

    async with Environment(controllers="cluster", stages=stages) as env:
        api = Kubectl(env)
        obj = _sets("s", "StatefulSet", rng)
        obj["spec"] |= {"replicas": 4, "podManagementPolicy": "OrderedReady"}
        await api.create(f"{APPS}/statefulsets", obj)
        watch = Watch(env, look)
        for number in range(5):
            await settle(60)
            if rng.random() < 0.5:
                await api.merge(f"{APPS}/statefulsets/s/scale", {"spec": {"replicas": rng.randrange(1, 6)}})
            else:
                image: list[JsonObject] = [{"name": "c", "image": f"y:{number}"}]
                await api.merge(f"{APPS}/statefulsets/s", {"spec": {"template": {"spec": {"containers": image}}}})
        await settle(120)
        assert watch.wrong == []


@pytest.mark.parametrize("seed", range(6))
async def test_a_restore_converges(seed: int) -> None:
    """After a restore in the middle of any operation, the cluster converges again."""
    rng = random.Random(seed)
    async with Environment(controllers="cluster", stages=_stages(rng)) as env:
        api = Kubectl(env)
        snapshot = env.snapshot()
        for number in range(40):
            with suppress(*_PASSING):
                await _operate(api, rng)
            await settle(rng.choice([0, 0.5, 3]))
            if number in (12, 25):
                snapshot = env.snapshot()
            if number in (20, 35):
                env.restore(snapshot)
        await api.merge(f"{NODES}/node-1", {"spec": {"unschedulable": None}})
        await settle(4000)
        await _assert_converged(api)
