"""The ownership loop: reads and writes the leases of a fleet, and runs the shards that this replica owns.

`opsdk.fleet.ownership_rules` decides. The loop lists the leases every `retry_period`, and immediately after a lease
changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress

import msgspec

from opsdk.aio.clock import monotonic, utc_now
from opsdk.aio.tasks import TaskOwner
from opsdk.aio.waiting import finish, wait_ended
from opsdk.api.coordination.v1 import Lease
from opsdk.apimachinery.kinds import kind_of
from opsdk.apimachinery.selectors import LabelRequirements
from opsdk.cache.cache import Cache
from opsdk.cache.options import ByObject, CacheOptions
from opsdk.cache.store import Delta
from opsdk.cluster.cluster import Cluster
from opsdk.errors import (
    AlreadyExistsError,
    ConflictError,
    LeaderElectionLostError,
    NotFoundError,
    OpsdkError,
    UsageError,
)
from opsdk.fleet.canary_rules import Canary
from opsdk.fleet.lease_list import LeaseList
from opsdk.fleet.ownership_rules import OwnershipOptions, OwnershipRules, OwnershipStep, ShardState, StepKind
from opsdk.fleet.shard_fence import ShardFence
from opsdk.fleet.shard_lease import (
    FLEET_LABEL,
    ROLE_LABEL,
    LeaseRole,
    holder_of,
    lease_name,
    member_labels,
    stand_in_of,
)
from opsdk.fleet.shard_runner import ShardRunnable, ShardRunner
from opsdk.manager.leader_election.leader_election_record import LeaderElectionOptions
from opsdk.manager.leader_election.leader_elector import LeaderElector, default_identity
from opsdk.telemetry.records import TelemetryHook
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

# Minimum seconds between two lists of the leases.
_MIN_LIST_INTERVAL = 0.1
# Fraction of renew_deadline for one list or write, as for a renewal of the lease.
_REQUEST_TIMEOUT_SHARE = 0.5
# Seconds for cancelled tasks to end.
_CLOSE_SECONDS = 5.0
# Maximum concurrent writes of leases.
_PARALLEL_WRITES = 16


class ShardVersion(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of a shard.

    Attributes:
        shard: the shard.
        version: of the holder; empty for none.
        holder: the identity of the member; empty for none.
        placed_version: the version of `placed`; empty for none.
        placed: the member that the placement names; empty if the shard waits for a member of its version.
    """

    shard: str
    version: str
    holder: str
    placed_version: str
    placed: str


MakeRunnable = Callable[[str], ShardRunnable]
"""Creates the runnable of an owned shard. It is called for each ownership, and after each failure."""


