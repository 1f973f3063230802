"""What a reconcile did with its children, and the condition that follows from it. Pure.

Upstream: none; the reasons are of this framework.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from opsdk.apimachinery.object import TypedObject, Unstructured
from opsdk.children.graph import DONE, UNREADY, ChildState
from opsdk.children.ordering import ChildIdentity, identity_of_object
from opsdk.recipes.summaries import Summary, SummaryState

# Children that a condition and a result name; their messages may be long.
_MAX_NAMED = 3
# Children of one reconcile that the journal keeps.
_MAX_RECORDS = 64


class ChildRecord(NamedTuple):
    """A child in one reconcile.

    Attributes:
        name: kind, namespace and name, such as ``StatefulSet default/db``; or the name of an external resource.
        state: the value of a `ChildState`, such as ``waiting``.
        message: what it waits for; empty for nothing.
        after: the names of the children that come before it.
    """

    name: str
    state: str
    message: str = ""
    after: tuple[str, ...] = ()

    @property
    def is_unready(self) -> bool:
        """Whether the reconcile waits for it."""
        return ChildState(self.state) in UNREADY

    def __str__(self) -> str:
        return f"{self.name}: {self.message}" if self.message else self.name


class ReadyVerdict(NamedTuple):
    """Status, reason and message of the ready condition.

    Attributes:
        ready: every child is ready.
        reason: ``Ready``, ``Waiting``, ``ChildFailed`` or ``Deleting``.
        message: the children that are not ready.
    """

    ready: bool
    reason: str
    message: str


class Progress(msgspec.Struct, eq=False):
    """The children of one reconcile, in the order in which they were applied.

    A reconcile of plain children ends without a look at them: an identity and a record cost 25 calls for each.

    Attributes:
        poll_seconds: seconds until external resources are observed again; 0 for none.
    """

    poll_seconds: float = 0.0
    # None is a child without a state: its record is made when it is read.
    _records: dict[ChildIdentity, ChildRecord | None] = {}
    # Children without a state that are not in `_records` yet.
    _applied: list[TypedObject | Unstructured] = []
    _ancestors: dict[ChildIdentity, frozenset[ChildIdentity]] = {}

    def add_applied(self, objects: Iterable[TypedObject | Unstructured]) -> None:
        """Record children that were applied, and that nothing waits for."""
        self._applied += objects

    def record(self, identity: ChildIdentity, record: ChildRecord) -> None:
        """Record the state of a child; it replaces an earlier one."""
        self._identified()[identity] = record

    def forget(self, identity: ChildIdentity) -> None:
        """Forget a child that is gone."""
        self._identified().pop(identity, None)

    def identities(self) -> list[ChildIdentity]:
        """Return the children that are recorded."""
        return list(self._identified())

    def get(self, identity: ChildIdentity) -> ChildRecord | None:
        """Return the record of a child, or None."""
        records = self._identified()
        if identity not in records:
            return None
        return records[identity] or ChildRecord(str(identity), ChildState.APPLIED.value)

    def come_before(self, identity: ChildIdentity, ancestors: Iterable[ChildIdentity]) -> frozenset[ChildIdentity]:
        """Record and return the children that come before one, directly or through others.

        Args:
            identity: the child.
            ancestors: those that are known; their own are added.
        """
        direct = frozenset(ancestors)
        every = direct.union(*(self._ancestors.get(other, frozenset()) for other in direct))
        self._ancestors[identity] = every
        return every

    def poll_after(self, seconds: float) -> None:
        """Ask for another reconcile after this time; the shortest one counts."""
        self.poll_seconds = min(self.poll_seconds or seconds, seconds)

    def unready(self) -> list[ChildRecord]:
        """Return the children that the reconcile waits for."""
        if not self._records:
            return []
        return [record for record in self._records.values() if record is not None and record.is_unready]

    def records(self) -> tuple[ChildRecord, ...]:
        """Return the children for the journal: at most 64, those that are not ready first if there are more.

        Without a child that has a state there are none: the order of plain children is that of the reconciler.
        """
        if not self._records:
            return ()
        applied = ChildState.APPLIED.value
        records = tuple(
            [record or ChildRecord(str(identity), applied) for identity, record in self._identified().items()]
        )
        if len(records) <= _MAX_RECORDS:
            return records
        return tuple(sorted(records, key=lambda record: not record.is_unready)[:_MAX_RECORDS])

    def verdict(self) -> ReadyVerdict:
        """Return the condition of the owner: ready if each child that counts is ready."""
        unready = self.unready()
        if not unready:
            ready = ChildState.READY.value
            checked = sum(record is not None and record.state == ready for record in self._records.values())
            message = f"{checked} of {checked} children are ready" if checked else "the last reconcile succeeded"
            return ReadyVerdict(True, "Ready", message)
        states = {record.state for record in unready}
        reason = "Waiting"
        if ChildState.FAILED.value in states:
            reason = "ChildFailed"
        elif ChildState.DELETING.value in states:
            reason = "Deleting"
        return ReadyVerdict(False, reason, describe(unready))

    def _identified(self) -> dict[ChildIdentity, ChildRecord | None]:
        """Return all records, with those of the applied objects."""
        for obj in self._applied:
            self._records[identity_of_object(obj)] = None
        self._applied.clear()
        return self._records


def describe(unready: Iterable[ChildRecord]) -> str:
    """Return what a reconcile waits for: the children that are applied, and the number of those that come after."""
    records = list(unready)
    pending = [record for record in records if record.state == ChildState.PENDING.value]
    shown_records = [record for record in records if record.state != ChildState.PENDING.value] or pending
    texts = [str(record) for record in shown_records[:_MAX_NAMED]]
    if len(shown_records) > _MAX_NAMED:
        texts.append(f"{len(shown_records) - _MAX_NAMED} more")
    if pending and shown_records is not pending:
        texts.append(f"{len(pending)} {'child comes' if len(pending) == 1 else 'children come'} after")
    return "; ".join(texts)


def state_of(summary: Summary) -> ChildState:
    """Return the state of a child that was applied, from the summary of its live object.

    >>> state_of(Summary(SummaryState.IN_PROGRESS))
    <ChildState.WAITING: 'waiting'>
    """
    if summary.state is SummaryState.CURRENT:
        return ChildState.READY
    return ChildState.FAILED if summary.state is SummaryState.FAILED else ChildState.WAITING


def is_done(record: ChildRecord | None) -> bool:
    """Whether children that come after it may be applied."""
    return record is not None and ChildState(record.state) in DONE
