"""What came of one run in a world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from opsdk.controller.journal import ReconcileRecord
from opsdk.engine.world.disturber import WatchMessage
from opsdk.engine.world.exchange import Exchange
from opsdk.engine.world.faults import Step
from opsdk.engine.world.rest_state import RestState
from opsdk.engine.world.senders import Sender

__all__ = ["Outcome"]

_JOURNAL_RECORDS = 8
"""Reconciles that a report of violations has."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one run.

    Attributes:
        seed: of the run.
        steps: what happened at which time; empty if the actions waited for a rest each.
        violations: the broken invariants, each with its name before a colon.
        exchanges: every request of the replicas, in the order in which they were sent.
        notes: of the workload, one for each action and foreign change.
        writes: the requests among the exchanges that change objects, in the order in which they left their replicas.
        senders: the code that sent each write, by its number from 1; empty if the run did not look for it.
        messages: of the watches.
        states: at rest, by the number of actions before; none where the view of the operator was stale.
        user_writes: method and path of each write of the actions.
        happened: whether the disturbance was reached.
        records: the operator's reconciles.
        reconciles: number of reconciles that ended.
        seconds: of virtual time.
        restless: method and path of writes that went on when the operator should have come to rest.
        entries: of the containers of the doubles, at the end.
        draws_random: whether anything drew from Python's global random numbers.
        connections: targets outside of the world that were refused. Each is the only sort of violation of such a run,
            and it has no states: what an operator does after a refusal is no evidence.
    """

    seed: int = 0
    steps: tuple[Step, ...] = ()
    violations: tuple[str, ...] = ()
    exchanges: Sequence[Exchange] = ()
    notes: Sequence[str] = ()
    writes: Sequence[Exchange] = ()
    senders: Mapping[int, Sender] = {}
    messages: Sequence[WatchMessage] = ()
    states: Mapping[int, RestState] = {}
    user_writes: Sequence[str] = ()
    happened: bool = False
    records: Sequence[ReconcileRecord] = ()
    reconciles: int = 0
    seconds: float = 0.0
    restless: Sequence[str] = ()
    entries: Mapping[str, int] = {}
    draws_random: bool = False
    connections: Sequence[str] = ()

    def __repr__(self) -> str:
        return f"<Outcome of seed {self.seed}: {self.violations or 'no violation'}>"

    @property
    def broken(self) -> frozenset[str]:
        """The names of the broken invariants."""
        return frozenset(violation.partition(":")[0] for violation in self.violations)

    @property
    def transcript(self) -> bytes:
        """Every request, then every action, one per line: the same for the same seed and plan."""
        return "\n".join([*map(str, self.exchanges), *self.notes, ""]).encode()

    @property
    def journal(self) -> str:
        """The operator's journal of the objects that the violations name: causes, reads, writes, results."""
        return self.journal_of(self.violations)

    def journal_of(self, violations: Sequence[str]) -> str:
        """Return the last reconciles of the objects that violations name, or of all if they name none."""
        words = "".join(char if char.isalnum() or char in "-." else " " for char in "\n".join(violations)).split()
        names = {word.strip(".") for word in words}
        matching = [record for record in self.records if record.name in names]
        return "\n".join(str(record) for record in (matching or self.records)[-_JOURNAL_RECORDS:])
