"""What an apply does: decided from values."""

from __future__ import annotations

from typing import Any

import pytest

from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.apimachinery.object import Unstructured
from opsdk.children.apply_record import ApplyRecord, RemainingDifferences
from opsdk.children.decision import (
    Declared,
    Keep,
    Repetition,
    Send,
    TakeOver,
    compare_declared,
    create,
    decide,
    decide_write,
    own_fields,
)
from opsdk.children.drift import Drift
from opsdk.children.explanation import ApplyReason
from opsdk.children.former_owners import FormerOwners
from opsdk.children.resolver import TypeResolver
from opsdk.structured_merge.fieldpath import FieldSet
from opsdk.structured_merge.value import JsonObject

DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
KEY = ObjectKey("default", "web")
REPLICAS = ("f:spec", "f:replicas")
PAUSED = ("f:spec", "f:paused")
FORMER = FormerOwners("me", ("old", "older"))


def desired(digest: bytes = b"1", **spec: Any) -> Declared:
    """Return a desired Deployment with these fields."""
    tree = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": "default", "name": "web"},
        "spec": spec,
    }
    resolved = TypeResolver().resolve(DEPLOYMENT, Unstructured)
    assert resolved is not None
    to_own = own_fields(tree, resolved.field_type, resolved.ignored)
    return Declared(DEPLOYMENT, KEY, b"source", tree, digest, resolved, to_own)


def entry(manager: str, *paths: Any, operation: str = "Apply") -> JsonObject:
    """Return an entry of managedFields."""
    fields = FieldSet.of(*paths).to_fields_v1()
    return {"manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsV1": fields}


def live(*managers: JsonObject, version: str = "7", uid: str = "uid", **spec: Any) -> JsonObject:
    """Return a live Deployment with these fields, owned by these managers."""
    metadata = {"namespace": "default", "name": "web", "uid": uid, "resourceVersion": version}
    if managers:
        metadata |= {"managedFields": list(managers)}  # type: ignore[dict-item]
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def record(
    declared: Declared, version: str = "6", *, uid: str = "uid", after: JsonObject | None = None, previous: bytes = b""
) -> ApplyRecord:
    """Return the record of an apply; `after` is the live object that it left, if differences remained."""
    remaining = RemainingDifferences()
    if after is not None:
        remaining = RemainingDifferences.of(compare_declared(after, declared, "me")[0])
    assert declared.to_own is not None
    return ApplyRecord(uid, version, declared.source, declared.digest, remaining, declared.to_own, previous)


def decided(
    declared: Declared, tree: JsonObject, known: ApplyRecord | None = None, *, drift: Drift = Drift.REPAIR
) -> Keep | TakeOver | Send:
    """Return the decision of the field manager `me`, which was called `old` and `older` before."""
    return decide(declared, tree, known, former=FORMER, drift=drift)


def test_a_missing_object_is_created() -> None:
    """The whole desired object is sent, and nothing is counted."""
    declared = desired(replicas=3)
    write = create(declared)
    assert (write.declared, write.explanation.reason) == (declared, ApplyReason.CREATE)
    assert (write.repetition, write.take_over) == (Repetition.NONE, None)


def test_the_remembered_object_is_kept_without_a_comparison() -> None:
    """The live object at the version of the record needs neither a write nor a new record."""
    declared = desired(replicas=3)
    assert decided(declared, live(replicas=5), record(declared, "7")) == Keep()


def test_an_object_without_differences_is_kept_and_remembered() -> None:
    """Owners and values tell that nothing would change, without any record."""
    declared = desired(replicas=3)
    decision = decided(declared, live(entry("me", REPLICAS), replicas=3))
    assert isinstance(decision, Keep)
    assert decision.outcome is not None
    assert decision.outcome.remaining == RemainingDifferences()
    assert decision.outcome.owned == declared.to_own
    assert decision.remaining is None


@pytest.mark.parametrize(("replicas", "kept"), [(5, True), (6, False)])
def test_differences_that_remained_after_the_apply_are_no_reason_to_write(replicas: int, kept: bool) -> None:
    """Admission sets 5: the same apply is sent again only if the live value is another one."""
    declared = desired(replicas=3)
    after = live(entry("me", REPLICAS), replicas=5)
    decision = decided(declared, live(entry("me", REPLICAS), replicas=replicas), record(declared, after=after))
    assert isinstance(decision, Keep) is kept
    if isinstance(decision, Keep):
        assert decision.outcome is not None
        assert decision.outcome.remaining == record(declared, after=after).remaining


