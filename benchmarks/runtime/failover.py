"""Failover with real processes: kill or stop the leader again and again, and prove that never two replicas wrote.

Two operator processes with leader election write one object all the time, and go on when they are cancelled: only the
fence stops them. The proof is the server's own order: each write must come from the replica that holds the Lease at the
revision of the write. Prints how long a takeover took.

``python -m benchmarks.runtime failover [ROUNDS]``; ``python -m benchmarks.runtime.failover NAME`` is one operator.
"""

from __future__ import annotations

import asyncio
import signal
import statistics
import sys
import time
from bisect import bisect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.runtime.stage import Stage, stage
from opsdk import Cluster, ManagerOptions, ObjectMeta, Operator, OperatorOptions, load_config
from opsdk.api.coordination.v1 import Lease
from opsdk.api.core.v1 import ConfigMap
from opsdk.client.patch import merge_patch
from opsdk.errors import LeaderElectionLostError, OpsdkError

NAMESPACE, COUNTER, LEASE = "default", "counter", "failover"
# Seconds that a stopped leader stays stopped after another one has written.
_FROZEN_SECONDS = 1.0
_PATIENCE = 60.0


# ------------------------------------------------------------------ one operator
class Writer:
    """Writes the counter while this replica leads, also after its cancellation."""

    def __init__(self, operator: Operator, name: str) -> None:
        self.operator = operator
        self.name = name

    async def start(self) -> None:
        """Write until the fence refuses a write."""
        counter = ConfigMap(metadata=ObjectMeta(name=COUNTER, namespace=NAMESPACE))
        number = 0
        while True:
            number += 1
            try:
                await self.operator.client.patch(
                    counter, merge_patch({"data": {"writer": self.name, "n": str(number)}})
                )
                await asyncio.sleep(0.005)
            except asyncio.CancelledError:
                continue
            except LeaderElectionLostError:
                raise
            except OpsdkError:
                await asyncio.sleep(0.05)


def operate(name: str) -> None:
    """Run an operator; `name`, which is also HOSTNAME, begins its identity."""
    options = OperatorOptions(
        manager=ManagerOptions(shutdown_timeout=2),
        leader_election=True,
        leader_election_id=LEASE,
        leader_election_namespace=NAMESPACE,
        lease_duration=4,
        renew_deadline=3,
        retry_period=0.5,
    )
    operator = Operator("failover", options)

    @operator.setup
    def add(operator: Operator) -> None:
        operator.manager.add(Writer(operator, name))

    operator.run()


# ------------------------------------------------------------------ the server's order
@dataclass
class Journal:
    """Every write of the Lease and of the counter, in the server's order."""

    holders: list[tuple[int, str]] = field(default_factory=list)
    writes: list[tuple[int, str]] = field(default_factory=list)
    arrived: dict[str, float] = field(default_factory=dict)
    """When the first write of each replica arrived."""

    async def follow(self, client: Any, kind: type[Lease | ConfigMap], revision: str) -> None:
        """Record every change from a revision on. A revision that has expired is an error: the proof has a hole."""
        name = LEASE if kind is Lease else COUNTER
        while True:
            async with client.watch(
                kind, namespace=NAMESPACE, field_selector={"metadata.name": name}, resource_version=revision
            ) as events:
                async for event in events:
                    revision = event.object.metadata.resource_version
                    self._record(int(revision), event.object)

    def _record(self, revision: int, obj: Any) -> None:
        if isinstance(obj, Lease):
            self.holders.append((revision, (obj.spec.holder_identity or "").partition("_")[0]))
        elif writer := obj.data.get("writer", ""):
            self.writes.append((revision, writer))
            self.arrived.setdefault(writer, time.monotonic())

    def violations(self) -> list[str]:
        """Return the writes of replicas that did not hold the Lease at the revision of the write."""
        revisions = [revision for revision, _ in self.holders]
        wrong = []
        for revision, writer in self.writes:
            position = bisect(revisions, revision) - 1
            holder = self.holders[position][1] if position >= 0 else "nobody"
            if holder != writer:
                wrong.append(f"revision {revision}: written by {writer}, the lease is held by {holder}")
        return wrong


