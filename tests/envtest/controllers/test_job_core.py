"""Laws of the pure core of jobs: `envtest.controllers.job.plan` and `envtest.controllers.job_pods`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envtest.controllers import job_pods
from envtest.controllers.job import JobBackoff, JobView, is_finished, plan
from envtest.controllers.job_pods import FINALIZER, INDEX, format_intervals, has_tracking_finalizer, parse_intervals
from envtest.controllers.objects import conditions_of, deleting, is_active, is_true, phase_of
from envtest.controllers.pods.control import claim
from envtest.controllers.writes import JOBS, PODS
from opsdk.structured_merge.value import JsonObject
from tests.envtest.controllers.world import World

EPOCH = datetime(2024, 1, 1, tzinfo=UTC)


def job(**spec: Any) -> JsonObject:
    """A job as the server would keep it."""
    labels = {"batch.kubernetes.io/controller-uid": "j"}
    template = {"metadata": {"labels": labels}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}
    policy = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    inner = {"parallelism": 1, "backoffLimit": 6, "podReplacementPolicy": policy, **spec}
    inner |= {"selector": {"matchLabels": labels}, "template": template}
    return {"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "j"}, "spec": inner}


class Run:
    """One job in a small world."""

    def __init__(self, **spec: Any) -> None:
        self.world = World()
        self.world.add(JOBS, job(**spec))
        self.backoff = JobBackoff()
        self.fates: dict[str, str] = {}
        self.most = 0

    @property
    def job(self) -> JsonObject:
        return self.world.one(JOBS, "j")

    @property
    def pods(self) -> list[JsonObject]:
        return self.world.all(PODS)

    def step(self, *, stop_after: int = 1000) -> bool:
        """One step, perhaps ended in the middle; whether it wrote anything."""
        owned, loose = self.world.owned(PODS, self.job), self.world.loose(PODS)
        claimed, moves = claim(self.job, owned, loose, finalizer=FINALIZER)
        planned = plan(JobView(self.job, claimed, self.world.now, self.backoff))
        writes = [*moves, *planned.writes]
        for write in writes[:stop_after]:
            self.world.apply(write)
        # A deleted pod counts as failed at once (isPodFailed in job_controller.go), even if it succeeds later.
        noted = (self.job.get("status") or {}).get("uncountedTerminatedPods") or {}
        for key, phase in (("failed", "Failed"), ("succeeded", "Succeeded")):
            for uid in noted.get(key) or ():
                self.fates.setdefault(uid, phase)
        if len(writes) <= stop_after:
            self.backoff = planned.backoff
        self.most = max(self.most, sum(is_active(p) for p in self.pods))
        return bool(writes)

    def calm(self) -> None:
        """Steps until one writes nothing: it must not go on forever."""
        for _ in range(40):
            if not self.step():
                return
        raise AssertionError("it never comes to rest")

    def settle(self) -> None:
        """Steps until nothing is left to do, with time for every pause."""
        for _ in range(60):
            self.calm()
            for pod in self.pods:
                # A node does this, or the collector of pods.
                if deleting(pod) and phase_of(pod) not in ("Succeeded", "Failed"):
                    self.end(pod, "Failed")
            if is_finished(self.job):
                return
            self.world.wait(700)

    def end(self, pod: JsonObject, phase: str) -> None:
        """A pod ends, for good."""
        self.fates.setdefault(pod["metadata"]["uid"], phase)
        self.world.end(pod, phase)

    def finish(self) -> None:
        """Every pod that is there succeeds."""
        self.settle()
        for _ in range(30):
            for pod in self.pods:
                if is_active(pod):
                    self.world.ready(pod)
                    self.end(self.world.one(PODS, pod["metadata"]["name"]), "Succeeded")
            self.settle()


_OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["step", "cut", "ready", "succeed", "fail", "delete", "wait"]), st.integers(0, 7)),
    max_size=40,
)


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from([None, 1, 3, 5]),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from(["TerminatingOrFailed", "Failed"]),
    _OPERATIONS,
)
@pytest.mark.slow
def test_each_pod_counts_once(
    completions: int | None, parallelism: int, indexed: bool, policy: str, operations: list[tuple[str, int]]
) -> None:
    """Under any pod changes and interrupted steps, counts stay exact, finalizers go, and the job ends."""
    mode = {"completionMode": "Indexed"} if indexed and completions else {}
    run = Run(completions=completions, parallelism=parallelism, backoffLimit=100, podReplacementPolicy=policy, **mode)
    for name, number in operations:
        pods = [p for p in run.pods if phase_of(p) not in ("Succeeded", "Failed")]
        pod = pods[number % len(pods)] if pods else None
        match name:
            case "step":
                run.step()
            case "cut":
                run.step(stop_after=number)
            case "wait":
                run.world.wait(number * 60)
            case "ready" if pod and not deleting(pod):
                run.world.ready(pod)
            case "succeed" if pod and pod["spec"].get("nodeName"):
                run.end(pod, "Succeeded")
            case "fail" if pod and pod["spec"].get("nodeName"):
                run.end(pod, "Failed")
            case "delete" if pod:
                run.world.delete(PODS, pod)
    run.finish()
    status = run.job["status"]
    assert is_true(conditions_of(run.job), "Complete")
    assert not any(has_tracking_finalizer(p) for p in run.pods)
    assert not any((status.get("uncountedTerminatedPods") or {}).values())
    assert "active" not in status
    assert status["terminating"] == 0
    assert run.most <= parallelism
    good = [p for p in run.pods if phase_of(p) == "Succeeded"]
    if mode:
        assert status["succeeded"] == completions
        assert {job_pods.index_of(p) for p in good} <= set(range(completions or 0))
    else:
        assert status["succeeded"] >= (completions or 1)
        assert status["succeeded"] == sum(fate == "Succeeded" for fate in run.fates.values())


def test_pauses_grow_and_end_with_success() -> None:
    """Each failure doubles the pause before the next pod, up to ten minutes; a success takes it back."""
    backoff, pauses = JobBackoff(), []
    for _ in range(8):
        backoff = backoff.updated([], [EPOCH])
        pauses.append(backoff.remaining(EPOCH))
    assert pauses == [10, 20, 40, 80, 160, 320, 600, 600]
    later = EPOCH + timedelta(seconds=5)
    assert backoff.updated([later], [EPOCH]) == JobBackoff()
    assert backoff.updated([EPOCH], [later]).failures == 1


def test_condition_says_that_it_will_end_first() -> None:
    """``FailureTarget`` stands before ``Failed``, which waits until every pod is gone and counted."""
    run = Run(backoffLimit=0, parallelism=2)
    run.step()
    first, second = run.pods
    run.world.ready(first)
    run.world.ready(second)
    run.end(run.world.one(PODS, first["metadata"]["name"]), "Failed")
    conditions = []
    for _ in range(4):
        run.step()
        conditions.append([c["type"] for c in conditions_of(run.job)])
    assert conditions == [["FailureTarget"]] * 4
    assert run.job["status"]["terminating"] == 1
    leaving = next(p for p in run.pods if deleting(p))
    run.end(leaving, "Failed")
    run.settle()
    assert [c["type"] for c in conditions_of(run.job)] == ["FailureTarget", "Failed"]
    assert run.job["status"]["failed"] == 2
    assert [n.reason for n in run.world.notes][-1] == "BackoffLimitExceeded"


def test_index_has_a_limit_of_its_own() -> None:
    """An index fails alone; its successor knows how often it failed; the job fails when no index is left."""
    run = Run(completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=1, backoffLimit=2**31 - 1)
    for _ in range(2):
        run.calm()
        bad = next(p for p in run.pods if is_active(p) and job_pods.index_of(p) == 0)
        run.world.ready(bad)
        run.end(run.world.one(PODS, bad["metadata"]["name"]), "Failed")
        run.calm()
        run.world.wait(100)
    counts = sorted(job_pods.failures_of_index(p) for p in run.pods if job_pods.index_of(p) == 0)
    assert counts == [0, 1]
    assert run.job["status"]["failedIndexes"] == "0"
    run.finish()
    assert run.job["status"]["completedIndexes"] == "1"
    failed = next(c for c in conditions_of(run.job) if c["type"] == "Failed")
    assert (failed["reason"], failed["message"]) == ("FailedIndexes", "Job has failed indexes")


def test_too_many_failed_indexes() -> None:
    """More failed indexes than allowed fail the job, and what still runs goes."""
    run = Run(
        completions=3,
        parallelism=3,
        completionMode="Indexed",
        backoffLimitPerIndex=0,
        maxFailedIndexes=0,
        backoffLimit=9,
    )
    run.step()
    bad = run.pods[0]
    run.world.ready(bad)
    run.end(run.world.one(PODS, bad["metadata"]["name"]), "Failed")
    run.settle()
    assert conditions_of(run.job)[-1]["reason"] == "MaxFailedIndexesExceeded"
    assert not any(is_active(p) for p in run.pods)


def _failed(code: int, *conditions: JsonObject) -> JsonObject:
    state = {"terminated": {"exitCode": code, "finishedAt": "2024-01-01T00:00:00Z"}}
    status = {"phase": "Failed", "containerStatuses": [{"name": "c", "state": state}], "conditions": list(conditions)}
    return {"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "status": status, "spec": {}}


_DISRUPTED = {"type": "DisruptionTarget", "status": "True"}


@pytest.mark.parametrize(
    ("rule", "pod", "wanted"),
    [
        ({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}, _failed(42), "FailJob"),
        ({"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [42]}}, _failed(42), "Count"),
        ({"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [42]}}, _failed(1), "FailJob"),
        ({"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [42]}}, _failed(0), "Count"),
        (
            {"action": "FailIndex", "onExitCodes": {"containerName": "x", "operator": "In", "values": [1]}},
            _failed(1),
            "Count",
        ),
        (
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            _failed(1, _DISRUPTED),
            "Ignore",
        ),
    ],
)
def test_failure_policy(rule: JsonObject, pod: JsonObject, wanted: str) -> None:
    """The first rule that matches exit codes or conditions decides; codes of zero match nothing."""
    assert job_pods.verdict_on({"rules": [rule]}, pod)[0] == wanted


def test_failure_policy_says_why() -> None:
    """If a job fails by policy, the message names container, pod, exit code and rule."""
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    text = "Container c for pod default/p failed with exit code 42 matching FailJob rule at index 1"
    other = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}}
    assert job_pods.verdict_on({"rules": [other, rule]}, _failed(42)) == ("FailJob", text)


def test_ignored_failures_do_not_count() -> None:
    """A pod whose failure is ignored is replaced at no cost."""
    rules = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
    run = Run(completions=1, backoffLimit=0, podFailurePolicy={"rules": rules})
    run.step()
    [pod] = run.pods
    run.world.ready(pod)
    pod = run.world.one(PODS, pod["metadata"]["name"])
    run.end(pod, "Failed")
    ended = run.world.one(PODS, pod["metadata"]["name"])
    ended["status"]["conditions"] = [_DISRUPTED]
    run.finish()
    assert is_true(conditions_of(run.job), "Complete")
    assert "failed" not in run.job["status"]


@pytest.mark.parametrize(
    ("rule", "succeeded", "met"),
    [
        ({"succeededIndexes": "0,2"}, {0, 2}, True),
        ({"succeededIndexes": "0,2"}, {0, 1}, False),
        ({"succeededIndexes": "0-3", "succeededCount": 2}, {1, 3}, True),
        ({"succeededCount": 2}, {4}, False),
    ],
)
def test_success_policy(rule: JsonObject, succeeded: set[int], met: bool) -> None:
    """A success policy rule requires certain indexes, a number of them, or any number."""
    result = job_pods.success_by({"rules": [rule]}, succeeded, 5)
    assert result == ("Matched rules at index 0" if met else None)


def test_success_policy_ends_it_early() -> None:
    """The job is complete when the policy is met; pods that still run go."""
    policy = {"rules": [{"succeededIndexes": "0"}]}
    run = Run(completions=3, parallelism=3, completionMode="Indexed", successPolicy=policy)
    run.step()
    leader = next(p for p in run.pods if job_pods.index_of(p) == 0)
    run.world.ready(leader)
    run.end(run.world.one(PODS, leader["metadata"]["name"]), "Succeeded")
    run.settle()
    reasons = [(c["type"], c["reason"]) for c in conditions_of(run.job)]
    assert reasons == [("SuccessCriteriaMet", "SuccessPolicy"), ("Complete", "SuccessPolicy")]
    assert run.job["status"]["completedIndexes"] == "0"


def test_suspends_and_resumes() -> None:
    """A suspended job loses its pods; resumed, it starts its clock anew."""
    run = Run(completions=2, parallelism=2)
    run.step()
    run.world.change(JOBS, run.job, suspend=True)
    run.settle()
    assert not [p for p in run.pods if is_active(p)]
    assert is_true(conditions_of(run.job), "Suspended")
    before = run.job["status"]["startTime"]
    run.world.wait(60)
    run.world.change(JOBS, run.job, suspend=False)
    run.step()
    assert run.job["status"]["startTime"] > before
    assert run.job["status"]["active"] == 2
    assert [n.reason for n in run.world.notes if n.reason in ("Suspended", "Resumed")] == ["Suspended", "Resumed"]


def test_a_job_managed_by_another_controller_is_ignored() -> None:
    """A job with a foreign managedBy is ignored."""
    run = Run(managedBy="example.com/queue")
    assert not run.step()


def test_takes_in_and_lets_go() -> None:
    """A matching pod is adopted with the finalizer; after its labels change, it has neither finalizer nor owner."""
    run = Run(parallelism=1)
    labels = dict(run.job["spec"]["selector"]["matchLabels"])
    tree = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "labels": labels}, "spec": {}}
    run.world.add(PODS, tree)
    run.step()
    pod = run.world.one(PODS, "p")
    assert has_tracking_finalizer(pod)
    assert len(run.pods) == 1
    pod["metadata"]["labels"] = {}
    run.step()
    pod = run.world.one(PODS, "p")
    assert not has_tracking_finalizer(pod)
    assert not pod["metadata"].get("ownerReferences")


@given(st.sets(st.integers(0, 40)), st.integers(0, 45))
def test_intervals_read_back(numbers: set[int], below: int) -> None:
    """Formatted index intervals parse to the same indexes; unwanted indexes are left out."""
    assert parse_intervals(format_intervals(numbers), below) == {n for n in numbers if n < below}


def test_pods_with_duplicate_or_excess_indexes_are_deleted() -> None:
    """Of two pods with one index one is deleted, as are pods above the last index."""
    run = Run(completions=2, parallelism=2, completionMode="Indexed")
    run.step()
    first = run.pods[0]
    run.world.ready(first)
    meta = {k: first["metadata"][k] for k in ("labels", "ownerReferences", "finalizers")}
    for name, index in (("twin", "0"), ("far", "7")):
        run.world.add(PODS, {**first, "metadata": {**meta, "name": name, "annotations": {INDEX: index}}})
    run.settle()
    remaining = sorted(job_pods.index_of(p) for p in run.pods if is_active(p))
    assert remaining == [0, 1]
    assert first["metadata"]["name"] in [p["metadata"]["name"] for p in run.pods if is_active(p)]


def test_pause_of_an_index_is_waited_for() -> None:
    """With no room for another index, the step still says when the next pod of the failed one is due."""
    run = Run(completions=3, parallelism=1, completionMode="Indexed", backoffLimitPerIndex=1, backoffLimit=2**31 - 1)
    run.step()
    run.world.ready(run.pods[0])
    run.end(run.world.one(PODS, run.pods[0]["metadata"]["name"]), "Failed")
    run.calm()
    planned = plan(JobView(run.job, run.pods, run.world.now, run.backoff))
    assert planned.requeue_after == 10


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2), st.sampled_from([None, 0, 1]), st.booleans(), _OPERATIONS)
def test_indexes_fail_alone(limit: int, most: int | None, ignores: bool, operations: list[tuple[str, int]]) -> None:
    """With a limit per index, each index succeeds or fails, never both, and then gets no more pods."""
    more: JsonObject = {} if most is None else {"maxFailedIndexes": most}
    if ignores:
        rules = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
        more["podFailurePolicy"] = {"rules": rules}
    run = Run(
        completions=3,
        parallelism=2,
        completionMode="Indexed",
        backoffLimitPerIndex=limit,
        backoffLimit=2**31 - 1,
        **more,
    )
    for name, number in operations:
        pods = [p for p in run.pods if phase_of(p) not in ("Succeeded", "Failed")]
        pod = pods[number % len(pods)] if pods else None
        match name:
            case "step":
                run.step()
            case "cut":
                run.step(stop_after=number)
            case "wait":
                run.world.wait(number * 60)
            case "ready" if pod and not deleting(pod):
                run.world.ready(pod)
            case "succeed" if pod and pod["spec"].get("nodeName"):
                run.end(pod, "Succeeded")
            case "fail" if pod and pod["spec"].get("nodeName"):
                run.end(pod, "Failed")
            case "delete" if pod:
                run.world.delete(PODS, pod)
        running = [job_pods.index_of(p) for p in run.pods if is_active(p)]
        assert len(running) == len(set(running)), "one pod for each index"
    run.finish()
    status = run.job["status"]
    good = parse_intervals(status.get("completedIndexes", ""), 3)
    bad = parse_intervals(status.get("failedIndexes", ""), 3)
    assert is_finished(run.job)
    assert not good & bad
    complete = is_true(conditions_of(run.job), "Complete")
    assert complete == (good == {0, 1, 2})
    assert complete or len(bad) > (most if most is not None else 3) or good | bad == {0, 1, 2}
    assert not any(has_tracking_finalizer(p) for p in run.pods)
    for pod in run.pods:
        assert job_pods.failures_of_index(pod) <= limit
