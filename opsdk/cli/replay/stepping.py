"""Steps through a recording with commands."""

from __future__ import annotations

import cmd
from collections.abc import Callable, Sequence

from opsdk.builder.operator import Operator
from opsdk.cli.replay.inputs import find_object
from opsdk.cli.replay.raised_errors import RaisedErrors
from opsdk.cli.replay.shown_object import as_text
from opsdk.engine.replay.report import causes_backwards, outcome_lines, place_line, reconcile_line
from opsdk.engine.replay.run import OperatorReplay, PlaceKind, ReplayPlace
from opsdk.engine.replay.timeline import Timeline
from opsdk.errors import UsageError
from opsdk.recording.records import Record

__all__ = ["Stepping"]

_LISTED = 10


class Stepping(cmd.Cmd):
    """Commands that move to a place of a recording, and show it. A step back runs from the beginning again.

    Args:
        records: of the recording.
        factory: creates the operator.
        target: the first place.
    """

    intro = "Type help or ? to list the commands."
    prompt = "(replay) "

    def __init__(self, records: Sequence[Record], factory: Callable[[], Operator], target: ReplayPlace) -> None:
        super().__init__()
        self._records, self._factory, self._first = records, factory, target
        self._errors = RaisedErrors()
        self._replay: OperatorReplay | None = None
        self._number = 0
        """Of the reconcile that is shown. Others may have ended in the same iteration."""

    def cmdloop(self, intro: str | None = None) -> None:
        """Read commands until the recording is left."""
        with self._errors:
            super().cmdloop(intro)

    def preloop(self) -> None:
        """Go to the first place."""
        at_end = self._first.kind is PlaceKind.END
        self._go(ReplayPlace(PlaceKind.RECONCILE, 1) if at_end else self._first)

    def postloop(self) -> None:
        """Leave the recording."""
        self._close()

    def do_next(self, arg: str) -> None:
        """Next [N]: run until the next reconcile has ended."""
        self._go(ReplayPlace(PlaceKind.RECONCILE, self._number + _number(arg, 1)))

    def do_back(self, arg: str) -> None:
        """Back [N]: go back to the reconcile before."""
        number = max(self._number - _number(arg, 1), 1)
        self._close()
        self._go(ReplayPlace(PlaceKind.RECONCILE, number))

    def do_write(self, arg: str) -> None:
        """Write [N]: run until the next write is sent."""
        self._go(ReplayPlace(PlaceKind.WRITE, len(self._now.writes) + _number(arg, 1)))

    def do_end(self, _: str) -> None:
        """end: run to the end of the recording."""
        self._go(ReplayPlace())

    def do_time(self, arg: str) -> None:
        """Time SECONDS: run so many seconds."""
        try:
            seconds = float(arg)
        except ValueError:
            print("write: time SECONDS")
            return
        self._go(ReplayPlace(PlaceKind.TIME, self._now.outcome.seconds + seconds))

    def do_list(self, _: str) -> None:
        """list: print the last reconciles."""
        first = max(self._number - _LISTED, 0)
        records = self._now.reconciles[first : self._number]
        print(*(reconcile_line(number, record) for number, record in enumerate(records, first + 1)), sep="\n")

    def do_causes(self, _: str) -> None:
        """causes: print why the reconcile ran: its causes, the writes behind them, and so on."""
        records = self._now.reconciles[: self._number]
        print(*causes_backwards(records, records[-1]) if records else ("no reconcile has ended",), sep="\n")

    def do_show(self, arg: str) -> None:
        """Show KIND/NAMESPACE/NAME: print an object as the operator sees it."""
        try:
            print(as_text(find_object(self._now.objects(), arg)), end="")
        except UsageError as error:
            print(error)

    def do_summary(self, _: str) -> None:
        """summary: print how far the replay is identical, and how the reconciles ended."""
        print(*outcome_lines(self._now.outcome, self._now.reconciles), sep="\n")

    def do_quit(self, _: str) -> bool:
        """quit: leave the recording."""
        return True

    def do_EOF(self, _: str) -> bool:  # noqa: N802 - the name that `cmd` calls
        """End of the input: leave the recording."""
        print()
        return True

    @property
    def _now(self) -> OperatorReplay:
        if self._replay is None:
            self._replay = OperatorReplay(Timeline(self._records), self._factory)
            self._replay.__enter__()
        return self._replay

    def _close(self) -> None:
        if self._replay is not None:
            self._replay.__exit__(None, None, None)
            self._replay = None

    def _go(self, target: ReplayPlace) -> None:
        replay = self._now
        outcome = replay.run(target)
        counts = {"reconciles": len(replay.reconciles), "writes": len(replay.writes)}
        print(place_line(replay.timeline, outcome, target, **counts))
        self._number = len(replay.reconciles)
        if target.kind is PlaceKind.RECONCILE:
            self._number = min(self._number, int(target.number))
        if target.kind is PlaceKind.WRITE and replay.writes:
            print(replay.writes[-1])
        elif self._number:
            record = replay.reconciles[self._number - 1]
            print(f"reconcile #{self._number}", record, *self._errors.lines_of(record.reconcile_id), sep="\n")


def _number(text: str, default: int) -> int:
    return int(text) if text.isdigit() else default
