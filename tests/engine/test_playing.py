"""Changes of others in a run: what becomes of each, beside an operator that writes the same objects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from opsdk import Context, ObjectMeta, Operator
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.object import Unstructured
from opsdk.engine.environments import environment_factory
from opsdk.engine.foreign_changes import ForeignAction, ForeignChange
from opsdk.engine.plan import ChangeAction, Plan
from opsdk.engine.plan_text import text_lines
from opsdk.engine.planning import make_plan
from opsdk.engine.run import OperatorRun, RunOutcome
from opsdk.engine.snapshot import ClusterSnapshot, SnapshotKind
from opsdk.rbac.permissions import RuleSet
from opsdk.structured_merge.value import JsonObject

pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")

STATE = ClusterSnapshot(
    taken_at="2026-01-01T00:00:00+00:00",
    kinds=[SnapshotKind(group="", version="v1", kind="ConfigMap", plural="configmaps")],
)


def change(
    seconds: float, action: ForeignAction, name: str, *, kind: str = "ConfigMap", **fields: Any
) -> ForeignChange:
    """Return a change of an object in the default namespace."""
    api_version = "apps/v1" if kind == "Deployment" else "v1"
    return ForeignChange(
        seconds=seconds, action=action, api_version=api_version, kind=kind, namespace="default", name=name, **fields
    )


def create(seconds: float, name: str, data: dict[str, str], *, kind: str = "ConfigMap", **more: Any) -> ForeignChange:
    """Return a creation."""
    meta: JsonObject = {"name": name, "namespace": "default", **more}
    tree = {"apiVersion": "v1", "kind": kind, "metadata": meta, "data": data}
    return change(seconds, ForeignAction.CREATE, name, kind=kind, manager="user", after=tree)


def update(seconds: float, name: str, before: JsonObject, after: JsonObject, **more: Any) -> ForeignChange:
    """Return an update."""
    return change(seconds, ForeignAction.UPDATE, name, manager="user", before=before, after=after, **more)


def run(operator: Operator, *history: ForeignChange) -> tuple[RunOutcome, Plan]:
    """Run an operator with a history."""
    runs = OperatorRun(
        snapshot=STATE,
        operator=lambda: operator,
        environment=environment_factory(),
        history=history,
        rules=RuleSet.everything(),
        keep_end=True,
    )
    outcome = runs.execute()
    return outcome, make_plan(outcome, operator)


def objects_of(outcome: RunOutcome) -> dict[str, ConfigMap]:
    """Return the ConfigMaps at the end by their names."""
    assert outcome.end is not None
    return {obj.metadata.name: obj for obj in outcome.end.objects_of(ConfigMap)}


def annotating_operator() -> Operator:
    """Return an operator that writes a field of the objects that others write too."""
    operator = Operator("annotator")

    @operator.reconciler(ConfigMap)
    async def reconcile(source: ConfigMap, ctx: Context) -> None:
        if source.metadata.name.startswith("source"):
            meta = ObjectMeta(name=source.metadata.name, annotations={"size": str(len(source.data))})
            await ctx.client.apply(ConfigMap(metadata=_in_default(meta)), field_owner="annotator", force=True)

    return operator


def _in_default(meta: ObjectMeta) -> ObjectMeta:
    meta.namespace = "default"
    return meta


def test_fields_of_both_stay() -> None:
    """And a change of others is not a change of the plan."""
    outcome, plan = run(
        annotating_operator(),
        create(5.0, "source", {"a": "1"}),
        update(10.0, "source", {}, {"data": {"b": "2"}}),
        update(15.0, "source", {"data": {"a": "1"}}, {}),
    )
    source = objects_of(outcome)["source"]
    assert (source.data, source.metadata.annotations) == ({"b": "2"}, {"size": "1"})
    (planned,) = plan.changes
    assert (planned.action, planned.subject) == (ChangeAction.UPDATE, "ConfigMap default/source")
    assert [str(each) for each in planned.differences] == ["metadata.annotations: absent -> {'size': '1'}"]
    assert [each.writes for each in plan.played] == [
        [],
        ["update ConfigMap default/source"],
        ["update ConfigMap default/source"],
    ]


def test_a_deletion_of_others_is_no_danger() -> None:
    """It happened. A finalizer of the operator that never ends is one."""
    operator = Operator("finalizing")

    async def fail(source: ConfigMap, ctx: Context) -> None:
        raise RuntimeError("the record cannot be removed")

    @operator.reconciler(ConfigMap, finalizers={"example.com/x": fail})
    async def reconcile(source: ConfigMap, ctx: Context) -> None:
        pass

    outcome, plan = run(annotating_operator(), create(5.0, "source", {}), change(9.0, ForeignAction.DELETE, "source"))
    assert "source" not in objects_of(outcome)
    assert not plan.is_dangerous
    _, plan = run(operator, create(5.0, "source", {}), change(9.0, ForeignAction.DELETE, "source"))
    assert "its reconcile fails" in " ".join(each.message for each in plan.consequences)


def test_what_cannot_be_made_is_said_in_one_sentence_each() -> None:
    """The object is not there, exists already, is of no kind of the cluster, or is not valid."""
    history = [
        create(1.0, "source", {}),
        create(2.0, "source", {}),
        update(3.0, "missing", {}, {"data": {"a": "1"}}),
        create(4.0, "gadget", {}, kind="Gadget"),
        update(5.0, "source", {}, {"metadata": {"labels": {"a b": "c"}}}),
        create(6.0, "dependent", {}, ownerReferences=[_owner("missing")]),
    ]
    _, plan = run(annotating_operator(), *history)
    reasons = [each.skipped for each in plan.played]
    assert reasons[0] == ""
    assert reasons[1] == "this version has created it before"
    assert reasons[2] == "it is not there: this version has deleted it, or never created it"
    assert reasons[3] == "the cluster of the plan does not have its kind"
    assert reasons[4].startswith("it cannot be made: ")
    assert reasons[5] == "its owner ConfigMap missing is not there"
    lines = [line.text for line in text_lines(plan)]
    assert sum("skipped: " in line for line in lines) == 5


def _owner(name: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": "recorded"}


def test_owners_have_the_uids_of_the_run() -> None:
    """An owner of a kind that was not recorded is left out: the garbage collector would delete the dependent."""
    unread = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "unread", "uid": "other"}
    outcome, _ = run(
        annotating_operator(),
        create(1.0, "dependent", {}, ownerReferences=[_owner("source"), unread]),
        create(2.0, "source", {}),
    )
    objects = objects_of(outcome)
    (owner,) = objects["dependent"].metadata.owner_references
    assert owner.uid == objects["source"].metadata.uid


def test_a_status_has_observed_as_much_as_in_the_recording() -> None:
    """Also if the operator of the run has written the object more often."""
    operator = Operator("deployer")

    @operator.reconciler(ConfigMap, owns=[Deployment])
    async def reconcile(source: ConfigMap, ctx: Context) -> None:
        if source.metadata.name == "source":
            for replicas in (1, 2, 3):
                await ctx.client.apply(_deployment(replicas), field_owner="deployer", force=True)

    status = {"status": {"observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "availableReplicas": 3}}
    ready = update(5.0, "web", {}, status, kind="Deployment", generation=1)
    runs = OperatorRun(
        snapshot=STATE,
        operator=lambda: operator,
        environment=environment_factory(controllers="none"),
        history=[create(1.0, "source", {}), ready],
        rules=RuleSet.everything(),
        keep_end=True,
    )
    outcome = runs.execute()
    assert outcome.end is not None
    (deployment,) = outcome.end.objects_of(Deployment)
    assert deployment.metadata.generation == 3
    assert deployment.status is not None
    assert (deployment.status.observed_generation, deployment.status.ready_replicas) == (3, 3)


def _deployment(replicas: int) -> Any:
    return Unstructured.from_tree({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    })  # fmt: skip


def test_values_of_secrets_are_not_in_a_plan() -> None:
    """Their keys are."""
    secret = create(1.0, "password", {"a": "c2VjcmV0"}, kind="Secret")
    later = update(2.0, "password", {"data": {"a": "c2VjcmV0"}}, {"data": {"a": "b3RoZXI="}}, kind="Secret")
    _, plan = run(annotating_operator(), secret, later)
    text = " ".join(line.text for line in text_lines(plan)) + str(plan.played)
    assert "data.a: '(hidden)' -> '(hidden, another value)'" in text
    assert "c2VjcmV0" not in text
    assert "b3RoZXI=" not in text


def test_the_clock_is_that_of_the_recording() -> None:
    """A change after five seconds comes five seconds after the time of the snapshot."""
    times: list[str] = []
    operator = Operator("clock")

    @operator.reconciler(ConfigMap)
    async def reconcile(source: ConfigMap, ctx: Context) -> None:
        if source.metadata.name == "source" and source.metadata.creation_timestamp is not None:
            times.append(source.metadata.creation_timestamp.isoformat())

    run(operator, create(5.0, "source", {}))
    assert times[0].startswith("2026-01-01T00:00:05")


def test_a_run_that_ends_early_says_so() -> None:
    """The operator ended by itself: later changes were not made."""
    operator = Operator("ending")

    @operator.setup
    async def stop_at_once(starting: Operator) -> AsyncIterator[None]:
        starting.manager.stop()
        yield

    _, plan = run(operator, create(50.0, "source", {}))
    assert [each.skipped for each in plan.played] == ["the run ended before"]
