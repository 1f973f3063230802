"""A fleet under faults in virtual time: managed API servers, replicas, and a judge that reads the servers' storages.

A replica can be killed, frozen (its tasks do not run, as after SIGSTOP), stopped in good order, or cut off from the
management cluster, from a managed cluster, or from all; leases are deleted. Every write to a managed cluster must come
from the member that holds the cluster's lease at that moment, and at the end every change has been handled.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context as ContextVars
from contextvars import ContextVar, copy_context
from typing import Any
from unittest.mock import patch

import msgspec

from envtest.environment import Environment
from opsdk import Cluster, Context, MergeFrom, ObjectMeta, Operator, OperatorOptions, RestConfig
from opsdk.api.coordination.v1 import Lease
from opsdk.api.core.v1 import ConfigMap
from opsdk.apiserver.storage.ports import StorageChange
from opsdk.engine.world.faults import Fault, Step
from opsdk.engine.world.link import Link
from opsdk.errors import ApiError, TransportError
from opsdk.fleet.fleet import Fleet, FleetOptions
from opsdk.fleet.managed_cluster import ProbeOptions
from opsdk.fleet.provider import StaticClusters
from opsdk.fleet.shard_lease import (
    PREFERRED_ANNOTATION,
    SHARD_ANNOTATION,
    STAND_IN_ANNOTATION,
    LeaseRole,
    lease_name,
)
from opsdk.http.asgi_types import CUT, App, Message, Receive, Scope, Send
from opsdk.manager.options import ManagerOptions
from opsdk.testing.loop import VirtualLoop

_OPTIONS = OperatorOptions(
    manager=ManagerOptions(health_probe_bind_address="0", metrics_bind_address="0"), journal_size=0
)
# A probe costs the judge as much as a renewal of a lease.
_FLEET = FleetOptions(namespace="default", probe=ProbeOptions(interval=20.0))
# A partition loses what it held for this many seconds. Ownership ends 5 % of the lease, 0.75 s, before others take
# over: a write that arrives later than that after its check cannot be prevented by its sender, which may be frozen.
_LOST_AFTER = 0.5
_SENT_AT = "sent_at"
# Of the garbage collector: Python's defaults take a fifth of the time, 100,000 still a fourteenth.
_THRESHOLDS = (500_000, 20, 1_000)


def now() -> float:
    """Return the loop's time."""
    return asyncio.get_running_loop().time()


_REPLICA: ContextVar[SimulatedProcess | None] = ContextVar("replica", default=None)
"""The replica whose task runs."""


class FreezableLoop(VirtualLoop):
    """A virtual loop whose timers wait while their replica is frozen. Its time goes on, as CLOCK_MONOTONIC does."""

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: ContextVars | None = None
    ) -> asyncio.TimerHandle:
        """See `asyncio.loop.call_at`."""
        replica = _REPLICA.get()
        if replica is None:
            return super().call_at(when, callback, *args, context=context)

        def run() -> None:
            if handle.cancelled():
                return
            if replica.frozen_until > self.time():
                VirtualLoop.call_at(self, replica.frozen_until, run, context=context)
            else:
                callback(*args)

        handle = super().call_at(when, run, context=context)
        return handle


