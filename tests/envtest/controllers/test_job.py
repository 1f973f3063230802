"""Laws of `envtest.controllers.job`."""

from __future__ import annotations

from typing import Any

import pytest

from envtest.controllers.job_pods import format_intervals
from envtest.controllers.stages import DEFAULT_STAGES, Stage, State
from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject
from tests.envtest.controllers.cluster import CORE, Kubectl, condition, settle, template

BATCH = "/apis/batch/v1/namespaces/default/jobs"
FAIL = (Stage(at=State.PENDING, to=State.FAILED, delay=1),)
WORK = (Stage(at=State.PENDING, to=State.READY), Stage(at=State.READY, to=State.SUCCEEDED, delay=10))


def job(name: str, **spec: Any) -> JsonObject:
    """A Job."""
    inner = {"template": template(name, restartPolicy="Never"), **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": inner}


async def test_a_job_completes_within_its_parallelism() -> None:
    """A job runs at most `parallelism` pods at a time, and completes after `completions` successes."""
    async with Environment(controllers="cluster", stages=WORK) as env:
        api = Kubectl(env)
        await api.create(BATCH, job("j", completions=5, parallelism=2))
        await settle(5)
        status = (await api.get(f"{BATCH}/j"))["status"]
        assert (status["active"], status["ready"]) == (2, 2)
        await settle(60)
        current = await api.get(f"{BATCH}/j")
        assert condition(current, "Complete")["status"] == "True"
        assert current["status"]["succeeded"] == 5
        assert current["status"]["completionTime"]
        assert len(await api.names(f"{CORE}/pods")) == 5


async def test_succeeded_pods_count_though_deleted() -> None:
    """A succeeded pod counts even if it is deleted before the job is complete."""
    async with Environment(controllers="cluster", stages=WORK) as env:
        api = Kubectl(env)
        await api.create(BATCH, job("j", completions=3, parallelism=1))
        await settle(12)
        finished = [p for p in await api.items(f"{CORE}/pods") if p["status"]["phase"] == "Succeeded"]
        assert len(finished) == 1
        await api.delete(f"{CORE}/pods/{finished[0]['metadata']['name']}")
        await settle(60)
        assert (await api.get(f"{BATCH}/j"))["status"]["succeeded"] == 3
        assert len(await api.names(f"{CORE}/pods")) == 2


async def test_a_job_fails_above_its_backoff_limit() -> None:
    """A job fails when more pods failed than its backoffLimit allows."""
    async with Environment(controllers="cluster", stages=FAIL) as env:
        api = Kubectl(env)
        await api.create(BATCH, job("j", backoffLimit=2))
        await settle(60)
        current = await api.get(f"{BATCH}/j")
        assert condition(current, "Failed")["reason"] == "BackoffLimitExceeded"
        assert current["status"]["failed"] == 3


async def test_deadline_and_expiry() -> None:
    """A job that is active for too long has failed and loses its pods; it goes when its time to live is over."""
    async with Environment(controllers="cluster", stages=(Stage(at=State.PENDING, to=State.READY),)) as env:
        api = Kubectl(env)
        await api.create(BATCH, job("j", activeDeadlineSeconds=20, ttlSecondsAfterFinished=30))
        await settle(15)
        assert condition(await api.get(f"{BATCH}/j"), "Failed") == {}
        await settle(15)
        assert condition(await api.get(f"{BATCH}/j"), "Failed")["reason"] == "DeadlineExceeded"
        assert await api.names(f"{CORE}/pods") == []
        await settle(40)
        assert await api.names(BATCH) == []


async def test_each_index_succeeds_once() -> None:
    """Each index of an Indexed job succeeds once."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(BATCH, job("j", completions=4, parallelism=4, completionMode="Indexed"))
        await settle()
        current = await api.get(f"{BATCH}/j")
        assert condition(current, "Complete")["status"] == "True"
        assert current["status"]["completedIndexes"] == "0-3"
        names = await api.names(f"{CORE}/pods")
        assert [n.rpartition("-")[0] for n in names] == ["j-0", "j-1", "j-2", "j-3"]


async def test_a_suspended_job_has_no_pods() -> None:
    """A suspended job has no pods; a resumed job completes."""
    async with Environment(controllers="cluster", stages=DEFAULT_STAGES) as env:
        api = Kubectl(env)
        await api.create(BATCH, job("j", suspend=True))
        await settle()
        assert condition(await api.get(f"{BATCH}/j"), "Suspended")["status"] == "True"
        assert await api.names(f"{CORE}/pods") == []
        await api.merge(f"{BATCH}/j", {"spec": {"suspend": False}})
        await settle()
        current = await api.get(f"{BATCH}/j")
        assert condition(current, "Suspended")["reason"] == "JobResumed"
        assert condition(current, "Complete")["status"] == "True"


def test_three_consecutive_indexes_are_a_range() -> None:
    """Three or more consecutive indexes are written as a range."""
    assert format_intervals({0, 2, 3}) == "0,2,3"
    assert format_intervals(set()) == ""
    assert format_intervals({1, 2, 3}) == "1-3"


async def test_fails_at_once_by_policy() -> None:
    """An exit code that the policy names fails the job, whatever its limit; the message says which pod and rule."""
    stages = (Stage(at=State.PENDING, to=State.READY), Stage(at=State.READY, to=State.FAILED, exit_code=42))
    rules = [{"action": "FailJob", "onExitCodes": {"containerName": "c", "operator": "In", "values": [42]}}]
    async with Environment(controllers="cluster", stages=stages) as env:
        api = Kubectl(env)
        await api.create(BATCH, job("j", backoffLimit=6, podFailurePolicy={"rules": rules}))
        await settle()
        current = await api.get(f"{BATCH}/j")
        failed = condition(current, "Failed")
        assert failed["reason"] == "PodFailurePolicy"
        [name] = await api.names(f"{CORE}/pods")
        text = f"Container c for pod default/{name} failed with exit code 42 matching FailJob rule at index 0"
        assert failed["message"] == text
        assert condition(current, "FailureTarget")["message"] == text


async def test_evictions_are_ignored_by_policy() -> None:
    """A pod that was evicted does not count where the policy ignores disruptions; another one takes its place."""
    patterns = [{"type": "DisruptionTarget", "status": "True"}]
    policy = {"rules": [{"action": "Ignore", "onPodConditions": patterns}]}
    async with Environment(controllers="cluster", stages=WORK) as env:
        api = Kubectl(env)
        await api.create(BATCH, job("j", backoffLimit=0, podFailurePolicy=policy))
        await settle(2)
        [name] = await api.names(f"{CORE}/pods")
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        await api.create(f"{CORE}/pods/{name}/eviction", eviction)
        await settle(60)
        current = await api.get(f"{BATCH}/j")
        assert condition(current, "Complete")["status"] == "True"
        assert "failed" not in current["status"]


async def test_pauses_after_failures() -> None:
    """After a failure ten seconds pass before the next pod, then twenty."""
    async with Environment(controllers="cluster", stages=(Stage(at=State.PENDING, to=State.FAILED),)) as env:
        api = Kubectl(env)
        await api.create(BATCH, job("j", backoffLimit=5))
        counts = []
        for wait in (1, 8, 3, 16, 6):
            await settle(wait)
            counts.append((await api.get(f"{BATCH}/j"))["status"]["failed"])
        assert counts == [1, 1, 2, 2, 3]


@pytest.mark.parametrize(("policy", "early"), [("TerminatingOrFailed", 2), ("Failed", 1)])
async def test_replaces_pods(policy: str, early: int) -> None:
    """A pod that terminates is replaced at once (after its pause), or when it has ended, as the policy says."""
    stages = (Stage(at=State.PENDING, to=State.READY), Stage(at=State.TERMINATING, to=None, delay=25))
    async with Environment(controllers="cluster", stages=stages) as env:
        api = Kubectl(env)
        await api.create(BATCH, job("j", podReplacementPolicy=policy))
        await settle()
        [name] = await api.names(f"{CORE}/pods")
        await api.delete(f"{CORE}/pods/{name}")
        await settle(20)
        assert len(await api.names(f"{CORE}/pods")) == early
        assert (await api.get(f"{BATCH}/j"))["status"]["terminating"] == 1
        await settle(40)
        current = await api.get(f"{BATCH}/j")
        assert current["status"]["active"] == 1
        assert (current["status"]["failed"], current["status"]["terminating"]) == (1, 0)


async def test_restarts_count_against_the_backoff_limit() -> None:
    """With restartPolicy OnFailure, container restarts count against the backoffLimit."""
    stages = (Stage(at=State.PENDING, to=State.READY), Stage(at=State.READY, to=State.CRASHED, delay=1))
    async with Environment(controllers="cluster", stages=stages) as env:
        api = Kubectl(env)
        created = job("j", backoffLimit=2)
        created["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
        await api.create(BATCH, created)
        await settle(300)
        current = await api.get(f"{BATCH}/j")
        assert condition(current, "Failed")["reason"] == "BackoffLimitExceeded"
        assert await api.names(f"{CORE}/pods") == []


async def test_pods_outlive_their_job_without_finalizers() -> None:
    """With orphan deletion, a job's pods stay and lose the tracking finalizer."""
    async with Environment(controllers="cluster", stages=WORK) as env:
        api = Kubectl(env)
        await api.create(BATCH, job("j", parallelism=2))
        await settle(2)
        await api.delete(f"{BATCH}/j", propagationPolicy="Orphan")
        await settle(2)
        pods = await api.items(f"{CORE}/pods")
        assert len(pods) == 2
        assert not any(p["metadata"].get("finalizers") or p["metadata"].get("ownerReferences") for p in pods)


async def test_a_deleted_job_takes_its_pods_along() -> None:
    """In the background and in the foreground no finalizer keeps a pod."""
    async with Environment(controllers="cluster", stages=WORK) as env:
        api = Kubectl(env)
        for policy in ("Background", "Foreground"):
            await api.create(BATCH, job("j", parallelism=2, completions=4))
            await settle(13)
            await api.delete(f"{BATCH}/j", propagationPolicy=policy)
            await settle(2)
            assert await api.names(BATCH) == []
            assert await api.names(f"{CORE}/pods") == []
