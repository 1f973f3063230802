"""The fence of one shard."""

from __future__ import annotations

from opsdk.aio.clock import time_source
from opsdk.errors import LeaderElectionLostError
from opsdk.fleet.ownership_rules import OwnershipRules
from opsdk.manager.leader_election.leader_elector import LeaderElector


class ShardFence:
    """Allows the writes of one shard while this replica owns it. See `opsdk.aio.fence.Fence`."""

    def __init__(self, shard: str, elector: LeaderElector, rules: OwnershipRules) -> None:
        self._shard = shard
        self._elector = elector
        self._rules = rules
        self._now = time_source()
        self.closed = False
        """Rejects all writes, for work that continues after its cancellation while the shard is owned again."""

    def check(self, action: str) -> None:
        if self.closed:
            raise LeaderElectionLostError(f"{action} was not sent: the work for {self._shard} was cancelled")
        self._elector.check(action)
        if refusal := self._rules.refusal(self._shard, self._now()):
            raise LeaderElectionLostError(f"{action} was not sent: {refusal}")

    def __repr__(self) -> str:
        return f"<ShardFence {self._shard}>"
