"""Tells the events of a reconcile's own status writes and finalizers from all others. Pure but for the step.

A write that named the resource version before it is known by two versions: the one it named, and the one it got. The
event with exactly these two shows no other change. The watch may be faster than the response to the write, so
events of an object that arrive while it is reconciled wait for the end of the reconcile, as its request would.

Upstream: none; operators filter with GenerationChangedPredicate, which drops changes of other writers too.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.controller.outcome import ReconcileAttempt, Requeue
from opsdk.controller.steps.step import Proceed, ReconcilePass
from opsdk.event.event import AnyEvent, EventType, cause_of

# Events of one object that wait for the end of its reconcile. With more, one of them is certainly foreign.
_MAX_HELD = 16
# Objects whose own writes the watch has not shown yet; a write that is dropped costs one reconcile.
_MAX_PENDING = 10_000

# Python 3.11 searches the metaclass for each member of an enum that is named: not for each object.
_UPDATE, _DELETE = EventType.UPDATE, EventType.DELETE

Versions = tuple[str, str]
"""The resource versions before and after a write."""


class OwnChanges:
    """The writes of one controller that the watch has not shown yet.

    >>> own = OwnChanges()
    >>> own.begin(("default", "site"))
    >>> own.end(("default", "site"), [("7", "8")])
    []
    >>> own
    <OwnChanges: 0 running, 1 pending>
    """

    def __init__(self) -> None:
        self._held: dict[Hashable, list[AnyEvent]] = {}
        self._pending: dict[Hashable, frozenset[Versions]] = {}

    def begin(self, key: Hashable) -> None:
        """A reconcile of an object begins."""
        if key not in self._held:
            self._held[key] = []

    def end(self, key: Hashable, writes: Collection[Versions]) -> list[AnyEvent]:
        """A reconcile of an object ends.

        Args:
            key: namespace and name.
            writes: its writes of the object's status and finalizers.

        Returns the events that arrived during the reconcile and show another change: queue them.
        """
        held = self._held.pop(key, ())
        if not held and not writes:
            return []
        if not held and key not in self._pending:
            self._remember(key, frozenset(writes))
            return []
        pending = self._pending.pop(key, frozenset()).union(writes)
        if remaining := pending.difference(map(versions_of, held)):
            # A list after a gap of the watch shows fewer states than there were: those of the past are never shown.
            self._remember(key, remaining if len(remaining) <= _MAX_HELD else frozenset(writes))
        return [event for event in held if versions_of(event) not in pending]

    def _remember(self, key: Hashable, writes: frozenset[Versions]) -> None:
        self._pending[key] = writes
        if len(self._pending) > _MAX_PENDING:
            del self._pending[next(iter(self._pending))]

    def passes(self, event: AnyEvent) -> bool:
        """Return False for the event of an own write, and for one that waits for the end of the reconcile."""
        if not self._held and not self._pending:
            return True
        key = event.view.entry.key
        if event.type is not _UPDATE or event.resync:
            if event.type is _DELETE:
                self._pending.pop(key, None)
            return True
        if key in self._held and len(held := self._held[key]) < _MAX_HELD:
            held.append(event)
            return False
        if key not in self._pending:
            return True
        pending, versions = self._pending[key], versions_of(event)
        if versions in pending:
            self._forget(key, pending - {versions})
        return versions not in pending

    def _forget(self, key: Hashable, remaining: frozenset[Versions]) -> None:
        if remaining:
            self._pending[key] = remaining
        else:
            del self._pending[key]

    def __repr__(self) -> str:
        return f"<OwnChanges: {len(self._held)} running, {len(self._pending)} pending>"


class OwnChangesStep:
    """Keeps the events of an object until its reconcile ends, and drops those of its own writes.

    In the chain with the option ``ignore_own_status_writes``.

    Args:
        own: the writes.
        follows_writes: the causes of events have traces.
    """

    def __init__(self, own: OwnChanges, *, follows_writes: bool) -> None:
        self._own = own
        self._follows_writes = follows_writes

    async def around(self, proceed: Proceed, work: ReconcilePass) -> ReconcileAttempt:
        key = work.key
        self._own.begin(key)
        try:
            return await proceed(work)
        finally:
            if work.activity.own_changes:
                work.own_changes = _versions(work, key)
            for event in self._own.end(key, work.own_changes):
                work.requeues.append(Requeue(cause=cause_of(event, traced=self._follows_writes)))


def _versions(work: ReconcilePass, key: ObjectKey) -> list[Versions]:
    """Return the writes of a reconcile that changed its object."""
    assert work.kind is not None
    gvk = work.kind.gvk
    changes = work.activity.own_changes
    if len(changes) == 1:  # a status, once: nearly every pass that writes
        (change,) = changes
        is_own = change.key == key and change.kind == gvk.kind and change.group == gvk.group
        return [(change.before, change.after)] if is_own else []
    return [(c.before, c.after) for c in changes if (c.group, c.kind, c.key) == (gvk.group, gvk.kind, key)]


def versions_of(event: AnyEvent) -> Versions:
    """Return the resource versions before and after an update."""
    old, new = event.old, event.new
    return (
        old.entry.resource_version if old is not None else "",
        new.entry.resource_version if new is not None else "",
    )
