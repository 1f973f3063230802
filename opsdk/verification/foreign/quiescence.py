"""When an operator in another process is at rest: what its server sees of it. Pure: the caller passes the time."""

from __future__ import annotations

from opsdk.engine.world.exchange import Exchange
from opsdk.engine.world.rest import Rest

__all__ = ["Quiescence"]


class Quiescence:
    """Whether an operator has nothing under way, and has not reacted for a while.

    Args:
        quiet: seconds since the last stored write or delivered message.
        longest: seconds from the beginning, after which a run goes on in any case.

    Attributes:
        reaction: the longest time from a stored write or a delivered message to the operator's next write.

    >>> quiescence = Quiescence(quiet=2.0, longest=60.0)
    >>> quiescence.begin(0.0)
    >>> update = Exchange(time=0.5, client="operator", method="PUT", target="/api/v1/namespaces/a/configmaps/a")
    >>> quiescence.sent(update)
    >>> quiescence.is_reached(2.1), quiescence.reaction
    (False, 0.5)
    >>> quiescence.ended(update)
    >>> quiescence.is_reached(2.1)
    True
    """

    def __init__(self, *, quiet: float, longest: float) -> None:
        self._quiet = quiet
        self._rest = Rest(quiet=quiet, longest=longest)
        self._pending: dict[int, Exchange] = {}
        self.reaction = 0.0

    def begin(self, now: float) -> None:
        """Begin to wait."""
        self._rest.begin(now)

    def note(self, now: float) -> None:
        """Note a stored write, a delivered message, or a new watch."""
        self._rest.note_write(now)

    def sent(self, exchange: Exchange) -> None:
        """Note a request of the operator."""
        if not exchange.is_watch:
            self._pending[id(exchange)] = exchange
        if exchange.changes_state:
            self.reaction = max(self.reaction, exchange.time - self._rest.last_write)

    def ended(self, exchange: Exchange) -> None:
        """Note the end of a request."""
        self._pending.pop(id(exchange), None)

    def is_reached(self, now: float) -> bool:
        """Whether the operator is at rest. A request that outlasts the quiet time, as a log does, is no work."""
        is_busy = any(now - each.time < self._quiet for each in self._pending.values())
        return not is_busy and self._rest.is_reached(now)

    def is_overdue(self, now: float) -> bool:
        """Whether the longest time is over."""
        return self._rest.is_overdue(now)
