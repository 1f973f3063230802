"""The writes of a run, added up while it lasts: the net change of each object, fields that change in turns. Pure.

A run of ten thousand objects has a hundred thousand writes. Only the first and the last state of each object are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from opsdk.engine.net_changes import NetChange, is_ignored
from opsdk.engine.recording import RunPhase, WriteSource
from opsdk.engine.writes import Entry

__all__ = ["WriteLedger", "WriteTurns"]

_MAX_TURNS: Final = 1_000
"""Turns of one field that are counted."""


class WriteTurns(msgspec.Struct):
    """How often the writer of a field changed.

    Attributes:
        key: of the object in the storage.
        path: of the field.
        writers: that changed it, in the order of their first writes.
        last: that changed it last.
        count: of turns.
    """

    key: str
    path: str
    writers: list[str]
    last: str
    count: int = 1


class WriteLedger:
    """Adds up the writes of a run.

    Args:
        controllers: the users of the server and of the built-in controllers.
        others: the users who make the changes of a history.
    """

    def __init__(self, controllers: frozenset[str], others: frozenset[str] = frozenset()) -> None:
        self._controllers, self._others = controllers, others
        self._changes: dict[str, NetChange] = {}
        self._turns: dict[tuple[str, str], WriteTurns] = {}
        self.count = 0
        """Number of writes."""

    def add(self, entry: Entry, phase: RunPhase) -> tuple[str, ...]:
        """Add a write, in the order of the revisions. Returns the fields that it changed, if the object has own writes.

        The Pods of a mass restart have none: comparing their states would take a tenth of the time of a plan.
        """
        if is_ignored(entry):
            return ()
        self.count += 1
        is_foreign = entry.writer.user in self._others
        own = not is_foreign and entry.writer.user not in self._controllers
        if entry.after is None and (change := self._changes.get(entry.key)) is not None and change.before is None:
            # It came and went within the run.
            del self._changes[entry.key]
            return ()
        change = self._changes.get(entry.key)
        if change is None:
            change = self._changes[entry.key] = NetChange(
                key=entry.key, before=entry.before, after=entry.after, phase=phase
            )
        if is_foreign:
            change.add_of_others(entry)
            return ()
        paths = entry.changed_paths if own or change.own else ()
        change.add(entry, paths, own=own)
        writer = entry.writer.program
        for path in paths:
            turns = self._turns.get(key := (entry.key, path))
            if turns is None:
                self._turns[key] = WriteTurns(entry.key, path, [writer], writer)
            elif turns.last != writer and turns.count < _MAX_TURNS:
                turns.last = writer
                turns.count += 1
                if writer not in turns.writers:
                    turns.writers.append(writer)
        return paths

    def changes(self, source_of: Callable[[NetChange], WriteSource | None]) -> Mapping[str, NetChange]:
        """Return the net changes by key, in the order of the first writes, each with its source.

        What was created and deleted again within the run is not a change.
        """
        for change in self._changes.values():
            change.source = source_of(change)
        return dict(self._changes)

    def turns(self, at_least: int) -> Sequence[WriteTurns]:
        """Return the fields that several writers changed in turns, at least this often."""
        return [turns for turns in self._turns.values() if turns.count >= at_least and len(turns.writers) > 1]