class SimulatedProcess:
    """One process, which can be killed, frozen and cut off from servers."""

    task: asyncio.Task[None]

    def __init__(self, name: str, rng: random.Random) -> None:
        self.name = name
        self.links: dict[str, Link] = {}
        self.frozen_until = 0.0
        self._rng = rng

    def launch(self, operator: Operator, config: RestConfig) -> None:
        """Start the operator of the process."""
        context = copy_context()
        context.run(_REPLICA.set, self)
        self.task = asyncio.get_running_loop().create_task(operator.start(config), name=self.name, context=context)

    def config(self, name: str, env: Environment) -> RestConfig:
        """Return how this replica reaches a server: through a link, with a freeze behind it."""
        inner = env.config
        assert inner.app is not None
        seed = self._rng.getrandbits(32)
        # Without latency, what a thawed replica sends arrives before it notices that it has lost its lease.
        link = Link(self._freezing(inner.app), client=self.name, seed=seed, hot_requests=0, max_latency=0.0)
        self.links[name] = link

        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            await link({**scope, _SENT_AT: now()}, receive, send)

        return msgspec.structs.replace(inner, app=call)

    def _freezing(self, app: App) -> App:
        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            async def passed(message: Message) -> None:
                await self._thawed()
                await send(message)

            if scope["type"] == "http" and now() - scope[_SENT_AT] > _LOST_AFTER:
                scope["extensions"][CUT]()
                return
            await app(scope, receive, passed)

        return call

    async def _thawed(self) -> None:
        while (wait := self.frozen_until - now()) > 0:
            await asyncio.sleep(wait)

    async def cut(self, seconds: float, *names: str) -> None:
        """Let nothing pass to some servers, all without names, for a time."""
        for name in names or self.links:
            await self.links[name].apply(Step(time=0, name=Fault.PARTITION.value, seconds=seconds))

    def freeze(self, seconds: float) -> None:
        """Stop every task of the process for a time."""
        self.frozen_until = now() + seconds

    async def kill(self) -> None:
        """End the process without a last word."""
        for link in self.links.values():
            link.kill()
        self.task.cancel()
        await asyncio.sleep(0)
        self.task.cancel()

    def heal(self) -> None:
        """End every fault."""
        self.frozen_until = 0.0
        for link in self.links.values():
            link.heal()