class Failover:
    """Two operator processes, and the journal."""

    def __init__(self, processes: Stage) -> None:
        self.journal = Journal()
        self.operators = processes.operators
        self.log = processes.log
        self._processes = processes
        self._count = 0

    async def add_operator(self) -> None:
        """Start another operator process."""
        self._count += 1
        await self._processes.start("benchmarks.runtime.failover", f"replica-{self._count}")

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition."""
        deadline = time.monotonic() + _PATIENCE
        while not condition():
            logs = "\n".join(f"--- {name}\n{self.log(name)}" for name in self.operators)
            assert time.monotonic() < deadline, f"waited in vain: {what}\n{logs}"
            await asyncio.sleep(0.02)

    async def leader(self) -> str:
        """Return the replica that writes, when the other one waits for the lease."""

        def settled() -> bool:
            writers = [n for n in self.operators if n in self.journal.arrived]
            return len(writers) == 1 and all(
                "waiting for the lease" in self.log(n) for n in self.operators if n not in writers
            )

        await self.until(settled, "one leader and one standby")
        return next(name for name in self.operators if name in self.journal.arrived)

    async def takeover(self, leader: str, number: signal.Signals) -> float:
        """Send a signal to the leader, and return the seconds until another one writes."""
        began = time.monotonic()
        self.operators[leader].send_signal(number)
        others = [name for name in self.operators if name != leader]
        await self.until(lambda: any(name in self.journal.arrived for name in others), "a takeover")
        return min(self.journal.arrived[name] for name in others if name in self.journal.arrived) - began

    async def kill_round(self) -> float:
        """Kill the leader, and start another replica after the takeover."""
        leader = await self.leader()
        seconds = await self.takeover(leader, signal.SIGKILL)
        await self.operators.pop(leader).wait()
        await self.add_operator()
        return seconds

    async def freeze_round(self) -> float:
        """Stop the leader until another one leads, then let it go on: it must end by itself, without a write."""
        leader = await self.leader()
        seconds = await self.takeover(leader, signal.SIGSTOP)
        await asyncio.sleep(_FROZEN_SECONDS)
        process = self.operators.pop(leader)
        process.send_signal(signal.SIGCONT)
        status = await asyncio.wait_for(process.wait(), 30)
        assert status != 0, self.log(leader)
        assert "LeaderElectionLostError" in self.log(leader)
        await self.add_operator()
        return seconds


@asynccontextmanager
async def failover() -> AsyncIterator[Failover]:
    """A server with the counter, and two operators. Everything ends with the block."""
    async with stage() as processes, Cluster(load_config(kubeconfig=processes.kubeconfig)) as cluster:
        this = Failover(processes)
        client = cluster.uncached
        counter = await client.create(ConfigMap(metadata=ObjectMeta(name=COUNTER, namespace=NAMESPACE)))
        start = counter.metadata.resource_version
        followers = [asyncio.create_task(this.journal.follow(client, kind, start)) for kind in (Lease, ConfigMap)]
        try:
            await this.add_operator()
            await this.add_operator()
            yield this
            await asyncio.sleep(1)  # the two watches need not be equally far
            assert not any(follower.done() for follower in followers), "the journal has a hole"
        finally:
            for follower in followers:
                follower.cancel()
            await asyncio.gather(*followers, return_exceptions=True)


async def run(rounds: int = 20) -> tuple[list[float], list[float]]:
    """Play the rounds, check every write, and return the takeover times after SIGKILL and after SIGSTOP."""
    async with failover() as this:
        killed = [await this.kill_round() for _ in range(rounds)]
        frozen = [await this.freeze_round() for _ in range(rounds)]
        journal = this.journal
    print(f"failover: lease 4 s, renew deadline 3 s, retry period 0.5 s; {len(journal.writes)} writes checked")
    for what, times in (("SIGKILL", killed), ("SIGSTOP", frozen)):
        median, worst = statistics.median(times), max(times)
        print(f"  takeover after {what}: median {median:.2f} s, {min(times):.2f} to {worst:.2f} s in {rounds} rounds")
    wrong = journal.violations()
    assert not wrong, "\n".join([f"{len(wrong)} writes without the lease:", *wrong[:10]])
    print("  every write came from the holder of the lease")
    return killed, frozen


if __name__ == "__main__":
    operate(sys.argv[1])
