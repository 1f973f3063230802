"""The results of writes and reads that an informer records."""

from __future__ import annotations

import msgspec
import pytest

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.selectors import FieldRequirement, FieldSelector
from opsdk.cache.entry import Problem, Transform
from opsdk.cache.informer_writes import InformerWrites
from opsdk.cache.store import InformerStore
from opsdk.cache.unknown_reads import ReadStart
from opsdk.structured_merge.value import JsonObject


def body(name: str, revision: int, *, namespace: str = "ns") -> bytes:
    """Return an object as the server sends it."""
    meta = {"name": name, "namespace": namespace, "uid": name, "resourceVersion": str(revision)}
    return msgspec.json.encode({"metadata": meta})


class Recorded:
    """The writes of one store, with what they report."""

    def __init__(
        self,
        *,
        transform: Transform | None = None,
        namespace: str = "",
        field_selector: FieldSelector | None = None,
    ) -> None:
        self.store = InformerStore(transform=transform)
        self.problems: list[Problem] = []
        self.rollbacks: list[str] = []
        self.writes = InformerWrites(
            self.store,
            namespace=namespace,
            field_selector=field_selector or FieldSelector(),
            report=self.problems.extend,
            on_rollback=self.rollbacks.append,
        )

    def list(self, revision: int, *bodies: bytes) -> None:
        """Put a list into the store."""
        listed = self.store.replacement()
        for data in bodies:
            listed.add(self.store.make_entry(data))
        self.store.own.list_started()
        list(self.store.replace(listed, resource_version=str(revision)))

    def names(self) -> set[str]:
        """Return the names of the objects that reads show."""
        return {entry.key.name for entry in self.store.entries()}


def test_an_object_that_was_read_is_transformed_once() -> None:
    """A read makes one entry of a body, so user functions run once, and their failure counts once."""
    calls: list[JsonObject] = []

    def transform(tree: JsonObject) -> JsonObject:
        calls.append(tree)
        raise ValueError("no transform")

    recorded = Recorded(transform=transform)
    recorded.writes.record_read(body("a", 5), ReadStart(recorded.store.lists, 0, None, None))
    assert len(calls) == len(recorded.problems) == 1
    assert recorded.names() == {"a"}


def test_only_objects_of_the_scope_are_recorded() -> None:
    """Objects in other namespaces, or excluded by the field selector, stay invisible; their version is returned."""
    recorded = Recorded(
        namespace="ns",
        field_selector=FieldSelector(
            (FieldRequirement("metadata.name", "b", negated=True), FieldRequirement("spec.nodeName", "n"))
        ),
    )
    recorded.list(3, body("a", 1), body("b", 2))
    assert recorded.writes.record(body("a", 4)) == "4"
    assert recorded.writes.record(body("a", 5, namespace="other")) == "5"
    assert recorded.writes.record(body("b", 6)) == "6"
    assert recorded.writes.record(body("new", 7)) == "7"  # its node is not known
    assert {entry.resource_version for entry in recorded.store.entries()} == {"4", "2"}


def test_a_response_older_than_expected_is_a_rollback() -> None:
    """A resource version below `at_least` is reported, and reads show it all the same."""
    recorded = Recorded()
    recorded.list(9, body("a", 8))
    recorded.writes.record(body("a", 3), at_least=8)
    assert recorded.rollbacks == ["3"]
    entry = recorded.store.get(ObjectKey("ns", "a"))
    assert entry is not None
    assert entry.resource_version == "3"


@pytest.mark.parametrize(("watched", "rollbacks"), [(True, []), (False, ["7"])])
def test_a_read_of_what_the_watch_has_passed_and_not_shown_is_a_rollback(watched: bool, rollbacks: list[str]) -> None:
    """The watch had passed version 9 and must have shown version 7 of the object, unless the server went back."""
    recorded = Recorded()
    recorded.list(9, *([body("a", 7)] if watched else []))
    entry = recorded.store.get(ObjectKey("ns", "a"))
    recorded.writes.record_read(body("a", 7), ReadStart(recorded.store.lists, 9, entry, entry))
    assert recorded.rollbacks == rollbacks


def test_a_write_after_a_rollback_ends_with_its_event() -> None:
    """It was acknowledged during the list that shows the rollback. Later states of the object are read all the same."""
    recorded = Recorded()
    recorded.list(9, body("a", 8))
    recorded.store.own.list_started()
    recorded.writes.record(body("a", 4), at_least=9)
    listed = recorded.store.replacement()
    listed.add(recorded.store.make_entry(body("a", 2)))
    list(recorded.store.replace(listed, resource_version="3"))
    recorded.store.put(recorded.store.make_entry(body("a", 5)), watched=True)
    entry = recorded.store.get(ObjectKey("ns", "a"))
    assert entry is not None
    assert entry.resource_version == "5"
    assert len(recorded.store.own) == 0


def test_a_read_that_began_before_a_list_does_not_hide_a_later_write() -> None:
    """The list showed a rollback: what the store held before it says nothing about the response."""
    recorded = Recorded()
    recorded.list(9, body("a", 8))
    entry = recorded.store.get(ObjectKey("ns", "a"))
    start = ReadStart(recorded.store.lists, 9, entry, entry)
    recorded.list(3, body("a", 2))
    recorded.writes.record(body("a", 4))
    recorded.writes.record_read(body("a", 2), start)
    entry = recorded.store.get(ObjectKey("ns", "a"))
    assert entry is not None
    assert entry.resource_version == "4"
    assert recorded.rollbacks == []


async def test_an_own_update_in_a_list_is_no_own_change() -> None:
    """The list combines it with the creation by another client, which the handlers have not seen."""
    recorded = Recorded()
    recorded.list(5)
    recorded.writes.record(body("a", 7), sole_change=True)
    listed = recorded.store.replacement()
    listed.add(recorded.store.make_entry(body("a", 7)))
    ((delta,), _) = recorded.store.replace(listed, resource_version="8")
    assert not delta.own


async def test_an_own_write_is_measured_when_the_watch_shows_it() -> None:
    """A write that the watch has passed counts without a delay; another one counts when the watch shows it."""
    recorded = Recorded()
    recorded.list(5, body("a", 5))
    recorded.writes.record(body("a", 5), sole_change=True)
    assert recorded.writes.shown == 1
    recorded.writes.record(body("a", 6), sole_change=True)
    assert recorded.writes.shown == 1
    (delta,) = recorded.store.put(recorded.store.make_entry(body("a", 6)), watched=True)
    assert delta.own
    recorded.writes.measure_shown()
    assert (recorded.writes.shown, recorded.writes.delay) == (2, 0.0)


async def test_a_write_before_the_first_list_is_not_shown() -> None:
    """Before the first list the watch has passed nothing, so the write waits for its event."""
    recorded = Recorded()
    recorded.writes.record(body("a", 6), sole_change=True)
    assert recorded.writes.shown == 0
    assert len(recorded.store.own) == 2
