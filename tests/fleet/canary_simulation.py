"""Operators of two versions on one server in virtual time, with crashes, lost leases and changes of the choice.

Replicas are killed, stopped, frozen, and cut off from the server; leases of namespaces are deleted.

The judge reads what the server stored. Each write must come from the holder of the namespace's lease. Between writes of
two versions there must be a hand-over. A namespace is without a live holder for at most the lease and a hand-over.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import msgspec

from envtest.environment import Environment
from opsdk import Cluster, Context, MergeFrom, ObjectMeta, Operator, OperatorOptions
from opsdk.api.coordination.v1 import Lease
from opsdk.api.core.v1 import ConfigMap, Namespace
from opsdk.apiserver.storage.ports import StorageChange
from opsdk.errors import ApiError
from opsdk.fleet.canary_change import CanaryLease
from opsdk.fleet.canary_rules import Canary, CanaryPhase, encode_canary
from opsdk.fleet.fleet import Fleet, FleetOptions
from opsdk.fleet.managed_cluster import ProbeOptions
from opsdk.fleet.shard_lease import SHARD_ANNOTATION, VERSION_LABEL, LeaseRole, lease_name
from opsdk.fleet.sharding import NamespaceShards
from opsdk.manager.options import ManagerOptions
from tests.fleet.fleet_simulation import FreezableLoop, SimulatedProcess, now

OLD, NEW = "1", "2"
_OPTIONS = OperatorOptions(
    manager=ManagerOptions(health_probe_bind_address="0", metrics_bind_address="0"), journal_size=0
)
_FLEET = FleetOptions(namespace="default", probe=ProbeOptions(interval=20.0))
# Seconds beyond the lease: periods until the last renewal and its end are read, those that the placed member has, and
# requests.
_HAND_OVER = 5 * _FLEET.retry_period + 1.0
# Seconds between two faults, so that one is over before the next one.
_CALM = _FLEET.lease_duration * 2 + _FLEET.drain_timeout


class VersionedReplica(SimulatedProcess):
    """One process with one operator of a version."""

    def __init__(self, world: CanaryWorld, number: int, version: str) -> None:
        super().__init__(f"r{number}", world.rng)
        self.version = version
        operator = self.operator = Operator("fleet", _OPTIONS)
        options = msgspec.structs.replace(_FLEET, version=version)
        self.fleet = Fleet(operator, NamespaceShards(label_selector="team"), options)

        @self.fleet.reconciler(ConfigMap)
        async def handle(config_map: ConfigMap, ctx: Context) -> None:
            if "want" not in config_map.data or config_map.data.get("got") == config_map.data["want"]:
                return
            await asyncio.sleep(world.rng.choice([0.1, 1, 5]))
            config_map.data["got"] = config_map.data["want"]
            config_map.metadata.annotations |= {"by": self.fleet.runner.ownership.identity, "version": version}
            await ctx.client.patch(config_map, MergeFrom())

        self.launch(operator, self.config("", world.env))


class CanaryWorld:
    """The server, the operators of both versions, and what the server stored."""

    def __init__(self, seed: int, *, namespaces: int = 4) -> None:
        self.rng = random.Random(seed)
        self.names = [f"n{number}" for number in range(namespaces)]
        self.env = Environment()
        self.admin = Cluster(self.env.config)
        self.replicas: list[VersionedReplica] = []
        self.problems: list[str] = []
        self.holders: dict[str, str] = {}
        self.hand_overs: dict[str, int] = dict.fromkeys(self.names, 0)
        self.writes = 0
        self.longest_gap = 0.0
        self.canary = Canary(version=NEW, base=OLD, shards=())
        self._versions: dict[str, str] = {}
        """The version of each member that the server has ever had."""
        self._lost_at: dict[str, float] = {}
        """Since when a namespace has no live holder."""
        self._last: dict[str, tuple[str, int]] = {}
        """The version that wrote an object last, and the number of the hand-over before."""
        self._ended: list[asyncio.Task[None]] = []
        self._count = 0

    # -------------------------------------------------------------- what the server stored
    def on_lease(self, change: StorageChange) -> None:
        """Follow who holds each namespace, and for how long none did."""
        lease: dict[str, Any] = change.value or {}
        metadata, holder = lease["metadata"], lease.get("spec", {}).get("holderIdentity", "")
        shard = metadata.get("annotations", {}).get(SHARD_ANNOTATION)
        if not shard:
            if holder:
                self._versions[holder] = metadata.get("labels", {}).get(VERSION_LABEL, "")
            return
        before = self.holders.get(shard, "")
        self.holders[shard] = holder
        if holder == before:
            return
        self.hand_overs[shard] += 1
        if not holder:
            self._lost_at.setdefault(shard, now())
        elif shard in self._lost_at:
            gap = now() - self._lost_at.pop(shard)
            self.longest_gap = max(self.longest_gap, gap)
            if gap > _FLEET.lease_duration + _HAND_OVER:
                self.problems.append(f"{now():.3f}: {shard} had no owner for {gap:.1f} s")

    def on_config_map(self, change: StorageChange) -> None:
        """Check that the holder wrote, and that a hand-over was between writes of two versions."""
        obj: dict[str, Any] = change.value or {}
        data, before = obj.get("data", {}), change.previous or {}
        if data.get("got") is None or data.get("got") == before.get("data", {}).get("got"):
            return
        self.writes += 1
        shard, annotations = obj["metadata"]["namespace"], obj["metadata"]["annotations"]
        writer, version = annotations["by"], annotations["version"]
        if self.holders.get(shard) != writer:
            self.problems.append(f"{now():.3f}: {writer} wrote to {shard}, which {self.holders.get(shard)} holds")
        if self._versions.get(writer) != version:
            self.problems.append(f"{now():.3f}: {writer} has the version {self._versions.get(writer)}, not {version}")
        key = f"{shard}/{obj['metadata']['name']}"
        last, hand_over = self._last.get(key, (version, -1))
        self._last[key] = version, self.hand_overs[shard]
        if last != version and hand_over == self.hand_overs[shard]:
            self.problems.append(f"{now():.3f}: versions {last} and {version} wrote {key} without a hand-over")

    # -------------------------------------------------------------- users and faults
    async def change_something(self) -> None:
        """Change a ConfigMap of a namespace."""
        key = f"{self.rng.choice(self.names)}/x{self.rng.randrange(2)}"
        self._count += 1
        obj = await self.admin.uncached.get(ConfigMap, key)
        obj.data["want"] = str(self._count)
        with suppress(ApiError):
            await self.admin.uncached.update(obj)

    async def choose(self, **changes: Any) -> None:
        """Change the choice as the command does."""
        self.canary = msgspec.structs.replace(self.canary, **changes)
        await CanaryLease(self.admin.uncached, "fleet", "default").write(self.canary)

    async def fault(self) -> None:
        """Crash, stop, freeze or cut off a replica, delete a lease, or change the choice."""
        draw = self.rng.random()
        if draw < 0.3:
            await self.end(self.rng.choice(self.replicas), kill=True)
        elif draw < 0.4:
            # All pods of a version crash.
            version = self.rng.choice([OLD, NEW])
            for replica in [replica for replica in self.replicas if replica.version == version]:
                await self.end(replica, kill=True)
        elif draw < 0.5:
            await self.end(self.rng.choice(self.replicas), kill=False)
        elif draw < 0.55:
            # It loses its lease if this is long.
            await self.rng.choice(self.replicas).cut(self.rng.uniform(1, _CALM - 10))
        elif draw < 0.6:
            self.rng.choice(self.replicas).freeze(self.rng.uniform(1, _CALM - 10))
        elif draw < 0.7:
            name = lease_name("fleet", LeaseRole.SHARD, self.rng.choice(self.names))
            await self.admin.uncached.delete(Lease, name, namespace="default", missing_ok=True)
        else:
            await self.choose(
                shards=tuple(self.rng.sample(self.names, self.rng.randrange(len(self.names) + 1))),
                phase=self.rng.choice(list(CanaryPhase)),
            )

    async def end(self, replica: VersionedReplica, *, kill: bool) -> None:
        """End a replica, and start another one of its version some seconds later."""
        self.replicas.remove(replica)
        if kill:
            identity = replica.fleet.runner.ownership.identity
            for name, holder in self.holders.items():
                if holder == identity:
                    self._lost_at.setdefault(name, now())
            await replica.kill()
        else:
            replica.task.cancel()
        self._ended.append(replica.task)
        asyncio.get_running_loop().call_later(self.rng.uniform(0, _CALM - 10), self.start_replica, replica.version)

    def start_replica(self, version: str) -> None:
        """Start one more replica of a version."""
        self._count += 1
        self.replicas.append(VersionedReplica(self, self._count, version))

    # -------------------------------------------------------------- runs
    async def start(self, *, old: int = 2, new: int = 2) -> None:
        """Start the server and the operators."""
        await self.env.start()
        self.env.plane.storage.subscribe(self.on_lease, "coordination.k8s.io/leases/")
        self.env.plane.storage.subscribe(self.on_config_map, "core/configmaps/")
        client = self.admin.uncached
        for name in self.names:
            await client.create(Namespace(metadata=ObjectMeta(name=name, labels={"team": "yes"})))
            for number in range(2):
                await client.create(ConfigMap(metadata=ObjectMeta(name=f"x{number}", namespace=name)))
        for version, count in ((OLD, old), (NEW, new)):
            for _ in range(count):
                self.start_replica(version)

    async def run(self, seconds: float) -> None:
        """Play `seconds` of changes and faults, and judge."""
        await self.start()
        await self.choose(shards=tuple(self.names[:1]))
        await asyncio.sleep(30)
        next_fault, faults_end = now(), now() + seconds
        while now() < faults_end:
            await self.change_something()
            if now() >= next_fault:
                await self.fault()
                next_fault = now() + _CALM + self.rng.uniform(0, 20)
            await asyncio.sleep(self.rng.uniform(0, 2))
        await self.choose(shards=tuple(self.names[:1]), phase=CanaryPhase.RUNNING)
        await asyncio.sleep(90)
        await self.judge()
        await self.stop()

    async def judge(self) -> None:
        """Check that each namespace belongs to its version, and that every change was handled."""
        owned = {version: self.owned(version) for version in (OLD, NEW)}
        if owned != {OLD: self.names[1:], NEW: self.names[:1]}:
            self.problems.append(f"at the end, the versions own {owned} with {encode_canary(self.canary)}")
        for obj in (await self.admin.uncached.list(ConfigMap)).items:
            if obj.data.get("want") != obj.data.get("got"):
                self.problems.append(f"a change of {obj.metadata.namespace}/{obj.metadata.name} was not handled")

    def owned(self, version: str) -> list[str]:
        """Return the namespaces that the replicas of a version own."""
        return sorted(name for replica in self.replicas if replica.version == version for name in replica.fleet.owned)

    async def stop(self) -> None:
        """Stop the operators and the server."""
        for replica in self.replicas:
            replica.task.cancel()
        await asyncio.wait([*self._ended, *(replica.task for replica in self.replicas)])
        await self.admin.aclose()
        await self.env.aclose()


def simulate(seed: int, *, seconds: float) -> CanaryWorld:
    """Play one seed in virtual time."""
    # The name of the machine is part of the identities of members, by which they get their namespaces.
    hostname = patch.dict(os.environ, HOSTNAME="replica")
    with hostname, asyncio.Runner(loop_factory=lambda: FreezableLoop(seed)) as runner:

        async def main() -> CanaryWorld:
            world = CanaryWorld(seed)
            await world.run(seconds)
            return world

        try:
            return runner.run(main())
        finally:
            gc.collect()