class Replica(SimulatedProcess):
    """One process with one operator of a fleet."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(f"r{number}", world.rng)
        self._provider = StaticClusters()
        operator = Operator("fleet", _OPTIONS)
        self.fleet = Fleet(operator, self._provider, _FLEET)

        @self.fleet.reconciler(ConfigMap)
        async def handle(config_map: ConfigMap, ctx: Context) -> None:
            if "want" not in config_map.data or config_map.data.get("got") == config_map.data["want"]:
                return
            await asyncio.sleep(world.rng.choice([0.1, 1, 15]))
            config_map.data["got"] = config_map.data["want"]
            config_map.metadata.annotations["by"] = self.fleet.runner.ownership.identity
            # Without a lock: nothing but the fence keeps a replica from writing to a cluster of another one.
            await ctx.client.patch(config_map, MergeFrom())

        for name in world.names:
            self._provider.join(name, self.config(name, world.managed[name]))
        self.launch(operator, self.config("", world.management))


class World:
    """The servers, the replicas, the workload, and what the servers stored."""

    def __init__(self, seed: int, *, clusters: int, replicas: int) -> None:
        self.rng = random.Random(seed)
        self.names = [f"c{number:02}" for number in range(clusters)]
        self.management = Environment()
        self.managed = {name: Environment() for name in self.names}
        self.clients: dict[str, Cluster] = {}
        self.admin = Cluster(self.management.config)
        self.replicas: list[Replica] = []
        self.ended: list[asyncio.Task[None]] = []
        self.problems: list[str] = []
        self.holders: dict[str, str] = {}
        self.changed_at: dict[tuple[str, str, str], float] = {}
        self.latencies: list[float] = []
        self.handovers: list[float] = []
        self.takeovers: list[float] = []
        self.stand_ins = 0
        """How often a replica took a cluster that its owner did not reach."""
        self._preferred: dict[str, tuple[str, float]] = {}
        """The preferred holder of each cluster, and since when it is."""
        self._lost_at: dict[str, float] = {}
        """When the holder of a cluster was killed."""
        self._count = 0
        self._size = replicas
        self._faults_end = 0.0

    # -------------------------------------------------------------- what the servers stored
    def on_lease(self, change: StorageChange) -> None:
        """Follow who holds each cluster."""
        lease: dict[str, Any] = change.value or {}
        annotations = lease["metadata"].get("annotations", {})
        shard = annotations.get(SHARD_ANNOTATION)
        if not shard:
            return
        holder, before = lease.get("spec", {}).get("holderIdentity", ""), self.holders.get(shard, "")
        self.holders[shard] = holder
        expected, since = self._preferred.get(shard, ("", 0.0))
        if (preferred := annotations.get(PREFERRED_ANNOTATION, "")) != expected:
            self._preferred[shard] = (preferred, now())
        previous = (change.previous or {}).get("metadata", {}).get("annotations", {})
        if holder and previous.get(STAND_IN_ANNOTATION) == holder:
            self.stand_ins += 1
        if holder and before and holder != before:
            if shard in self._lost_at:
                self.takeovers.append(now() - self._lost_at.pop(shard))
            elif holder == expected:
                self.handovers.append(now() - since)

    def on_config_map(self, cluster: str, change: StorageChange) -> None:
        """Check who wrote, and how long the change waited."""
        obj: dict[str, Any] = change.value or {}
        data, writer = obj.get("data", {}), obj["metadata"].get("annotations", {}).get("by", "")
        before = change.previous or {}
        if data.get("got") is None or data.get("got") == before.get("data", {}).get("got"):
            return
        if self.holders.get(cluster) != writer:
            holder = self.holders.get(cluster)
            self.problems.append(f"{now():.3f}: {writer} wrote to {cluster}, which {holder} holds")
        changed = self.changed_at.pop((cluster, obj["metadata"]["name"], data["want"]), None)
        if changed is not None:
            self.latencies.append(now() - changed)

    # -------------------------------------------------------------- workload and faults
    async def change_something(self, name: str = "") -> None:
        """Create or change a ConfigMap of a managed cluster, of any without a name."""
        name = name or self.rng.choice(self.names)
        key = f"x{self.rng.randrange(3)}"
        self._count += 1
        want = str(self._count)
        client = self.clients[name].uncached
        self.changed_at[name, key, want] = now()
        obj = await client.get_or_none(ConfigMap, f"default/{key}")
        if obj is None:
            await client.create(ConfigMap(metadata=ObjectMeta(name=key, namespace="default"), data={"want": want}))
        else:
            obj.data["want"] = want
            with suppress(ApiError):
                await client.update(obj)

    async def fault(self) -> None:
        """Let something bad happen to a replica."""
        replica = self.rng.choice(self.replicas)
        draw = self.rng.random()
        if draw < 0.25:
            identity = replica.fleet.runner.ownership.identity
            self._lost_at |= {name: now() for name, holder in self.holders.items() if holder == identity}
            await self.end(replica, kill=True)
        elif draw < 0.35:
            await self.end(replica, kill=False)
        elif draw < 0.65:
            replica.freeze(self.rng.uniform(1, 40))
        elif draw < 0.8:
            await replica.cut(self.rng.uniform(1, 40), "")
        elif draw < 0.85:
            await replica.cut(self.rng.uniform(1, 60), *self.rng.sample(self.names, 3))
        elif draw < 0.9 and replica.fleet.owned:
            # Long enough for another replica to stand in.
            names = sorted(replica.fleet.owned)
            seconds = min(self.rng.uniform(60, 300), max(self._faults_end - now(), 1.0))
            await replica.cut(seconds, *self.rng.sample(names, min(3, len(names))))
        elif draw < 0.94:
            await self.delete_leases()
        else:
            await replica.cut(self.rng.uniform(1, 40))

    async def delete_leases(self) -> None:
        """Delete the leases of some clusters, twice within seconds."""
        for name in self.rng.sample(self.names, 3):
            key = lease_name("fleet", LeaseRole.SHARD, name)
            for _ in range(2):
                await self.admin.uncached.delete(Lease, key, namespace="default", missing_ok=True)
                await asyncio.sleep(self.rng.uniform(0, 3))

    async def end(self, replica: Replica, *, kill: bool) -> None:
        """End a replica, and start another one some seconds later."""
        self.replicas.remove(replica)
        if kill:
            await replica.kill()
        else:
            replica.heal()
            replica.task.cancel()
        self.ended.append(replica.task)
        delay = self.rng.uniform(0, 15) if len(self.replicas) > 1 else 0.0
        asyncio.get_running_loop().call_later(delay, self.start_replica)

    def start_replica(self) -> None:
        """Start one more replica, unless there are enough."""
        if len(self.replicas) < self._size:
            self._count += 1
            self.replicas.append(Replica(self, self._count))

    # -------------------------------------------------------------- runs
    async def run(self, seconds: float) -> None:
        """Play `seconds` of changes and faults, heal everything, and judge."""
        await self.start()
        # The collector would walk the servers again and again.
        gc.freeze()
        await asyncio.sleep(20)
        next_fault = now()
        self._faults_end = now() + seconds
        while now() < self._faults_end:
            with suppress(ApiError, TransportError):
                await self.change_something()
            if now() >= next_fault:
                await self.fault()
                next_fault = now() + self.rng.uniform(5, 40)
            await asyncio.sleep(self.rng.uniform(0, 2))
        await self.finish()

    async def start(self) -> None:
        """Start the servers and the replicas."""
        await self.management.start()
        self.management.plane.storage.subscribe(self.on_lease, "coordination.k8s.io/leases/")
        for name, env in self.managed.items():
            await env.start()
            env.plane.storage.subscribe(lambda change, name=name: self.on_config_map(name, change), "core/configmaps/")
            self.clients[name] = Cluster(env.config)
        for _ in range(self._size):
            self.start_replica()

    async def finish(self) -> None:
        """Heal everything, judge, and end."""
        for replica in self.replicas:
            replica.heal()
        await asyncio.sleep(90)
        await self.judge()
        await self.leave_together()
        for client in (*self.clients.values(), self.admin):
            await client.aclose()
        for env in (*self.managed.values(), self.management):
            await env.aclose()

    async def leave_together(self) -> None:
        """Stop every replica at once, and check that no cluster goes from one that leaves to another one forever."""
        began = now()
        for replica in self.replicas:
            replica.task.cancel()
        await asyncio.wait([*self.ended, *(replica.task for replica in self.replicas)])
        if now() - began > _FLEET.drain_timeout + 5:
            self.problems.append(f"the replicas took {now() - began:.1f} s to leave together")
        if held := {name: holder for name, holder in self.holders.items() if holder}:
            self.problems.append(f"after all replicas have left, some clusters are held: {held}")

    async def judge(self) -> None:
        """Check that each cluster has one owner, and that every change was handled."""
        owners = [name for replica in self.replicas for name in replica.fleet.owned]
        if sorted(owners) != self.names:
            self.problems.append(f"at the end, the owners are {sorted(owners)}")
        for name, client in self.clients.items():
            for obj in (await client.uncached.list(ConfigMap, namespace="default")).items:
                if obj.data.get("want") != obj.data.get("got"):
                    self.problems.append(f"a change of {obj.metadata.name} in {name} was not handled: {obj.data}")


def simulate(seed: int, *, clusters: int, replicas: int, seconds: float) -> World:
    """Play one seed in virtual time."""
    # The name of the machine is part of the identities of members, by which they get their clusters.
    hostname = patch.dict(os.environ, HOSTNAME="replica")
    with hostname, asyncio.Runner(loop_factory=lambda: FreezableLoop(seed)) as runner:

        async def main() -> World:
            world = World(seed, clusters=clusters, replicas=replicas)
            await world.run(seconds)
            return world

        thresholds = gc.get_threshold()
        gc.set_threshold(*_THRESHOLDS)
        try:
            return runner.run(main())
        finally:
            gc.set_threshold(*thresholds)
            gc.unfreeze()
            # Without it, 23 seeds in a row held 2 GB.
            gc.collect()
