"""Causes name the trace contexts of the writes that events show."""

from __future__ import annotations

import pytest
from cache_events import created, deleted, entry, updated, view
from cache_world import THING
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from opsdk.base.cause import ReconcileCause, ReconcileCauses, traceparents_of
from opsdk.base.traceparent import TRACEPARENT_ANNOTATION
from opsdk.event.dispatcher import EventDispatcher
from opsdk.event.event import AnyEvent, ObjectView, cause_of
from opsdk.event.handlers import EnqueueRequestForObject
from opsdk.event.request import Request
from opsdk.queue.work_queue import WorkQueue


def numbered(number: int) -> str:
    """The trace context of a write."""
    return f"00-{number:032x}-{number:016x}-01"


def traced(version: int, value: object) -> ObjectView[object]:
    """A version of an object with a value of the annotation."""
    return view("a", version, annotations={TRACEPARENT_ANNOTATION: value})  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (created(traced(1, numbered(1))), (numbered(1),)),
        (updated(view("a", 1), traced(2, numbered(1))), (numbered(1),)),
        (updated(traced(1, numbered(1)), traced(2, numbered(2))), (numbered(2),)),
        (updated(traced(1, numbered(1)), traced(2, numbered(1))), ()),
        (updated(traced(1, numbered(1)), view("a", 2)), ()),
        (deleted(traced(1, numbered(1))), ()),
        (created(traced(1, "00-" + "x" * 1000)), ()),
        (created(traced(1, 7)), ()),
        (created(view("a", 1, labels={TRACEPARENT_ANNOTATION: numbered(1)})), ()),
    ],
    ids=["create", "first", "next", "same", "removed", "delete", "hostile", "number", "label"],
)
def test_only_a_new_context_is_that_of_the_write(event: AnyEvent, expected: tuple[str, ...]) -> None:
    """A write without a context leaves the annotation of an earlier write, which did not cause this event."""
    assert cause_of(event, traced=True).traceparents == expected
    assert cause_of(event).traceparents == ()


@given(st.binary(max_size=40))
def test_any_bytes_behind_the_key_are_harmless(tail: bytes) -> None:
    """An object that does not decode any more has no context."""
    plain = entry("a", 1)
    broken = replace(plain, stored=plain.data[:-2] + TRACEPARENT_ANNOTATION.encode() + tail)
    cause_of(created(ObjectView(broken, THING)), traced=True)


def test_combined_causes_keep_the_newest_contexts() -> None:
    """Equal causes keep eight different contexts, so that 16 causes have at most 128."""
    causes = ReconcileCauses()
    for number in range(1, 21):
        causes.add(ReconcileCause("Pod", "update", "a", str(number), traceparents=(numbered(number),)))
        causes.add(ReconcileCause("Pod", "update", "a", str(number), traceparents=(numbered(number),)))
    (cause,) = causes.all()
    assert cause.traceparents == tuple(map(numbered, range(13, 21)))
    assert cause.events == 40


@pytest.mark.parametrize("keeps_traces", [False, True])
async def test_the_queue_decides_whether_contexts_are_read(*, keeps_traces: bool) -> None:
    """Without a hook that follows writes, the objects of events are not scanned."""
    queue: WorkQueue[Request] = WorkQueue(item_type=Request)
    queue.keeps_traces = keeps_traces
    dispatcher = EventDispatcher("things", EnqueueRequestForObject(), ())
    dispatcher.bind(queue)
    dispatcher.dispatch(created(traced(1, numbered(1))))
    item = queue.get_nowait()
    assert item is not None
    assert item.causes[0].traceparents == ((numbered(1),) if keeps_traces else ())
    queue.shut_down()


def test_a_retry_names_the_newest_contexts_of_all_causes() -> None:
    """The bound holds for each cause, so retries of retries do not grow."""
    causes = [ReconcileCause("Pod", traceparents=tuple(map(numbered, range(n, n + 5)))) for n in (1, 4, 11)]
    assert traceparents_of(causes) == tuple(map(numbered, (6, 7, 8, 11, 12, 13, 14, 15)))
    again = ReconcileCause("retry", traceparents=traceparents_of(causes))
    assert traceparents_of([again]) == again.traceparents
    assert traceparents_of([ReconcileCause("Pod"), ReconcileCause("retry")]) == ()