class Ownership:
    """Distributes shards between the replicas of a fleet. A Runnable for every replica.

    The first cancellation of `start` hands every shard over; a second one cancels the work immediately. A replica that
    loses its lease cancels all work, and joins again with a new identity.

    Args:
        cluster: the API server with the leases.
        make: creates the runnable of an owned shard.
        options: see `OwnershipOptions`.
        hook: receives `Leadership` records of this member's lease.
    """

    def __init__(
        self, cluster: Cluster, make: MakeRunnable, options: OwnershipOptions, *, hook: TelemetryHook | None = None
    ) -> None:
        self.options = options
        self.identity = ""
        self._cluster = cluster
        self._client = cluster.uncached
        self._leases = LeaseList(cluster.transport, options.name, options.namespace)
        self._make = make
        self._hook = hook
        self._shards: frozenset[str] = frozenset()
        self._rules: OwnershipRules | None = None
        self._runners: dict[str, ShardRunner] = {}
        self._stopping_runners: dict[str, ShardRunner] = {}
        self._tasks = TaskOwner("ownership")
        self._wake = asyncio.Event()
        self._leaving = False
        self._started = False

    def needs_leader_election(self) -> bool:
        """Return False: every replica is a member."""
        return False

    # -------------------------------------------------------------- shards
    def set_shards(self, names: Collection[str]) -> None:
        """Set the existing shards. A removed shard is drained, and its lease deleted."""
        self._shards = frozenset(names)
        self._wake.set()

    def restart(self, shard: str) -> None:
        """Replace the runnable of a shard with a new one, because its configuration has changed.

        The running one drains first. This replica keeps the shard. No effect if the shard does not run here.
        """
        if shard in self._runners:
            self._runners[shard].restart()

    def report_reachability(self, shard: str, *, is_reachable: bool) -> None:
        """Report whether this replica can reach the target of a shard, such as a cluster.

        If an owner cannot reach the target for `OwnershipOptions.unreachable_timeout`, it invites other replicas to
        take the shard over.
        Without a report, it counts as reachable. A report for a shard that this replica does not own has no effect.
        """
        if self._rules is not None:
            self._rules.report_reachability(shard, is_reachable=is_reachable, now=monotonic())

    def states(self) -> Mapping[str, ShardState]:
        """Return the state of each shard that this replica owns, warms up or drains."""
        return self._rules.states() if self._rules is not None else {}

    def owned(self) -> frozenset[str]:
        """Return the shards that this replica owns now."""
        return frozenset(name for name, state in self.states().items() if state is ShardState.OWNED)

    def debug_rows(self) -> list[object]:
        """Return the rows of the debug page ``shards``: every shard, its holder, and its state on this member."""
        return (
            [] if self._rules is None else [{**row, "member": self.identity} for row in self._rules.rows(monotonic())]
        )

    def shard_versions(self) -> list[ShardVersion]:
        """Return the owner of each shard of the fleet and its version, as this replica last read the leases."""
        rules = self._rules
        if rules is None:
            return []
        placement = rules.placement()
        return [
            ShardVersion(
                shard=shard,
                version=rules.version_of(holder) if holder else "",
                holder=holder,
                placed_version=rules.version_of(placed) if placed else "",
                placed=placed,
            )
            for shard, holder in rules.holders().items()
            for placed in (placement.get(shard, ""),)
        ]

    def _log_canary(self, rules: OwnershipRules, before: tuple[Canary | None, str]) -> None:
        """Log a choice of shards for a version that has changed, or cannot be used."""
        after = rules.canary, rules.canary_problem
        if after == before:
            return
        if rules.canary_problem:
            log.error("the choice before stays: %s", rules.canary_problem)
        else:
            log.info("the canary of the fleet %s is now %s", self.options.name, rules.canary or "ended")

    # -------------------------------------------------------------- life cycle
    async def start(self) -> None:
        """Run as a member until cancelled; see the class.

        Raises:
            UsageError: `start` was called before.
        """
        if self._started:
            raise UsageError(f"{self!r} was already started: create a new one")
        self._started = True
        running = asyncio.get_running_loop().create_task(self._run(), name=f"{self!r}")
        interrupted: asyncio.CancelledError | None = None
        while not running.done():
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError as error:
                if interrupted is not None:
                    running.cancel()
                interrupted = error
                self._leaving = True
                self._wake.set()
        if interrupted is not None:
            if not running.cancelled() and (failure := running.exception()) is not None:
                log.warning("%r failed while leaving the fleet: %r", self, failure)
            raise interrupted
        running.result()

    async def _run(self) -> None:
        cache = self._cluster.new_cache(self._cache_options())
        watching = asyncio.get_running_loop().create_task(self._watch_leases(cache), name=f"{self!r}/watch")
        try:
            while not self._leaving:
                try:
                    await self._run_member(default_identity())
                except LeaderElectionLostError as error:
                    log.warning("%r lost its lease and rejoins with a new identity: %s", self, error)
        finally:
            watching.cancel()
            await wait_ended([watching], _CLOSE_SECONDS)
            await cache.aclose()
            await self._tasks.aclose()

    async def _run_member(self, identity: str) -> None:
        """Run as a member with one identity until this replica has left. Raises `LeaderElectionLostError`."""
        o = self.options
        options = LeaderElectionOptions(
            name=lease_name(o.name, LeaseRole.MEMBER, identity),
            namespace=o.namespace,
            identity=identity,
            lease_duration=o.lease_duration,
            renew_deadline=o.renew_deadline,
            retry_period=o.retry_period,
            labels=member_labels(o.name, o.version),
        )
        elector = LeaderElector(self._client, options, hook=self._hook)
        self.identity = identity
        rules = self._rules = OwnershipRules(identity, o)
        loop = asyncio.get_running_loop()
        electing = loop.create_task(elector.run(), name=f"{self!r}/member")
        rounds = loop.create_task(self._sync_loop(elector, rules), name=f"{self!r}/rounds")
        try:
            await asyncio.wait((electing, rounds), return_when=asyncio.FIRST_COMPLETED)
            if rounds.done():
                rounds.result()
            else:
                electing.result()
        finally:
            await finish(self._leave_fleet(elector, [electing, rounds]), name=f"{self!r}/end")

    async def _leave_fleet(self, elector: LeaderElector, tasks: Collection[asyncio.Task[None]]) -> None:
        """Cancel remaining work, whose writes are rejected. Delete the member's lease if no work remains."""
        for task in tasks:
            task.cancel()
        await wait_ended(tasks, _CLOSE_SECONDS)
        left = not self._runners and not self._stopping_runners and elector.is_leader
        elector.abandon()
        runners, self._runners = self._runners, {}
        await asyncio.gather(*(runner.kill() for runner in runners.values()))
        if left:
            try:
                async with asyncio.timeout(self.options.renew_deadline * _REQUEST_TIMEOUT_SHARE):
                    await self._client.delete(Lease, elector.options.name, namespace=elector.options.namespace)
            except (OpsdkError, TimeoutError) as error:
                log.warning("cannot delete the lease of %s, it will expire: %s", elector.options.identity, error)

    # -------------------------------------------------------------- sync loop
    async def _sync_loop(self, elector: LeaderElector, rules: OwnershipRules) -> None:
        """List, decide and write, until this replica has left."""
        electing = asyncio.get_running_loop().create_task(elector.wait_elected(), name=f"{self!r}/wait elected")
        electing.add_done_callback(lambda _: self._wake.set())
        try:
            while not elector.is_leader:
                if self._leaving:
                    return
                self._wake.clear()
                await self._wake.wait()
        finally:
            electing.cancel()
        while True:
            began = monotonic()
            self._wake.clear()
            rules.set_shards(self._shards)
            rules.leaving = self._leaving
            is_settled = False
            try:
                async with asyncio.timeout(self.options.renew_deadline * _REQUEST_TIMEOUT_SHARE):
                    is_settled = await self._sync_once(elector, rules)
            except (OpsdkError, TimeoutError) as error:
                log.warning("cannot read the leases of the fleet %s: %s", self.options.name, str(error) or "no answer")
            if rules.leaving and not rules.states() and not self._runners and not self._stopping_runners:
                if is_settled:
                    return
                # Another leaving member may have handed a shard to this one, so list once more.
                self._wake.set()
            await asyncio.sleep(_MIN_LIST_INTERVAL)
            await self._sleep_until_woken(began + self.options.retry_period)

    async def _sync_once(self, elector: LeaderElector, rules: OwnershipRules) -> bool:
        """List, decide and write. Returns whether no step was necessary."""
        requested_at = monotonic()
        leases = await self._leases.read()
        if not elector.is_leader:
            return False
        canary = rules.canary, rules.canary_problem
        rules.observed(leases, requested_at=requested_at, answered_at=monotonic())
        self._log_canary(rules, canary)
        is_settled = True
        while steps := rules.decide(utc_now()):
            is_settled = False
            writes = [step for step in steps if step.lease is not None]
            for step in steps:
                self._apply_step(step, elector, rules)
            if writes and not await self._write_all(writes, rules):
                # A conflict: another member wrote first. The next list has its write.
                self._wake.set()
                return False
        return is_settled

    async def _write_all(self, steps: Iterable[OwnershipStep], rules: OwnershipRules) -> bool:
        """Write leases concurrently. Returns False if one was not written."""
        limit = asyncio.Semaphore(_PARALLEL_WRITES)

        async def write(step: OwnershipStep) -> bool:
            async with limit:
                return await self._write(step, rules)

        return all(await asyncio.gather(*map(write, steps)))

    async def _write(self, step: OwnershipStep, rules: OwnershipRules) -> bool:
        """Write or delete the lease of a step. Return whether this replica's write was the next one."""
        assert step.lease is not None
        requested_at = monotonic()
        try:
            if step.kind is StepKind.DELETE:
                await self._client.delete(step.lease, resource_version=step.lease.metadata.resource_version)
                if step.shard:
                    rules.deleted(step.shard)
                return True
            is_new = not step.lease.metadata.resource_version
            written = await (self._client.create(step.lease) if is_new else self._client.update(step.lease))
        except (ConflictError, AlreadyExistsError, NotFoundError) as error:
            log.debug("the lease of %s was changed concurrently: %s", step.shard or "a member", error)
            return False
        except OpsdkError as error:
            log.warning("cannot write the lease of %s: %s", step.shard or "a member", error)
            return False
        rules.wrote(step.shard, written, requested_at=requested_at, answered_at=monotonic())
        return True

    # -------------------------------------------------------------- shard runners
    def _apply_step(self, step: OwnershipStep, elector: LeaderElector, rules: OwnershipRules) -> None:
        """Start, drain or stop the runner of a shard."""
        if step.kind is StepKind.WARM:
            self._runner(step.shard, elector, rules)
        elif step.kind is StepKind.OWN:
            log.info("%s owns %s", rules.identity, step.shard)
            self._runner(step.shard, elector, rules).activate()
        elif step.kind is StepKind.DRAIN:
            log.info("%s drains %s for the handover", rules.identity, step.shard)
            self._runners[step.shard].drain()
        elif stand_in := stand_in_of(step.lease):
            if holder_of(step.lease) == rules.identity:
                log.warning("%s cannot reach %s: inviting %s to take it over", rules.identity, step.shard, stand_in)
        elif step.kind in (StepKind.LOSE, StepKind.COOL):
            if step.kind is StepKind.LOSE:
                log.warning("%s lost %s: cancelling its runnable", rules.identity, step.shard)
            runner = self._stopping_runners[step.shard] = self._runners.pop(step.shard)
            self._tasks.start(runner.kill(), name=f"end {step.shard}")

    def _runner(self, shard: str, elector: LeaderElector, rules: OwnershipRules) -> ShardRunner:
        """Return the runner of a shard, and start one if there is none."""
        if shard in self._runners:
            return self._runners[shard]

        def on_warm() -> None:
            rules.warmed(shard)
            self._wake.set()

        def on_end(runner: ShardRunner) -> None:
            if self._stopping_runners.get(shard) is runner:
                del self._stopping_runners[shard]
            if self._runners.get(shard) is runner:
                del self._runners[shard]
                rules.drained(shard)
            self._wake.set()

        self._runners[shard] = ShardRunner(
            shard,
            self._make,
            fence=ShardFence(shard, elector, rules),
            drain_timeout=self.options.drain_timeout,
            after=self._stopping_runners.get(shard),
            on_warm=on_warm,
            on_end=on_end,
        )
        return self._runners[shard]

    # -------------------------------------------------------------- waits
    def _cache_options(self) -> CacheOptions:
        selector = LabelRequirements.parse(f"{FLEET_LABEL}={self.options.name}")
        leases = ByObject(namespaces=[self.options.namespace], label_selector=selector)
        return CacheOptions(by_kind={Lease: leases})

    async def _watch_leases(self, cache: Cache) -> None:
        """Wake the loop when the lease of a shard changes, or a member joins or leaves, but not for a renewal."""
        while cache.existing(kind_of(Lease)) is None:
            try:
                (await cache.informer_for(Lease)).add_handler(self._on_lease)
            except OpsdkError as error:
                log.debug("cannot watch the leases of the fleet %s yet, will retry: %s", self.options.name, error)
                await asyncio.sleep(self.options.retry_period)
        await cache.start()

    def _on_lease(self, delta: Delta) -> None:
        entry = delta.new
        if entry is None or delta.old is None or entry.labels.get(ROLE_LABEL) != LeaseRole.MEMBER.value:
            self._wake.set()

    async def _sleep_until_woken(self, at: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(at):
                await self._wake.wait()

    def __repr__(self) -> str:
        return f"<Ownership {self.options.name}: {self.identity or 'not started'}>"
