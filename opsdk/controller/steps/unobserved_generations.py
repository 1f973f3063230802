"""Measures the time from a change of an object's spec until the change was handled, and keeps the rejected objects.

Pure but for the step.

A generation counts changes of the spec. A change begins when an event shows a new generation. It ends when the watch
shows ``status.observedGeneration``, or when a reconcile that began after the change has succeeded, whichever comes
first. So an operator without that field is measured too, and one that writes it before a child fails.

A terminal error handles a change too: the operator has answered the user. But nothing retries the object until its
next event, so it is counted as rejected until a reconcile ends otherwise.

Upstream: none; ``status.observedGeneration`` is described in the API conventions of sig-architecture.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.cache.entry import StoreEntry
from opsdk.controller.outcome import ReconcileAttempt
from opsdk.controller.pausing import HeldBack
from opsdk.controller.steps.step import Proceed, ReconcilePass
from opsdk.event.event import AnyEvent


class _Status(msgspec.Struct, rename="camel"):
    observed_generation: int = 0


class _Observed(msgspec.Struct):
    status: _Status | None = None


_DECODER = msgspec.json.Decoder(_Observed)


class WaitingChange(msgspec.Struct):
    """The changes of one object that were not handled yet: generation and time of the oldest and the newest."""

    oldest: int
    oldest_seen_at: float
    newest: int
    newest_seen_at: float


class UnobservedGenerations:
    """The changes of the reconciled kind that one controller has not handled yet: one entry for each live object.

    Args:
        now: the clock, in seconds.
        declares: whether the status of the kind has ``observed_generation``. Then objects of the initial list count if
            their status is older than their spec; else their changes of the past are unknown.

    Attributes:
        changes: by object; for a look-up before each reconcile that costs next to nothing.
        rejected: the objects whose last reconcile failed, and is not retried.
        receivers: called with the seconds of each change that was handled.
    """

    def __init__(self, now: Callable[[], float], *, declares: bool = False) -> None:
        self._now, self._declares = now, declares
        self.changes: dict[ObjectKey, WaitingChange] = {}
        self.rejected: set[ObjectKey] = set()
        self.receivers: list[Callable[[float], None]] = []

    # -------------------------------------------------------------- events, as predicates that drop none
    def passes(self, event: AnyEvent) -> bool:
        """Note the new generation that an event shows. For the end of the predicates: dropped changes do not count."""
        old, new = event.old, event.new
        if new is None or (old is not None and old.entry.generation == new.entry.generation):
            return self.follow(event) if self.changes or self.rejected else True
        entry = new.entry
        if entry.deleting:
            self.changes.pop(entry.key, None)
        elif entry.generation and (not event.initial or self._is_behind(entry)):
            now = self._now()
            if (change := self.changes.get(entry.key)) is None:
                self.changes[entry.key] = WaitingChange(entry.generation, now, entry.generation, now)
            elif entry.generation > change.newest:
                change.newest, change.newest_seen_at = entry.generation, now
        return True

    def follow(self, event: AnyEvent) -> bool:
        """Note the end of an object, or an observed generation. For the start of predicates that drop such events."""
        if event.new is None:
            self.changes.pop(event.view.key, None)
            self.rejected.discard(event.view.key)
        elif event.new.key in self.changes:
            self.handled(event.new.key, observed_generation(event.new.entry))
        return True

    def _is_behind(self, entry: StoreEntry) -> bool:
        return self._declares and observed_generation(entry) < entry.generation

    # -------------------------------------------------------------- reconciles
    async def around(self, proceed: Proceed, work: ReconcilePass) -> ReconcileAttempt:
        """End the change of an object that was there when its reconcile began."""
        change = self.changes.get(work.key)
        generation = change.newest if change is not None else 0
        attempt = await proceed(work)
        if generation:
            self.end(work.key, generation, attempt)
        if attempt.terminal or (work.end is not None and work.end.gave_up):
            self.rejected.add(work.key)
        elif self.rejected:
            self.rejected.discard(work.key)
        return attempt

    def end(self, key: ObjectKey, generation: int, attempt: ReconcileAttempt) -> None:
        """End the change that a reconcile began with. A terminal error answers the spec too."""
        if isinstance(attempt.result, HeldBack):
            self.hold_back(key)
        elif attempt.error is None or attempt.terminal:
            self.handled(key, generation)

    def handled(self, key: ObjectKey, generation: int) -> None:
        """End the changes up to a generation: the status shows it, or a reconcile that began with it has succeeded."""
        change = self.changes.get(key)
        if change is None or generation < change.oldest:
            return
        seconds = self._now() - change.oldest_seen_at
        if generation >= change.newest:
            del self.changes[key]
        else:
            change.oldest, change.oldest_seen_at = change.newest, change.newest_seen_at
        for receive in self.receivers:
            receive(seconds)

    def hold_back(self, key: ObjectKey) -> None:
        """Forget the changes of an object that a pause holds back: the wait is the user's."""
        self.changes.pop(key, None)

    # -------------------------------------------------------------- for a scrape
    def oldest_seconds(self) -> float:
        """Return the seconds since the oldest change that was not handled; 0 for none."""
        oldest = min((change.oldest_seen_at for change in self.changes.values()), default=None)
        return 0.0 if oldest is None else max(self._now() - oldest, 0.0)

    def rejected_objects(self) -> int:
        """Return the number of rejected objects without a change that waits: `oldest_seconds` counts that."""
        return len(self.rejected.difference(self.changes))

    def __len__(self) -> int:
        """Return the number of objects with a change that was not handled."""
        return len(self.changes)

    def __repr__(self) -> str:
        return f"<UnobservedGenerations: {len(self)} objects>"


def observed_generation(entry: StoreEntry) -> int:
    """Return ``status.observedGeneration`` of a stored object; 0 without one, and for one that is no integer."""
    try:
        status = _DECODER.decode(entry.data).status
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return 0
    return status.observed_generation if status is not None else 0
