"""Causes of a request: combined, ordered, bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from opsdk.base.cause import ReconcileCause, ReconcileCauses
from opsdk.queue.core import QueueCore

causes = st.builds(
    ReconcileCause,
    source=st.sampled_from(["Pod", "ConfigMap", "retry"]),
    event=st.sampled_from(["create", "update"]),
    key=st.sampled_from([f"ns/{n}" for n in range(8)]),
    resource_version=st.integers(1, 99).map(str),
    own=st.booleans(),
    events=st.just(1),
)


@given(st.lists(causes, max_size=80))
def test_every_event_is_counted_and_the_number_of_causes_is_bounded(events: list[ReconcileCause]) -> None:
    """Each event counts in exactly one cause; one cause has the last version, and is own only if all events are."""
    collected = ReconcileCauses()
    for event in events:
        collected.add(event)
    result = collected.all()
    assert sum(cause.events for cause in result) == len(events)
    assert len(result) <= 17
    for cause in result:
        combined = [e for e in events if (e.source, e.event, e.key) == (cause.source, cause.event, cause.key)]
        if cause.source != "other causes":
            assert cause.resource_version == combined[-1].resource_version
            assert cause.own == all(e.own for e in combined)


def test_causes_of_combined_adds_are_returned_together() -> None:
    """A cause added during processing belongs to the next take, not to the running one."""
    queue: QueueCore[str] = QueueCore()
    queue.add("a", now=0, cause=ReconcileCause("one"))
    queue.add("a", now=0, after=5, cause=ReconcileCause("two"))
    first = queue.take(now=0)
    assert first is not None
    queue.add("a", now=0, cause=ReconcileCause("three"))
    assert [c.source for c in first.causes] == ["one", "two"]
    queue.done("a", now=1)
    second = queue.take(now=1)
    assert second is not None
    assert [c.source for c in second.causes] == ["three"]


def test_a_cause_prints_as_one_line() -> None:
    """The line has what a reader needs, and leaves out what is empty."""
    cause = ReconcileCause("Pod", "update", "ns/a", "7", own=True, initial=True, detail="x", events=3)
    assert str(cause) == "Pod update ns/a at 7 (own write) (initial list) (x) (3 times)"
    assert str(ReconcileCause("retry")) == "retry"
