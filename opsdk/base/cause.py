"""Causes: why a request was queued.

Upstream: none; controller-runtime forgets the event when it queues its request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["ReconcileCause", "ReconcileCauses"]

_MAX_CAUSES = 16
# With 16 causes, a reconcile has at most 128 links: the limit of a span in the SDK of OpenTelemetry.
_MAX_TRACEPARENTS = 8


class ReconcileCause(NamedTuple):
    """One reason why a request was queued.

    Attributes:
        source: what queued it: ``ConfigMap``, ``channel billing``, ``retry`` or ``requeue_after``.
        event: ``create``, ``update``, ``delete``, ``generic`` or ``resync`` for an object; else empty.
        key: namespace and name of that object.
        resource_version: version of that object after the event.
        own: the event is exactly one write of this process.
        initial: the object was part of the informer's initial list.
        detail: text for people: the delay, or the error of the previous attempt.
        events: number of events that this cause combines. `resource_version` is that of the last one.
        traceparents: the newest trace contexts of the writes that these events show, at most 8, oldest first. Each is a
            valid W3C ``traceparent``. A retry has those of the failed attempt. Empty unless a hook follows writes.
    """

    source: str
    event: str = ""
    key: str = ""
    resource_version: str = ""
    own: bool = False
    initial: bool = False
    detail: str = ""
    events: int = 1
    traceparents: tuple[str, ...] = ()

    def __str__(self) -> str:
        words = [self.source, self.event, self.key]
        if self.resource_version:
            words.append(f"at {self.resource_version}")
        if self.own:
            words.append("(own write)")
        if self.initial:
            words.append("(initial list)")
        if self.detail:
            words.append(f"({self.detail})")
        if self.events > 1:
            words.append(f"({self.events} times)")
        return " ".join(filter(None, words))


class ReconcileCauses:
    """The causes of one queued request. Equal ones are combined, and their number is bounded.

    Args:
        causes: the first ones.

    >>> causes = ReconcileCauses(ReconcileCause("Pod", "update", "default/web", "7"))
    >>> causes.add(ReconcileCause("Pod", "update", "default/web", "9"))
    >>> [str(cause) for cause in causes.all()]
    ['Pod update default/web at 9 (2 times)']
    """

    __slots__ = ("_by_identity", "_more")

    def __init__(self, *causes: ReconcileCause) -> None:
        self._by_identity: dict[tuple[str, str, str], ReconcileCause] = {}
        self._more = 0
        for cause in causes:
            self.add(cause)

    def add(self, cause: ReconcileCause) -> None:
        """Add a cause. Above 16 different causes, only their number is kept."""
        identity = (cause.source, cause.event, cause.key)
        existing = self._by_identity.get(identity)
        if existing is not None:
            # The last one is the state that the reconcile sees, so it moves to the end.
            del self._by_identity[identity]
            self._by_identity[identity] = cause._replace(
                events=existing.events + cause.events,
                own=existing.own and cause.own,
                traceparents=_newest(existing.traceparents, cause.traceparents),
            )
        elif len(self._by_identity) < _MAX_CAUSES:
            self._by_identity[identity] = cause
        else:
            self._more += cause.events

    def all(self) -> tuple[ReconcileCause, ...]:
        """Return the causes, oldest first; events beyond the bound are one cause at the end."""
        more = (ReconcileCause("other causes", events=self._more),) if self._more else ()
        return (*self._by_identity.values(), *more)


def traceparents_of(causes: Iterable[ReconcileCause]) -> tuple[str, ...]:
    """Return the newest 8 trace contexts of some causes: for the cause of a retry, which continues their reconcile."""
    newest: tuple[str, ...] = ()
    for cause in causes:
        newest = _newest(newest, cause.traceparents)
    return newest


def _newest(before: tuple[str, ...], after: tuple[str, ...]) -> tuple[str, ...]:
    if not before or before == after:  # without tracing, both are empty
        return after
    return (*[text for text in before if text not in after], *after)[-_MAX_TRACEPARENTS:]