def test_the_record_of_a_deleted_object_counts_for_nothing() -> None:
    """An object with another uid is compared as if nothing were remembered, and its write is not a repeated one."""
    declared = desired(replicas=3)
    tree = live(entry("me", REPLICAS), replicas=5)
    decision = decided(declared, tree, record(declared, "7", uid="deleted", after=tree))
    assert isinstance(decision, Send)
    assert decision.repetition is Repetition.NONE


def test_stripped_owners_cost_one_write() -> None:
    """Without managedFields the first apply is sent; afterwards the values alone decide."""
    declared = desired(replicas=3)
    first = decided(declared, live(replicas=3))
    assert isinstance(first, Send)
    assert first.explanation.reason is ApplyReason.REFRESH
    assert isinstance(decided(declared, live(replicas=3), record(declared)), Keep)
    assert isinstance(decided(declared, live(replicas=4), record(declared)), Send)


@pytest.mark.parametrize(
    ("last", "before", "repetition"),
    [
        (b"1", b"", Repetition.UNCHANGED),
        (b"2", b"1", Repetition.UNCHANGED),
        (b"2", b"3", Repetition.CHANGED),
    ],
)
def test_a_write_of_one_of_the_last_two_desired_objects_is_a_repeated_one(
    last: bytes, before: bytes, repetition: Repetition
) -> None:
    """Two callers that apply two objects in turns count as a contention, too."""
    previous = record(desired(last, replicas=3), previous=before)
    decision = decided(desired(b"1", replicas=3), live(entry("me", REPLICAS), replicas=5), previous)
    assert isinstance(decision, Send)
    assert decision.repetition is repetition


# ------------------------------------------------------------------ drift
DRIFTED = (entry("me", PAUSED), entry("hpa", REPLICAS, operation="Update"))


def test_drift_is_repaired() -> None:
    """The whole desired object is sent; the explanation names the other manager."""
    declared = desired(replicas=3, paused=True)
    decision = decided(declared, live(*DRIFTED, replicas=5, paused=True), record(declared))
    assert isinstance(decision, Send)
    assert decision.declared is declared
    assert [change.manager for change in decision.explanation.drifted] == ["hpa"]


def test_drift_alone_is_left_and_reported() -> None:
    """With `Drift.LEAVE` drift is explained and remembered, but not written."""
    declared = desired(replicas=3, paused=True)
    tree = live(*DRIFTED, replicas=5, paused=True)
    decision = decided(declared, tree, record(declared), drift=Drift.LEAVE)
    assert isinstance(decision, Keep)
    assert decision.remaining is not None
    assert not decision.remaining.written
    assert decision.outcome is not None
    assert decision.outcome.remaining == record(declared, after=tree).remaining
    again = decided(declared, tree, record(declared, after=tree), drift=Drift.LEAVE)
    assert isinstance(again, Keep)
    assert again.remaining is None


def test_only_the_drifted_fields_are_left() -> None:
    """The other differences are sent without them; the digest stays that of the whole desired object."""
    declared = desired(replicas=3, paused=True, minReadySeconds=7)
    previous = record(desired(b"0", replicas=3, paused=True))
    decision = decided(declared, live(*DRIFTED, replicas=5, paused=True), previous, drift=Drift.LEAVE)
    assert isinstance(decision, Send)
    assert decision.declared.tree["spec"] == {"paused": True, "minReadySeconds": 7}
    assert (decision.declared.digest, decision.declared.to_own) == (declared.digest, declared.to_own)
    assert [change.path for change in decision.explanation.changes] == ["spec.minReadySeconds"]


# ------------------------------------------------------------------ former field managers
def test_the_fields_of_several_former_managers_are_taken_over_first() -> None:
    """The comparison comes after it, as the own field manager."""
    declared = desired(replicas=3, paused=True)
    decision = decided(declared, live(entry("old", REPLICAS), entry("older", PAUSED), replicas=3, paused=True))
    assert isinstance(decision, TakeOver)
    assert decision.explanation.reason is ApplyReason.TAKEN_OVER
    result = live(entry("me", REPLICAS, PAUSED), replicas=3, paused=True)
    after = decide_write(declared, result, None, field_owner="me", applied="me", drift=Drift.REPAIR)
    assert isinstance(after, Keep)


def test_the_applies_of_one_former_manager_count_as_own_until_a_difference() -> None:
    """Without a difference nothing is sent; with one, the fields are taken over before the apply."""
    declared = desired(replicas=3)
    assert isinstance(decided(declared, live(entry("old", REPLICAS), replicas=3)), Keep)
    decision = decided(declared, live(entry("old", REPLICAS), replicas=5))
    assert isinstance(decision, Send)
    assert decision.explanation.reason is ApplyReason.CHANGED
    assert decision.take_over is not None
    assert decision.take_over.explanation.reason is ApplyReason.TAKEN_OVER
