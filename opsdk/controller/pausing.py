"""Pauses of objects: the annotations, and which requests they hold back. Pure.

===============================  ==================================================================
``opsdk.dev/paused: "true"``     the object is not reconciled until the annotation is removed
``opsdk.dev/paused: TIME``       until this time, such as ``2026-01-02T15:04:05Z`` (RFC 3339)
``opsdk.dev/paused: "false"``    it is reconciled
``opsdk.dev/paused-reason``      why the object is paused
``opsdk.dev/reconcile``          a new value reconciles the object once; while it is paused, after that
===============================  ==================================================================

Any other value pauses too, because its writer wanted a pause. A Warning Event explains what to write.

Upstream: none. `cluster.x-k8s.io/paused` and `crossplane.io/paused` have this purpose; neither has an expiry.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.base.cause import ReconcileCause, ReconcileCauses
from opsdk.base.options import Options
from opsdk.base.place import caller_place
from opsdk.base.shortened import shortened
from opsdk.controller.steps.condition_writer import CONDITION_TYPE
from opsdk.errors import UsageError
from opsdk.event.event import AnyEvent, EventType, ObjectView
from opsdk.event.predicates import Predicate, PredicateFunc, all_of

__all__ = ["PAUSED_ANNOTATION", "Pausing"]

PAUSED_ANNOTATION: Final = "opsdk.dev/paused"
"""Pauses an object: ``true``, ``false``, or the end of the pause."""
PAUSE_REASON_ANNOTATION: Final = "opsdk.dev/paused-reason"
"""Says why, for people."""
RECONCILE_ANNOTATION: Final = "opsdk.dev/reconcile"
"""Reconciles an object once for each new value."""
_ANNOTATIONS = (PAUSED_ANNOTATION, PAUSE_REASON_ANNOTATION, RECONCILE_ANNOTATION)
# What an object's JSON holds if it has one of them: most have none, so their annotations stay undecoded.
_MARK = b'"opsdk.dev/'
# Characters of a value in an Event, whose note has at most 1,024.
_MAX_SHOWN = 60


class Pausing(Options, frozen=True, kw_only=True):
    """How a controller treats objects with the annotation ``opsdk.dev/paused``.

    A paused object is not reconciled. Its events and retries become one reconcile, which runs when the pause ends.

    Attributes:
        condition: type of the condition that shows the pause in the object's status; empty for none. It is written when
            a pause begins or ends. The class of the status needs ``conditions``.
        hold_deletions: a paused object that is being deleted waits too. The default runs its finalizers, so that a
            forgotten pause blocks no namespace.

    Raises:
        UsageError: an argument has a wrong type; the message has file and line.

    >>> from opsdk import ControllerOptions
    >>> options = ControllerOptions(pausing=Pausing(condition="Paused"))
    """

    condition: str = ""
    hold_deletions: bool = False

    def __post_init__(self) -> None:
        condition: object = self.condition
        if not isinstance(condition, str) or (condition and not CONDITION_TYPE.fullmatch(condition)):
            raise UsageError(
                f"{caller_place()}: condition of Pausing takes the type of a condition, but got {self.condition!r}: "
                'write condition="Paused"'
            )
        if not isinstance(self.hold_deletions, bool):
            raise UsageError(
                f"{caller_place()}: hold_deletions of Pausing takes True or False, but got {self.hold_deletions!r}"
            )


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """A pause that is in force.

    Attributes:
        until: its end; None for a pause without one.
        reason: the sentence of its annotation.
        problem: what is wrong with the annotation; empty if it was understood.
    """

    until: datetime | None = None
    reason: str = ""
    problem: str = ""

    def __str__(self) -> str:
        text = f"paused until {format_time(self.until)}" if self.until is not None else "paused"
        return f"{text}: {self.reason}" if self.reason else text


class HeldBack(msgspec.Struct, frozen=True):
    """The result of a pass that a pause held back.

    Attributes:
        pause: why.
        is_new: the pause was not known before.
    """

    pause: Pause
    is_new: bool


def format_time(time: datetime) -> str:
    """Return a time in UTC as an annotation has it: RFC 3339, with seconds."""
    return f"{time.replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def read_pause(annotations: Mapping[str, str], *, now: datetime) -> Pause | None:
    """Return the pause of an object with these annotations, or None.

    >>> now = datetime(2026, 1, 1, tzinfo=UTC)
    >>> str(read_pause({"opsdk.dev/paused": "2026-01-02T00:00:00Z"}, now=now))
    'paused until 2026-01-02T00:00:00Z'
    >>> read_pause({"opsdk.dev/paused": "2025-12-31T00:00:00Z"}, now=now)
    >>> read_pause({"opsdk.dev/paused": "1h"}, now=now).problem
    'the annotation opsdk.dev/paused is "1h": write "true", "false", or the end of the pause as 2026-01-02T15:04:05Z'
    """
    value = annotations.get(PAUSED_ANNOTATION)
    if value is None or value == "false":
        return None
    reason = annotations.get(PAUSE_REASON_ANNOTATION, "")
    if value == "true":
        return Pause(reason=reason)
    until = parse_time(value)
    if until is None:
        problem = (
            f'the annotation {PAUSED_ANNOTATION} is "{shortened(value, _MAX_SHOWN)}": '
            'write "true", "false", or the end of the pause as 2026-01-02T15:04:05Z'
        )
        return Pause(reason=reason, problem=problem)
    return Pause(until=until, reason=reason) if now < until else None


def parse_time(text: str) -> datetime | None:
    """Return an RFC 3339 time in UTC; None for any other text."""
    try:
        time = datetime.fromisoformat(text)
        return time.astimezone(UTC) if time.tzinfo is not None else None
    except (ValueError, OverflowError):  # the end of the year 9999, in the west
        return None


class PauseBook:
    """The objects whose requests are held back now, with the causes that wait. Bounded by the paused objects."""

    def __init__(self) -> None:
        self.held: dict[ObjectKey, tuple[Pause, ReconcileCauses]] = {}
        """The pause of each object, and the causes that wait."""

    def hold(self, key: ObjectKey, pause: Pause, causes: tuple[ReconcileCause, ...]) -> bool:
        """Hold an object back. Returns True if its pause is new, or differs from the one before."""
        previous, waiting = self.held.get(key, (None, ReconcileCauses()))
        for cause in causes:
            waiting.add(cause)
        self.held[key] = pause, waiting
        return previous != pause

    def release(self, key: ObjectKey) -> tuple[ReconcileCause, ...]:
        """Forget an object, and return the causes that waited."""
        held = self.held.pop(key, None)
        return held[1].all() if held is not None else ()


def has_mark(data: bytes) -> bool:
    """Whether an object in JSON may have one of the annotations. Cheaper than to decode its annotations."""
    return _MARK in data


def or_pause_changes(predicates: tuple[PredicateFunc, ...]) -> Predicate:
    """Return a predicate that passes what all `predicates` pass, and changes of a pause.

    A predicate that drops changes of annotations would lose the end of a pause. Objects that are not the controller's
    stay dropped: the change passes only if the object's creation would.
    """
    passes = all_of(*predicates)
    test_passes = passes.test

    def test(event: AnyEvent) -> bool:
        if test_passes(event):
            return True
        old, new = event.old, event.new
        if old is None or not (has_mark(old.entry.data) or (new is not None and has_mark(new.entry.data))):
            return False  # nearly every event that they drop
        if new is None:
            return bool(_words(old))  # the controller forgets the pause
        if event.type is not EventType.UPDATE or _words(old) == _words(new):
            return False
        return test_passes(msgspec.structs.replace(event, type=EventType.CREATE, old=None, own=False, resync=False))

    return Predicate(test, f"{passes.name}, or a pause changes")


def _words(view: ObjectView[Any] | None) -> tuple[str, ...]:
    """Return the annotations of a pause and their values."""
    if view is None or not has_mark(view.entry.data):
        return ()
    annotations = view.metadata.annotations
    return tuple(f"{name}={annotations[name]}" for name in _ANNOTATIONS if name in annotations)
