"""Which Event to write, and whether to write one at all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from opsdk.api.core.v1 import ObjectReference
from opsdk.client.recorder.correlator import EventCorrelator, EventKey, Write
from opsdk.client.recorder.spam_filter import SpamFilter

START = datetime(2026, 1, 1, tzinfo=UTC)


def similar(reason: str = "Created", name: str = "a") -> EventKey:
    """What makes two happenings the same."""
    return EventKey("Normal", reason, reason, "note", ("v1", "Pod", "ns", name, "u"), ())


def references(name: str = "a", namespace: str | None = "ns") -> dict[str, ObjectReference | None]:
    """What an event is about."""
    return {"regarding": ObjectReference(kind="Pod", name=name, namespace=namespace), "related": None}


def record(aggregator: EventCorrelator, what: EventKey, seconds: float = 0, **about: Any) -> Any:
    """A happening so many seconds after the start."""
    return aggregator.record(what, references(**about), START + timedelta(seconds=seconds))


def made(size: int = 10) -> EventCorrelator:
    """A fresh one."""
    return EventCorrelator(controller="c", instance="c-host", size=size)


def test_the_first_is_an_event_the_second_a_series_the_rest_counts() -> None:
    """Written once, then once as a series; what follows is handed out by `unsent`, once for each growth."""
    aggregator = made()
    assert record(aggregator, similar())[0] is Write.CREATE
    write, event = record(aggregator, similar(), 10)
    assert (write, event.series.count) == (Write.SERIES, 2)
    for n in range(3, 8):
        assert record(aggregator, similar(), 10 * n)[0] is Write.NOTHING
    ((what, grown),) = aggregator.unsent()
    assert (what, grown.series.count) == (similar(), 7)
    assert grown.metadata.name == event.metadata.name
    assert list(aggregator.unsent()) == []


def test_after_a_long_silence_it_is_a_new_event() -> None:
    """Six minutes without a repetition end a series."""
    aggregator = made()
    _, first = record(aggregator, similar())
    record(aggregator, similar(), 300)
    write, again = record(aggregator, similar(), 300 + 361)
    assert write is Write.CREATE
    assert again.series is None
    assert again.metadata.name != first.metadata.name


def test_different_happenings_are_different_events() -> None:
    """Another reason or object is another event, with a name of its own even at equal times."""
    aggregator = made()
    events = [record(aggregator, similar(reason=f"R{n}")) for n in range(5)]
    events.append(record(aggregator, similar(name="b"), name="b"))
    assert all(write is Write.CREATE for write, _ in events)
    assert len({event.metadata.name for _, event in events}) == 6


def test_events_live_with_their_object() -> None:
    """Events are in the namespace of their object; those of cluster-scoped objects in default."""
    assert record(made(), similar())[1].metadata.namespace == "ns"
    assert record(made(), similar(), namespace=None)[1].metadata.namespace == "default"


def test_event_names_are_valid_subdomains() -> None:
    """An event's name is a subdomain of at most 253 characters for any object name."""
    for name in ("a" * 253, "system:node", "UPPER", f"{'a' * 235}.b", "a-" * 118, ""):
        _, event = record(made(), similar(name=name), name=name)
        result = event.metadata.name
        assert len(result) <= 253
        assert all(part and part.strip("-") == part for part in result.split("."))
        assert result == result.lower()
        assert ":" not in result


def test_the_memory_is_bounded() -> None:
    """The least recent happening is forgotten; what was dropped by the server can be forgotten, too."""
    aggregator = made(size=2)
    for name in "abc":
        record(aggregator, similar(name=name))
    assert record(aggregator, similar(name="a"))[0] is Write.CREATE
    aggregator.forget(similar(name="a"))
    aggregator.forget(similar(name="a"))
    assert record(aggregator, similar(name="a"))[0] is Write.CREATE


def test_series_that_have_ended_are_forgotten() -> None:
    """Six minutes after its last repetition an Event takes no memory; a later repetition creates a new one."""
    correlator = made()
    _, first = record(correlator, similar("Old"))
    record(correlator, similar("New"), 300)
    correlator.forget_ended(START + timedelta(seconds=361))
    assert len(correlator) == 1
    write, again = record(correlator, similar("Old"), 362)
    assert write is Write.CREATE
    assert again.metadata.name != first.metadata.name


def numbered(number: int, name: str = "a", kind: str = "Normal") -> EventKey:
    """An Event whose note has a number."""
    return EventKey(kind, "Created", "Created", f"try {number}", ("v1", "Pod", "ns", name, "u"), ())


def test_an_object_has_a_burst_and_then_one_event_in_five_minutes() -> None:
    """601 different notes in ten minutes are 27 Events; the ones that were written still form series."""
    correlator = made(size=1000)
    writes = [record(correlator, numbered(second), second)[0] for second in range(601)]
    assert writes.count(Write.CREATE) == 25 + 2
    assert writes.count(Write.DROP) == 601 - 27
    assert writes[:25] == [Write.CREATE] * 25
    assert record(correlator, numbered(600), 600.5)[0] is Write.SERIES


def test_warnings_and_other_objects_have_buckets_of_their_own() -> None:
    """Normal Events hide neither warnings nor the Events about another object."""
    correlator = made(size=1000)
    for number in range(100):
        record(correlator, numbered(number))
    assert record(correlator, numbered(0, kind="Warning"))[0] is Write.CREATE
    assert record(correlator, numbered(0, name="b"))[0] is Write.CREATE
    assert record(correlator, numbered(100))[0] is Write.DROP


def test_nothing_is_kept_for_objects_that_ever_lived() -> None:
    """A bucket that is full again takes no memory, and the number of buckets is limited."""
    filter_ = SpamFilter(size=10)
    for number in range(100):
        assert filter_.allows("Normal", (str(number),), START)
    assert len(filter_) == 10
    filter_.forget_full(START + timedelta(seconds=300 - 1))
    assert len(filter_) == 10
    filter_.forget_full(START + timedelta(seconds=300))
    assert len(filter_) == 0


@given(st.lists(st.floats(0, 2000), min_size=1, max_size=60))
def test_a_bucket_admits_no_more_than_its_rate(gaps: list[float]) -> None:
    """In any span of time, an object gets at most the burst and one Event for each five minutes of the span."""
    filter_, now, admitted = SpamFilter(size=10), START, []
    for gap in gaps:
        now += timedelta(seconds=gap)
        filter_.forget_full(now)
        if filter_.allows("Normal", ("a",), now):
            admitted.append(now)
    for first, start in enumerate(admitted):
        for last, end in enumerate(admitted[first:], first):
            assert last - first + 1 <= 25 + (end - start).total_seconds() / 300 + 1e-6
