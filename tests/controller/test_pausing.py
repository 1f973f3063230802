"""Pauses of objects: annotations, what is held back, and which events pass."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from cache_events import deleted, updated
from cache_events import view as view_of
from hypothesis import given
from hypothesis import strategies as st

from opsdk import ControllerOptions, Request, UsageError
from opsdk.base.cause import ReconcileCause
from opsdk.controller.pausing import (
    PAUSED_ANNOTATION,
    RECONCILE_ANNOTATION,
    Pause,
    PauseBook,
    Pausing,
    or_pause_changes,
    read_pause,
)
from opsdk.event.event import EventType, ObjectView
from opsdk.event.predicates import PredicateFunc, generation_changed, ignore_own_writes, matches_labels

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "pause"),
    [
        (None, None),
        ("false", None),
        ("true", Pause()),
        ("2026-01-01T00:00:01Z", Pause(until=NOW + timedelta(seconds=1))),
        ("2026-01-01T02:00:01+02:00", Pause(until=NOW + timedelta(seconds=1))),
        ("2026-01-01T00:00:00Z", None),
        ("2025-01-01T00:00:00Z", None),
    ],
)
def test_an_annotation_pauses_until_its_time(value: str | None, pause: Pause | None) -> None:
    """``true`` has no end, a time is the end, and ``false`` or a time in the past is not a pause."""
    assert read_pause({PAUSED_ANNOTATION: value} if value is not None else {}, now=NOW) == pause


@pytest.mark.parametrize(
    "value", ["", "yes", "True", "1h", "2026-01-02", "2026-01-02T00:00:00", "9999-12-31T23:59:59-12:00", "x" * 2000]
)
def test_a_value_that_is_not_understood_pauses(value: str) -> None:
    """The pause names the value and the three forms; a long value is cut."""
    pause = read_pause({PAUSED_ANNOTATION: value}, now=NOW)
    assert pause is not None
    assert pause.until is None
    assert f'the annotation opsdk.dev/paused is "{value[:50]}' in pause.problem
    assert 'write "true", "false", or the end of the pause as 2026-01-02T15:04:05Z' in pause.problem
    assert len(pause.problem) < 300


@given(st.text(), st.text())
def test_no_annotation_raises(value: str, reason: str) -> None:
    """Any text is a pause, or none; its form for people holds the reason."""
    pause = read_pause({PAUSED_ANNOTATION: value, "opsdk.dev/paused-reason": reason}, now=NOW)
    assert pause is None or str(pause).endswith(reason)


def test_causes_wait_with_their_request() -> None:
    """Causes of several passes are combined, and returned once."""
    book = PauseBook()
    request, pause = Request("default", "a"), Pause()
    assert book.hold(request, pause, (ReconcileCause("Pod", "update", "default/p", "1"),))
    assert not book.hold(request, pause, (ReconcileCause("Pod", "update", "default/p", "2"),))
    assert book.hold(request, Pause(reason="other"), (ReconcileCause("retry"),))
    assert list(book.held) == [request]
    assert [str(cause) for cause in book.release(request)] == ["Pod update default/p at 2 (2 times)", "retry"]
    assert (book.held, book.release(request)) == ({}, ())


# -------------------------------------------------------------- events
def view(annotations: dict[str, str], *, generation: int = 1, labels: dict[str, str] | None = None) -> ObjectView[Any]:
    """An object in an event."""
    return view_of(annotations=annotations, generation=generation, labels=labels or {})


PLAIN, PAUSED = view({}), view({PAUSED_ANNOTATION: "true"})


@pytest.mark.parametrize("predicates", [(generation_changed(),), (generation_changed(), ignore_own_writes())])
def test_the_change_of_a_pause_passes(predicates: tuple[PredicateFunc, ...]) -> None:
    """Predicates that drop changes of annotations let a pause, its end, its reason and a reconcile-now through."""
    passes = or_pause_changes(predicates)
    until = view({PAUSED_ANNOTATION: "2026-01-02T00:00:00Z"})
    reasoned = view({PAUSED_ANNOTATION: "true", "opsdk.dev/paused-reason": "maintenance"})
    now = view({RECONCILE_ANNOTATION: "1"})
    for old, new in ((PLAIN, PAUSED), (PAUSED, PLAIN), (PAUSED, until), (PAUSED, reasoned), (PLAIN, now)):
        assert passes(updated(old, new))
        assert passes(msgspec.structs.replace(updated(old, new), own=True))
    assert not passes(updated(PLAIN, PLAIN))
    assert not passes(updated(PAUSED, PAUSED))
    assert not passes(updated(PLAIN, view({"example.com/other": "1"})))
    assert passes(updated(PLAIN, view({}, generation=2)))


def test_objects_of_others_stay_dropped() -> None:
    """The change of a pause passes only for objects whose creation would pass."""
    passes = or_pause_changes((matches_labels("tier=web"),))
    other, web = {"tier": "db"}, {"tier": "web"}
    assert not passes(updated(view({}, labels=other), view({PAUSED_ANNOTATION: "true"}, labels=other)))
    assert passes(updated(view({}, labels=web), view({PAUSED_ANNOTATION: "true"}, labels=web)))


def test_the_deletion_of_a_paused_object_passes() -> None:
    """The controller forgets the pause, also where a predicate drops deletions."""
    passes = or_pause_changes((lambda event: event.type is not EventType.DELETE,))
    assert passes(deleted(PAUSED))
    assert not passes(deleted(PLAIN))


# -------------------------------------------------------------- options
@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"condition": True}, 'write condition="Paused"'),
        ({"condition": None}, 'write condition="Paused"'),
        ({"condition": "is paused"}, 'write condition="Paused"'),
        ({"hold_deletions": "wait"}, "hold_deletions of Pausing takes True or False, but got 'wait'"),
    ],
)
def test_wrong_arguments_are_refused_at_the_declaration(keywords: dict[str, Any], words: str) -> None:
    """The error says what to write, with this file and line."""
    with pytest.raises(UsageError) as error:
        Pausing(**keywords)
    assert words in str(error.value)
    assert f"{__file__}:" in str(error.value)


@pytest.mark.parametrize("value", [True, "Paused", Pausing])
def test_an_option_that_is_no_pausing_is_refused(value: Any) -> None:
    """The error says what to write, with this file and line."""
    with pytest.raises(UsageError, match=r"write pausing=Pausing\(\.\.\.\), or pausing=None") as error:
        ControllerOptions(pausing=value)
    assert f"{__file__}:" in str(error.value)


def test_two_options_cannot_name_the_same_condition() -> None:
    """The two meanings would overwrite each other; the error has this file and line."""
    with pytest.raises(UsageError, match="are both 'Stalled': name two conditions") as error:
        ControllerOptions(error_condition="Stalled", pausing=Pausing(condition="Stalled"))
    assert f"{__file__}:" in str(error.value)
