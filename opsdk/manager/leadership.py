"""The leadership of a manager: its election, and the fence of what needs leadership."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from opsdk.aio.clock import monotonic
from opsdk.aio.fence import Fence
from opsdk.aio.waiting import wait_ended
from opsdk.errors import LeaderElectionLostError
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

# Seconds for a cancelled election to end, and for the release of its lease.
ELECTION_GRACE = 5.0
_RELEASE_SECONDS = 5.0
# Seconds for which the caches of a new leader may be old: a watch that stands still is noticed before.
_NEW_SECONDS = 300.0


class Election(Protocol):
    """Leader election as the manager uses it; see `opsdk.manager.leader_election.leader_elector.LeaderElector`.

    An election that is also a `Fence` ends writes by its own clock. Otherwise they end when the manager stops leading.
    """

    async def run(self) -> None:
        """Take part in the election. Raises `LeaderElectionLostError` when leadership is lost."""
        ...

    async def wait_elected(self) -> None:
        """Return when elected."""
        ...

    async def release(self) -> None:
        """Release the lease."""
        ...


class ManagerLeadership:
    """Whether a manager leads. A `Fence` for the writes of everything that needs leadership.

    Args:
        election: None if every replica leads.

    Attributes:
        election: see above.
        began_at: the time at which leadership began the last time.
    """

    def __init__(self, election: Election | None) -> None:
        self.election = election
        fence: object = election
        self._election_fence = fence if isinstance(fence, Fence) else None
        self._leads = asyncio.Event()
        self.began_at = 0.0

    @property
    def is_leading(self) -> bool:
        """Whether leadership has begun, has not ended, and the election agrees."""
        try:
            self.check("")
        except LeaderElectionLostError:
            return False
        return True

    @property
    def has_begun(self) -> bool:
        """Whether leadership has begun and has not ended, whatever the election says."""
        return self._leads.is_set()

    @property
    def is_term_new(self) -> bool:
        """See `opsdk.aio.fence.TermFence`."""
        return self.election is not None and monotonic() - self.began_at < _NEW_SECONDS

    def as_json(self) -> dict[str, object]:
        """Return the state of the leadership, with a JSON form. Durations are in seconds."""
        describe = getattr(self.election, "as_json", None)
        return {
            "election": self.election is not None,
            "leading": self.is_leading,
            "leading_seconds": monotonic() - self.began_at if self.has_begun else None,
            "lease": describe() if describe is not None else None,
        }

    def check(self, action: str) -> None:
        if self._election_fence is not None:
            self._election_fence.check(action)
        if not self._leads.is_set():
            raise LeaderElectionLostError(f"{action} was not sent: this replica is not the leader")

    def begin(self) -> None:
        """Lead from now on."""
        self.began_at = monotonic()
        self._leads.set()

    def end(self) -> None:
        """Refuse all further writes, also those of runnables that ignore their cancellation."""
        self._leads.clear()

    async def wait_begun(self) -> None:
        """Return when leadership has begun."""
        await self._leads.wait()

    async def run(self, on_elected: Callable[[], None]) -> BaseException:
        """Take part in the election until it ends. ManagerLeadership is over then. Returns the reason.

        Args:
            on_elected: called when this replica is elected.
        """
        election = self.election
        assert election is not None
        loop = asyncio.get_running_loop()
        running = loop.create_task(election.run(), name="elector")
        elected = loop.create_task(election.wait_elected(), name="wait elected")
        try:
            await asyncio.wait((running, elected), return_when=asyncio.FIRST_COMPLETED)
            # An election that has already ended must not start the LEADER group.
            if not running.done() and not elected.cancelled() and elected.exception() is None:
                on_elected()
                await asyncio.wait((running,))
            self.end()
            errors = (task.exception() for task in (running, elected) if task.done() and not task.cancelled())
            failure = next((error for error in errors if error is not None), None)
            return failure or LeaderElectionLostError("the leader election ended unexpectedly")
        finally:
            for task in (running, elected):
                task.cancel()
            await wait_ended((running, elected), ELECTION_GRACE)

    async def release(self) -> None:
        """Release the lease, so that another replica need not wait until it expires. A failure is logged."""
        if self.election is None:
            return
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                await self.election.release()
        except Exception:
            # The lease expires anyway, so the exit must not depend on its release.
            log.exception("cannot release the lease, it will expire")

    def __repr__(self) -> str:
        return f"<ManagerLeadership {'leading' if self._leads.is_set() else 'closed'}>"
