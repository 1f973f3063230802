"""The state of a run at rest: what reconciles say about it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from opsdk.client.activity import ObjectRead
from opsdk.controller.journal import ReconcileRecord
from opsdk.engine.world.rest_state import RestState, StateRecorder
from opsdk.engine.writes import Entry, Writer
from opsdk.structured_merge.value import JsonObject
from opsdk.verification.state_comparison import Mask, state_violations

SITE = "demo.opsdk.dev/v1, Kind=Site"


def record(result: str, detail: str = "", reads: tuple[ObjectRead, ...] = ()) -> ReconcileRecord:
    """A reconcile of one site."""
    return ReconcileRecord(
        controller="site",
        kind=SITE,
        namespace="default",
        name="a",
        reconcile_id="1",
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        seconds=0.1,
        result=result,
        detail=detail,
        reads=reads,
    )


def test_the_last_reconcile_tells_whether_an_object_fails() -> None:
    """Without the delay of the next try, which differs each time; records of daemons are no reconciles."""
    failed = record("error", "retry in 41 s: ValueError('no')")
    recorder = StateRecorder()
    assert recorder.current([failed, record("daemon monitor started")]).failing == {"default/a": "ValueError('no')"}
    assert recorder.current([failed, record("success")]).failing == {}
    raised = replace(failed, raised_at="/app/site.py:31 reconcile")
    text = "ValueError('no'), raised at /app/site.py:31 reconcile"
    assert recorder.current([raised]).failing == {"default/a": text}


def test_objects_that_were_read_in_vain_are_missing() -> None:
    """Except the reconciled object itself, which may be gone."""
    reads = (
        ObjectRead("v1, Kind=Secret", "default/login", "", cached=True),
        ObjectRead("v1, Kind=ConfigMap", "default/b", "7", cached=True),
        ObjectRead(SITE, "default/a", "", cached=True),
    )
    assert StateRecorder().current([record("success", reads=reads)]).missing == {"Secret default/login"}


# ---------------------------------------------------------------- writes
OPERATOR = Writer(user="operator", manager="operator")


def tree(name: str, uid: str, *, deleting: bool = False, owner: str = "") -> JsonObject:
    """A stored object."""
    metadata: JsonObject = {"name": name, "namespace": "default", "uid": uid}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if owner:
        metadata["ownerReferences"] = [{"uid": owner, "name": "a", "kind": "Site"}]
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


@pytest.mark.parametrize(("other", "count"), [("replica-0.1", 1), ("replica-1.1", 0)])
def test_only_who_let_an_owner_go_has_seen_its_deletion(other: str, count: int) -> None:
    """Another replica may have an old view, and the garbage collector deletes the child."""
    recorder = StateRecorder()
    deleted = Entry(1, OPERATOR, "demo/sites/default/a", tree("a", "1", deleting=True), None)
    recorder.add(deleted, own=True, client="replica-0.1")
    child = Entry(2, OPERATOR, "core/configmaps/default/a", None, tree("a", "2", owner="1"))
    recorder.add(child, own=True, client=other)
    assert len(recorder.violations) == count


def test_what_users_create_is_not_counted() -> None:
    """The operator writes to it only after a fault: then it seems to be created more often than without."""
    recorder = StateRecorder()
    created, reported = tree("a", "1"), {**tree("a", "1"), "status": {"text": "one"}}
    user = Writer(user="user", manager="user")
    recorder.add(Entry(1, user, "demo/sites/default/a", None, created), own=False)
    recorder.add(Entry(2, OPERATOR, "demo/sites/default/a", created, reported), own=True)
    assert recorder.current().created == {}


@pytest.mark.parametrize(
    ("status", "differs"),
    [("False", False), ("True", True), ("Unknown", True)],
)
def test_a_condition_that_is_false_is_like_an_absent_one(status: str, differs: bool) -> None:
    """An error's condition stays after a fault, and says that nothing is wrong."""
    key = "demo/sites/default/a"
    usual = RestState(objects={key: [{"status": {"text": "one"}}]})
    conditions = [{"type": "Stalled", "status": status}]
    after_a_fault = RestState(objects={key: [{"status": {"text": "one", "conditions": conditions}}]})
    assert bool(state_violations(usual, after_a_fault, Mask())) is differs
    assert bool(state_violations(after_a_fault, usual, Mask())) is differs


def test_numbers_in_messages_are_not_compared() -> None:
    """After a fault, an operator gives up after one attempt more."""

    def rest(attempts: int) -> RestState:
        obj = tree("a", "1")
        obj["metadata"]["managedFields"] = [
            {"manager": "operator", "fieldsV1": {"f:status": {}}, "subresource": "status"},
        ]
        obj["status"] = {"message": f"gave up after {attempts} attempts", "attempts": attempts}
        recorder = StateRecorder()
        recorder.add(Entry(1, OPERATOR, "demo/sites/default/a", None, obj), own=True)
        return recorder.current()

    assert state_violations(rest(3), rest(4), Mask()) == ["state at rest: sites default/a status.attempts: 3 -> 4"]


@pytest.mark.parametrize(("observed", "lags"), [(0, False), (1, True), (2, False)])
def test_an_observed_generation_that_is_a_default_claims_nothing(observed: int, lags: bool) -> None:
    """No generation is 0: the field of a status that the operator does not write has its default."""
    obj = tree("a", "1")
    obj["metadata"]["generation"] = 2
    obj["metadata"]["managedFields"] = [
        {"manager": "operator", "fieldsV1": {"f:status": {}}, "subresource": "status"},
    ]
    obj["status"] = {"text": "done", "observedGeneration": observed}
    recorder = StateRecorder()
    recorder.add(Entry(1, OPERATOR, "demo/sites/default/a", None, obj), own=True)
    assert bool(recorder.current().lagging) is lags
