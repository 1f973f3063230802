"""Which changes in the messages of a recording are those of others: one case for each form of messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.engine.foreign_changes import ForeignAction, ForeignChange, simulated_controllers
from opsdk.engine.replay.history import foreign_changes
from opsdk.engine.replay.timeline import Timeline
from opsdk.recording.files import RecordingError
from opsdk.recording.records import ExchangeBegan, Failed, Received, Record, RecordingBegan, Responded, TimeMoved

COLLECTION = "/api/v1/namespaces/default/configmaps"
BEGAN = RecordingBegan(opsdk="1", python="3", operator="shop", wall=0, seed=1)


def config_map(
    revision: int, *, data: dict[str, str] | None = None, writers: dict[str, str] | None = None, **metadata: Any
) -> dict[str, Any]:
    """Return a version of an object.

    Args:
        revision: its resource version.
        data: of the object.
        writers: field managers, each with the member of ``data`` that it owns; its time is the revision.
        metadata: more of it.
    """
    entries = [
        {"manager": name, "operation": "Update", "time": f"{revision}", "fieldsV1": {"f:data": {f"f:{member}": {}}}}
        for name, member in (writers or {}).items()
    ]
    identity = {"name": "a", "namespace": "default", "uid": "uid-a", "resourceVersion": f"{revision}"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**identity, "managedFields": entries, **metadata},
        "data": data or {},
    }


class Night:
    """A recording, message by message; each has an iteration of its own, at its second."""

    def __init__(self) -> None:
        self.records: list[Record] = [BEGAN]
        self.iteration = 0
        self._exchanges = 0

    def send(self, method: str, target: str, body: Any = None) -> int:
        """Send a request. Returns its number."""
        self._exchanges += 1
        self._tick()
        content = b"" if body is None else json.dumps(body).encode()
        self.records.append(ExchangeBegan(self.iteration, self._exchanges, "server", method, target, "", content))
        return self._exchanges

    def answer(self, exchange: int, body: Any, status: int = 200) -> None:
        """Receive a whole response."""
        self._tick()
        self.records.append(Responded(self.iteration, exchange, status, {}))
        self.records.append(Received(self.iteration, exchange, json.dumps(body).encode()))

    def lose(self, exchange: int) -> None:
        """Receive no response."""
        self._tick()
        self.records.append(Failed(self.iteration, exchange, "opsdk.errors:ConnectionLostError", "reset"))

    def watch(self, query: str = "watch=true", collection: str = COLLECTION) -> int:
        """Begin a watch."""
        exchange = self.send("GET", f"{collection}?{query}")
        self.records.append(Responded(self.iteration, exchange, 200, {}))
        return exchange

    def event(self, watch: int, kind: str, obj: Any) -> None:
        """Receive an event."""
        self._tick()
        line = json.dumps({"type": kind, "object": obj}).encode() + b"\n"
        self.records += [Received(self.iteration, watch, line[:9]), Received(self.iteration, watch, line[9:])]

    def list(self, *items: Any, revision: int, collection: str = COLLECTION) -> None:
        """Receive a list."""
        bare = [{name: value for name, value in item.items() if name not in ("apiVersion", "kind")} for item in items]
        metadata = {"resourceVersion": f"{revision}"}
        body = {"apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": bare}
        self.answer(self.send("GET", f"{collection}?limit=500"), body)

    def write(self, method: str, body: Any, result: Any, *, status: int = 200, name: str = "/a") -> None:
        """Send a write, and receive its response."""
        self.answer(self.send(method, f"{COLLECTION}{name}", body), result, status)

    def _tick(self) -> None:
        self.iteration += 1
        self.records.append(TimeMoved(self.iteration, float(self.iteration)))

    def changes(self, *state: Any, after: int = 0, until: float | None = None) -> Sequence[ForeignChange]:
        """Return the history."""
        return foreign_changes(Timeline(self.records), objects=state, after=after, since=float(after), until=until)


def summary(changes: Sequence[ForeignChange]) -> list[tuple[str, Any, Any]]:
    """Return action and fields of changes."""
    return [
        (change.action.value, change.before.get("data") or None, change.after.get("data") or None) for change in changes
    ]


FIRST = config_map(1, data={"x": "1"}, writers={"user": "x"})


def test_an_event_of_another_writer_is_a_change_with_its_fields_time_and_manager() -> None:
    """The fields of the version before are those that the operator knew."""
    night = Night()
    watch = night.watch()
    night.event(watch, "MODIFIED", config_map(2, data={"x": "2"}, writers={"user": "x"}))
    (change,) = night.changes(FIRST)
    assert (change.seconds, change.subject, change.manager) == (2.0, "ConfigMap default/a", "user")
    assert (change.before, change.after) == ({"data": {"x": "1"}}, {"data": {"x": "2"}})
    assert night.changes(FIRST, until=1.5) == []
    assert night.changes(config_map(2), after=2) == []


@pytest.mark.parametrize("is_answered", [True, False])
@pytest.mark.parametrize("is_known", [True, False])
def test_an_own_write_is_no_change(is_answered: bool, is_known: bool) -> None:
    """With a response, by its resource version, whatever its manager; without one, by its manager or its body."""
    night = Night()
    watch = night.watch()
    manager = "shop/carts" if is_known else "program"
    later = config_map(2, data={"x": "2", "y": "1"}, writers={manager: "y"} if is_answered or is_known else {})
    exchange = night.send("PATCH", f"{COLLECTION}/a", {"data": {"y": "1", "x": "2"}})
    # The version before has shown the object.
    night.records.insert(3, TimeMoved(0, 0.0))
    if is_answered:
        night.answer(exchange, later)
    else:
        night.event(watch, "MODIFIED", FIRST)
        night.lose(exchange)
    night.event(watch, "MODIFIED", later)
    changes = night.changes(FIRST)
    assert summary(changes) == ([] if is_answered or is_known else summary(changes))


def test_a_write_without_effect_does_not_own_the_change_before_it() -> None:
    """Its response has the resource version of the other writer, also if the event comes later."""
    for is_late in (True, False):
        night = Night()
        watch = night.watch()
        foreign = config_map(2, data={"x": "2"}, writers={"user": "x"})
        if not is_late:
            night.event(watch, "MODIFIED", foreign)
        night.write("PATCH", {"data": {}}, foreign)
        if is_late:
            night.event(watch, "MODIFIED", foreign)
        assert summary(night.changes(FIRST)) == [("update", {"x": "1"}, {"x": "2"})]


def test_a_list_after_a_gap_has_writes_of_both() -> None:
    """Only the fields of others are a change."""
    night = Night()
    night.watch()
    night.write("PATCH", {"data": {"own": "1"}}, config_map(2, data={"x": "1", "own": "1"}, writers={"shop": "own"}))
    both = config_map(4, data={"x": "3", "own": "2"}, writers={"shop": "own", "user": "x"})
    night.list(both, revision=4)
    assert summary(night.changes(FIRST)) == [("update", {"x": "1"}, {"x": "3"})]


@pytest.mark.parametrize("is_stream", [True, False])
def test_what_a_list_lacks_was_deleted(is_stream: bool) -> None:
    """Also if a watch sends the list."""
    night = Night()
    watch = night.watch()
    night.event(watch, "ADDED", FIRST)
    if is_stream:
        again = night.watch("watch=true&sendInitialEvents=true")
        other = config_map(3, name="b", uid="uid-b")
        night.event(again, "ADDED", other)
        end = {"resourceVersion": "5", "annotations": {"k8s.io/initial-events-end": "true"}}
        night.event(again, "BOOKMARK", {"kind": "ConfigMap", "metadata": end})
    else:
        night.list(revision=5)
    actions = [(change.action, change.name) for change in night.changes(FIRST)]
    assert (ForeignAction.DELETE, "a") in actions
    assert len(actions) == 1 + is_stream


def test_a_deletion_is_that_of_its_sender() -> None:
    """A deletion that waits for a finalizer has an event before its end."""
    marked = config_map(2, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x/y"])
    gone = config_map(3, deletionTimestamp="2026-01-01T00:00:00Z")
    begun = config_map(1, finalizers=["x/y"])
    for is_own in (True, False):
        night = Night()
        watch = night.watch()
        if is_own:
            night.write("DELETE", {}, marked)
        night.event(watch, "MODIFIED", marked)
        night.event(watch, "DELETED", gone)
        changes = night.changes(begun)
        assert [change.action.value for change in changes] == (["update"] if is_own else ["delete", "update"])
        assert changes[-1].before == {"metadata": {"finalizers": ["x/y"]}}


def test_the_end_of_an_own_finalizer_is_no_change() -> None:
    """The removal follows from the operator's write."""
    marked = config_map(2, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x/y"])
    marked["metadata"]["managedFields"] = [
        {"manager": "shop", "fieldsV1": {"f:metadata": {"f:finalizers": {'v:"x/y"': {}}}}, "time": "1"}
    ]
    night = Night()
    watch = night.watch()
    night.lose(night.send("PATCH", f"{COLLECTION}/a", {"metadata": {"finalizers": None}}))
    night.event(watch, "DELETED", config_map(3, deletionTimestamp="2026-01-01T00:00:00Z"))
    assert night.changes(marked) == []


def test_an_object_of_the_same_name_is_another_one() -> None:
    """Its predecessor is deleted first."""
    night = Night()
    night.event(night.watch(), "ADDED", FIRST)
    night.list(config_map(5, data={"x": "5"}, writers={"user": "x"}, uid="uid-b"), revision=5)
    assert summary(night.changes(FIRST)) == [("delete", None, None), ("create", None, {"x": "5"})]


def test_dependents_of_a_deleted_owner_are_left_to_the_garbage_collector() -> None:
    """Its deletion is a change, if it is that of others."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "uid-a"}
    dependent = config_map(2, name="b", uid="uid-b", ownerReferences=[owner])
    night = Night()
    watch = night.watch()
    night.event(watch, "DELETED", config_map(3))
    night.event(watch, "DELETED", {**dependent, "metadata": {**dependent["metadata"], "resourceVersion": "4"}})
    assert [change.name for change in night.changes(FIRST, dependent)] == ["a"]


def test_own_creations_are_no_changes_and_later_writes_of_others_are() -> None:
    """The response of the creation is the version before."""
    night = Night()
    watch = night.watch()
    body = {"data": {"own": "1"}}
    night.write("POST", body, config_map(2, data={"own": "1"}, writers={"program": "own"}), status=201, name="")
    night.event(watch, "ADDED", config_map(2, data={"own": "1"}, writers={"program": "own"}))
    night.event(watch, "MODIFIED", config_map(3, data={"own": "1", "x": "1"}, writers={"user": "x"}))
    night.event(watch, "MODIFIED", config_map(4, data={"own": "4", "x": "1"}, writers={"program": "own"}))
    assert summary(night.changes()) == [("update", None, {"x": "1"})]


def test_an_object_that_leaves_a_selector_is_still_there_for_another_watch() -> None:
    """It is deleted when the last watch loses it."""
    night = Night()
    selected, whole = night.watch("watch=true&labelSelector=a%3Db"), night.watch()
    night.event(selected, "ADDED", FIRST)
    night.event(whole, "ADDED", FIRST)
    night.event(selected, "DELETED", config_map(2, data={"x": "1"}))
    assert [change.action for change in night.changes(FIRST)] == []
    night.event(whole, "DELETED", config_map(3, data={"x": "1"}))
    assert [change.action for change in night.changes(FIRST)] == [ForeignAction.DELETE]


def test_objects_of_a_kind_that_is_listed_later_were_there() -> None:
    """Whoever wrote them: nothing else creates them in the run."""
    night = Night()
    night.watch()
    night.list(config_map(5, data={"own": "1"}, writers={"shop": "own"}), revision=5)
    assert summary(night.changes()) == [("create", None, {"own": "1"})]


def test_metadata_is_no_object() -> None:
    """A cache of metadata has no objects to begin with either."""
    night = Night()
    watch = night.watch()
    night.event(watch, "ADDED", {**FIRST, "kind": "PartialObjectMetadata"})
    assert night.changes() == []


def test_the_work_of_a_controller_is_not_simulated_too() -> None:
    """A Pod that comes with its ReplicaSet, and becomes ready, excludes both controllers."""
    common = {"seconds": 0.0, "api_version": "v1", "kind": "Pod", "name": "a"}
    owner = {"kind": "ReplicaSet", "name": "b"}
    history = [
        ForeignChange(action=ForeignAction.CREATE, after={"metadata": {"ownerReferences": [owner]}}, **common),
        ForeignChange(action=ForeignAction.UPDATE, after={"status": {"phase": "Running"}}, **common),
    ]
    assert simulated_controllers(history) == "cluster,-kubelet,-pod-garbage-collector,-replicaset"
    assert simulated_controllers([]) == "cluster"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["uid-a", "a", "1", "ConfigMap"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["metadata", "uid", "name", "kind", "items", "object", "managedFields", "fieldsV1", "details"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@pytest.mark.slow
@given(JSON, JSON, JSON)
def test_hostile_messages_are_typed_errors(event: Any, response: Any, items: Any) -> None:
    """Or they are left out, as the operator does."""
    night = Night()
    watch = night.watch()
    night.event(watch, "ADDED", event)
    night.write("PATCH", response, response)
    night.write("DELETE", {}, response)
    night.answer(night.send("GET", COLLECTION), {"kind": "ConfigMapList", "items": items})
    night.event(watch, "MODIFIED", {**FIRST, "data": event})
    night.event(watch, "DELETED", event)
    with suppress(RecordingError):
        night.changes(FIRST)
