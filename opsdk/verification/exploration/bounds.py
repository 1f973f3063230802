"""What a run may do at a point, and how much of it one schedule takes. Pure.

A run stops at points: before a request of the operator, an answer, a message of a watch, and a reconcile. At each it
goes on, or takes an option, which costs a part of the bounds. A schedule is the options that a run takes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from opsdk.errors import UsageError

__all__ = ["DEVIATIONS", "Bounds", "Choice", "Option", "Schedule"]

_MAX_COMBINATIONS = 64


class Option(StrEnum):
    """What a run may do at a point, instead of going on."""

    CRASH = "crash"
    """The replica ends after the server has stored the write, and before the answer."""
    STALE = "stale"
    """The watch stands still from this message on, until the operator has reacted to the next action."""
    LATE = "late"
    """Everything else that is ready comes before a request, an answer or a reconcile."""
    LATE_MESSAGE = "late_message"
    """Everything else that is ready comes before the message of a watch."""
    NEXT_ACTION = "next_action"
    """The users take their next action now, and everything that follows at once comes first."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class Choice(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """An option that a run takes.

    Attributes:
        point: its number in the run, from 0.
        option: that is taken.
        text: what waits there, for readers.
    """

    point: int
    option: Option
    text: str = ""

    def __str__(self) -> str:
        return f"{self.option.value} at point {self.point}, {self.text}"


Schedule = tuple[Choice, ...]
"""The options that a run takes, by rising points."""
DEVIATIONS: Final = frozenset({Option.LATE, Option.LATE_MESSAGE, Option.NEXT_ACTION})
"""Options that change the order of what is ready."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How much of each option one schedule may take.

    Attributes:
        crashes: of the operator.
        stale_views: watches that stand still.
        deviations: from the order in which things are ready, and early actions.

    Raises:
        UsageError: a bound is negative, or there are too many combinations.
    """

    crashes: int = 1
    stale_views: int = 1
    deviations: int = 2

    def __post_init__(self) -> None:
        combinations = (self.crashes + 1) * (self.stale_views + 1) * (self.deviations + 1)
        if min(self.crashes, self.stale_views, self.deviations) < 0 or combinations > _MAX_COMBINATIONS:
            raise UsageError(f"the bounds ({self}) are too large for an exhaustive search: begin with the defaults")

    def after(self, option: Option) -> Bounds | None:
        """Return what is left after an option; None if it is not within the bounds.

        >>> Bounds(crashes=1, stale_views=0, deviations=0).after(Option.LATE) is None
        True
        """
        crashes = self.crashes - (option is Option.CRASH)
        stale_views = self.stale_views - (option is Option.STALE)
        deviations = self.deviations - (option in DEVIATIONS)
        if min(crashes, stale_views, deviations) < 0:
            return None
        return Bounds(crashes=crashes, stale_views=stale_views, deviations=deviations)

    def number_of(self, left: Bounds) -> int:
        """Return a number for what is left of these bounds."""
        return (left.crashes * (self.stale_views + 1) + left.stale_views) * (self.deviations + 1) + left.deviations

    def __str__(self) -> str:
        return f"crashes {self.crashes}, stale views {self.stale_views}, deviations {self.deviations}"
