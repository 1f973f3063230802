"""What may go wrong in a run: the port between a world and its disturbances."""

from __future__ import annotations

import msgspec

from opsdk.engine.world.exchange import Exchange
from opsdk.engine.world.faults import Fault
from opsdk.engine.writes import Entry
from opsdk.event.request import Request

__all__ = ["Disturber", "WatchMessage"]


class WatchMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a watch: one event, or a few that came at once.

    Attributes:
        path: of the watch.
        number: from 1, among the messages of that path.
        keys: namespace and name of its objects.
        action: number of the action of the workload that ran last, from 0; -1 before the first.
        standby: another replica held a Lease when this one received the message.
    """

    path: str
    number: int
    keys: tuple[str, ...]
    action: int
    standby: bool = False


class Disturber:
    """Disturbs a run, or not: this one lets everything pass. Its methods are called in the run's event loop.

    Attributes:
        max_latency: see `Link.max_latency`.
    """

    max_latency: float = 0.01

    @property
    def happened(self) -> bool:
        """Whether the run was disturbed."""
        return False

    @property
    def is_stale(self) -> bool:
        """Whether the operator's view is held back now: its state is not compared then."""
        return False

    @property
    def has_missed(self) -> bool:
        """Whether an object came and went that the operator never saw: its state is not compared then."""
        return False

    async def decide(self, exchange: Exchange, number: int) -> Fault | None:
        """Return the fault that hits a request. The number is that of the write; 0 if the request changes nothing."""
        return None

    async def hold(self, exchange: Exchange, message: WatchMessage, body: bytes) -> bool:
        """Wait until a message of a watch is delivered; False if it never is. The body is its bytes."""
        return True

    async def delay(self, exchange: Exchange) -> None:
        """Wait until the answer to a request is delivered."""

    async def begin(self, request: Request) -> None:
        """Wait until a reconcile begins."""

    def finish(self, request: Request) -> None:
        """Note the end of a reconcile."""

    def on_entry(self, entry: Entry, exchange: Exchange | None) -> None:
        """Note a stored write. The exchange is None if the operator did not send it."""

    async def on_rest(self) -> bool:
        """The operator is at rest. Return whether its view was released now: then it comes to rest once more."""
        return False

    async def end(self) -> None:
        """End all disturbances: the last action was taken."""
