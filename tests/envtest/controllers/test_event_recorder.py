"""Laws of `envtest.controllers.event_recorder`, and of the Events that controllers write."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from envtest.controllers.event_recorder import Correlator, event_of
from envtest.controllers.stages import Stage, State
from envtest.controllers.writes import PendingEvent
from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject
from tests.envtest.controllers.cluster import APPS, CORE, Kubectl, condition, deployment, settle, template

ABOUT: JsonObject = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "namespace": "default", "uid": "u"}}


def note(message: str = "m", reason: str = "R") -> PendingEvent:
    """A note about a pod."""
    return PendingEvent(ABOUT, reason, message)


def test_a_repeated_message_is_one_event() -> None:
    """A repeated message increases the count of one event; another message is another event."""
    correlator = Correlator()
    first = correlator.look(note(), "m", 0)
    assert first is not None
    first[0].count += 1
    again, other = correlator.look(note(), "m", 1), correlator.look(note(), "n", 1)
    assert again is not None
    assert again[0] is first[0]
    assert other is not None
    assert other[0] is not first[0]


def test_similar_events_are_combined() -> None:
    """From the tenth text within ten minutes on, events of a reason are counted as one, and later apart."""
    correlator = Correlator()
    texts = [result[1] for n in range(12) if (result := correlator.look(note(), f"m{n}", n)) is not None]
    assert texts[8] == "m8"
    assert texts[9:] == [f"(combined from similar events): m{n}" for n in (9, 10, 11)]
    late = correlator.look(note(), "m99", 10_000)
    assert late is not None
    assert late[1] == "m99"


@given(st.lists(st.floats(0, 400), max_size=80))
def test_events_of_an_object_are_limited(pauses: list[float]) -> None:
    """About one object no more events are written than twenty-five at once and one more each five minutes."""
    correlator, now, reported = Correlator(), 0.0, 0
    for pause in pauses:
        now += pause
        reported += correlator.look(note(), "m", now) is not None
    assert reported <= 25 + now / 300


def test_events_are_in_the_namespace_of_their_object() -> None:
    """An event is in its object's namespace; events of cluster-scoped objects are in default."""
    source = {"component": "c", "host": "h"}
    created = event_of(note(), "m", name="p.1", source=source, now="t")
    assert created["metadata"] == {"name": "p.1", "namespace": "default"}
    assert (created["type"], created["count"], created["reportingComponent"], created["reportingInstance"]) == (
        "Normal",
        1,
        "c",
        "h",
    )
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n", "uid": "u"}}
    created = event_of(PendingEvent(node, "R", "m", warning=True), "m", name="n.1", source=source, now="t")
    assert (created["metadata"]["namespace"], created["type"]) == ("default", "Warning")


async def _told(api: Kubectl, kind: str) -> set[tuple[str, str]]:
    events = await api.items(f"{CORE}/events")
    return {(e["reason"], e["source"]["component"]) for e in events if e["involvedObject"]["kind"] == kind}


async def test_controllers_record_events() -> None:
    """Each controller signs with the name that it has in a real cluster, and gives its reasons."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(f"{APPS}/deployments", deployment("web", replicas=2))
        stateful = {
            "replicas": 1,
            "serviceName": "s",
            "selector": {"matchLabels": {"app": "s"}},
            "template": template("s"),
        }
        await api.create(
            f"{APPS}/statefulsets",
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"}, "spec": stateful},
        )
        daemon = {"selector": {"matchLabels": {"app": "d"}}, "template": template("d")}
        await api.create(
            f"{APPS}/daemonsets",
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}, "spec": daemon},
        )
        await settle()
        await api.merge(f"{APPS}/deployments/web/scale", {"spec": {"replicas": 1}})
        await api.merge(f"{APPS}/statefulsets/s/scale", {"spec": {"replicas": 0}})
        await settle()
        assert await _told(api, "Deployment") == {("ScalingReplicaSet", "deployment-controller")}
        changed = {("SuccessfulCreate", "replicaset-controller"), ("SuccessfulDelete", "replicaset-controller")}
        assert await _told(api, "ReplicaSet") == changed
        moved = {("SuccessfulCreate", "statefulset-controller"), ("SuccessfulDelete", "statefulset-controller")}
        assert await _told(api, "StatefulSet") == moved
        assert await _told(api, "DaemonSet") == {("SuccessfulCreate", "daemonset-controller")}
        lived = {("Scheduled", "default-scheduler"), ("Started", "kubelet"), ("Killing", "kubelet")}
        assert await _told(api, "Pod") == lived


async def test_jobs_record_how_they_end() -> None:
    """A job that fails says why."""
    async with Environment(controllers="cluster", stages=(Stage(at=State.PENDING, to=State.FAILED),)) as env:
        api = Kubectl(env)
        spec = {"backoffLimit": 0, "template": template("j", restartPolicy="Never")}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}
        await api.create("/apis/batch/v1/namespaces/default/jobs", job)
        await settle()
        messages = await _told(api, "Job")
        assert messages == {("SuccessfulCreate", "job-controller"), ("BackoffLimitExceeded", "job-controller")}


async def test_quota_keeps_pods_away() -> None:
    """An event and conditions of replica set and Deployment show why pods cannot be created, until they can."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        hard = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
        await api.create(f"{CORE}/resourcequotas", hard)
        await settle()
        await api.create(f"{APPS}/deployments", deployment("web", replicas=3))
        await settle()
        assert len(await api.names(f"{CORE}/pods")) == 1
        failure = condition(await api.get(f"{APPS}/deployments/web"), "ReplicaFailure")
        assert failure["reason"] == "FailedCreate"
        assert "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1" in failure["message"]
        assert ("FailedCreate", "replicaset-controller") in await _told(api, "ReplicaSet")
        await api.merge(f"{CORE}/resourcequotas/q", {"spec": {"hard": {"pods": "9"}}})
        await settle(60)
        current = await api.get(f"{APPS}/deployments/web")
        assert current["status"]["availableReplicas"] == 3
        assert condition(current, "ReplicaFailure") == {}


async def test_a_deleted_event_is_created_again() -> None:
    """A deleted event is created again when it recurs."""
    stages = (Stage(at=State.PENDING, to=State.READY), Stage(at=State.READY, to=State.CRASHED, delay=5))
    async with Environment(controllers="cluster", stages=stages) as env:
        api = Kubectl(env)
        inner = template("p")
        meta = {"name": "p", **inner["metadata"]}
        await api.create(f"{CORE}/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": inner["spec"]})
        await settle(8)
        for event in await api.items(f"{CORE}/events"):
            await api.delete(f"{CORE}/events/{event['metadata']['name']}")
        await settle(30)
        assert {"BackOff", "Started"} <= {e["reason"] for e in await api.items(f"{CORE}/events")}
