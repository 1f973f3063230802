"""Runs an operator on the snapshot of a cluster in virtual time until it has nothing more to do.

The cluster is a local API server with the objects of the snapshot. Its simulated controllers come to rest first. Then
the operator's definitions, webhooks and role are applied, as an installation does, and the operator starts.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec.structs import replace

from opsdk.aio.clock import monotonic
from opsdk.apiserver.auth.user import MASTERS
from opsdk.builder.operator import Operator
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.controller.journal import ReconcileRecord
from opsdk.engine.foreign_changes import ForeignChange, PlayedChange
from opsdk.engine.installation import (
    ADMIN,
    add_operator_user,
    install_definitions,
    named,
    stop_operator,
    user_of,
)
from opsdk.engine.isolation import callers_of, isolate, with_callers, with_certificates_of, without_server
from opsdk.engine.ledger import WriteLedger, WriteTurns
from opsdk.engine.net_changes import NetChange, is_ignored
from opsdk.engine.playing import PLAYER, HistoryPlayer
from opsdk.engine.recording import AttributionJournal, RefusalRecorder, RefusedRequest, RunPhase, WriteSource
from opsdk.engine.running_environment import ForkEnvironment
from opsdk.engine.snapshot import ClusterSnapshot, SnapshotError
from opsdk.engine.snapshot_kinds import without_unread
from opsdk.engine.snapshot_reader import take_snapshot
from opsdk.engine.webhooks import CLIENT_CONFIG
from opsdk.engine.world.rest import Rest
from opsdk.engine.world.runner import EndKind, WorldRunner
from opsdk.engine.write_loops import WriteLoop, WriteLoops
from opsdk.engine.writes import OWN_USERS, Entry
from opsdk.errors import ApiError, Details, NoMatchError, NotFoundError, OpsdkError
from opsdk.rbac.permissions import RuleSet
from opsdk.rest.config import RestConfig
from opsdk.structured_merge.value import JsonObject
from opsdk.telemetry.records import HotLoopFound, Record, TelemetryHook

__all__ = ["ChangeError", "OperatorRun", "RunOutcome"]

_SETTLE_QUIET: Final = 120.0
"""Seconds without a write after which the simulated controllers are at rest."""
_SETTLE_HORIZON: Final = 3_600.0
_STEP: Final = 5.0
"""Virtual seconds between two looks at whether the operator is at rest."""
FIGHT_TURNS: Final = 6
"""Changes of one field in turns, after which it is a fight."""

logging.getLogger("opsdk").addHandler(logging.NullHandler())


Change = Callable[[Client], Awaitable[None]]
"""A change of the user, made when the operator has nothing more to do: ``kubectl apply``, a deletion, a new scale."""


class ChangeError(OpsdkError):
    """A change of the user cannot be made: the cluster has no such object or kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """What happened in a run.

    Attributes:
        begin: the state at the beginning, as the fork had it: isolated.
        changes: the net change of each object, after the simulated controllers came to rest, by storage key.
        turns: fields that several writers changed in turns.
        writes: number of writes.
        refused: requests of the operator that the server refused, each once.
        user_writes: writes of the user's changes, in their order.
        refused_changes: why the server refused changes of the user.
        loops: writes that repeat without end.
        looked_at: by controller and reconciled object, kind and key of what its reconciles read or wrote.
        incomplete: controllers and reconciled objects whose last reconcile did not come to its end.
        failing: the last reconciles of objects whose last reconcile failed.
        hot_loops: requests that reconciled themselves again and again.
        failure: why the operator ended by itself; empty if it did not.
        reached: whether the operator had nothing more to do at the end: at the horizon, it had not written anything new
            in the last `quiet` seconds, or in the second half of the time.
        seconds: of virtual time.
        callers: webhook configurations, APIServices and definitions of the snapshot, as the fork does not have them.
        connections: targets outside of the fork that were refused.
        played: the changes of others, in their order.
        end: the state at the end, if the run keeps it.
    """

    begin: ClusterSnapshot
    changes: Mapping[str, NetChange]
    turns: Sequence[WriteTurns] = ()
    writes: int = 0
    refused: Sequence[RefusedRequest] = ()
    user_writes: Sequence[Entry] = ()
    refused_changes: Sequence[str] = ()
    loops: Sequence[WriteLoop] = ()
    looked_at: Mapping[tuple[str, str], Collection[tuple[str, str]]] = field(default_factory=dict)
    incomplete: frozenset[tuple[str, str]] = frozenset()
    failing: Sequence[ReconcileRecord] = ()
    hot_loops: Sequence[str] = ()
    failure: str = ""
    reached: bool = True
    seconds: float = 0.0
    callers: Sequence[JsonObject] = ()
    connections: Sequence[str] = ()
    played: Sequence[PlayedChange] = ()
    end: ClusterSnapshot | None = None


@dataclass(frozen=True, kw_only=True)
class OperatorRun:
    """One run: state, operator and changes. Equal arguments give equal outcomes, in any process.

    Args:
        snapshot: the state at the beginning.
        operator: creates the operator.
        environment: makes the environment with the objects of a snapshot and with simulated controllers.
        namespace: of the operator.
        history: changes of others, each made at its time after the operator's start.
        changes: of the user, made one after the other, each when the operator is at rest.
        quiet: virtual seconds without a new write of the operator, after which it is at rest.
        horizon: virtual seconds from the operator's start, or from the last change of the history, after which the
            run ends in any case.
        allowed_hosts: that the operator may reach beside the fork.
        rules: the permissions of the operator; None for those that it declares.
        keep_end: take a snapshot of the state at the end, see `RunOutcome.end`.
        seed: of every random number.
    """

    snapshot: ClusterSnapshot
    operator: Callable[[], Operator]
    environment: Callable[[ClusterSnapshot], AbstractAsyncContextManager[ForkEnvironment]]
    namespace: str = "default"
    history: Sequence[ForeignChange] = ()
    changes: Sequence[Change] = ()
    quiet: float = 600.0
    horizon: float = 86_400.0
    allowed_hosts: Sequence[str] = ()
    rules: RuleSet | None = None
    keep_end: bool = False
    seed: int = 0

    def execute(self) -> RunOutcome:
        """Run it. Must not be called from a running event loop. Raises `ChangeError`."""
        return _Execution(self).execute()


class _Execution:
    """The state of one run."""

    def __init__(self, run: OperatorRun) -> None:
        self._run = run
        self._callers = callers_of(run.snapshot)
        self._snapshot = isolate(run.snapshot)
        self._phase = RunPhase.SETTLING
        self._ended_in: RunPhase | None = None
        self._settling = Rest(quiet=_SETTLE_QUIET, longest=_SETTLE_HORIZON)
        self._rest, self._loops = Rest(quiet=run.quiet), WriteLoops()
        self._end_time = 0.0
        self._ledger = WriteLedger(OWN_USERS, frozenset({PLAYER}))
        self._sources = AttributionJournal()
        kinds = {(kind.api_version, kind.kind) for kind in self._snapshot.kinds}
        self._player = HistoryPlayer(run.history, kinds, self._sources)
        self._refusals = RefusalRecorder()
        self._user_writes: list[Entry] = []
        self._refused_changes: list[str] = []
        self._hot_loops: list[str] = []
        self._failure = ""
        self._reached = True
        self._end: ClusterSnapshot | None = None

    def execute(self) -> RunOutcome:
        """Run it, and return what happened."""
        epoch, seed = _epoch(self._snapshot), _seed(self._run.seed, self._snapshot)
        if self._run.history:
            # The operator starts at the time of the snapshot: a history has times, too.
            epoch -= timedelta(seconds=_SETTLE_QUIET)
        runner = WorldRunner[None](seed=seed, epoch=epoch, allowed_hosts=self._run.allowed_hosts)
        try:
            runner.run(self._main())
        except ChangeError:
            raise
        except OpsdkError as error:
            phase = self._ended_in or self._phase
            reasons = [self._failure, f"{phase.value} failed: {error}"]
            self._end_early("; ".join(filter(None, reasons)))
        if runner.end.kind is EndKind.HOT_LOOP:
            self._hot_loops.append(runner.end.detail)
            self._reached = False
        elif runner.end.is_early:
            self._end_early(runner.end.detail)
        return self._outcome(runner)

    def _end_early(self, failure: str) -> None:
        self._failure, self._reached = failure, False

    def _outcome(self, runner: WorldRunner[None]) -> RunOutcome:
        return RunOutcome(
            begin=self._snapshot,
            changes=self._ledger.changes(self._source_of),
            turns=self._ledger.turns(FIGHT_TURNS),
            writes=self._ledger.count,
            refused=tuple(self._refusals.refusals),
            user_writes=tuple(self._user_writes),
            refused_changes=tuple(self._refused_changes),
            loops=tuple(self._loops.found(runner.seconds)),
            looked_at=self._sources.looked_at,
            incomplete=self._sources.incomplete,
            failing=self._sources.failing,
            hot_loops=tuple(dict.fromkeys(self._hot_loops)),
            failure=self._failure,
            reached=self._reached,
            seconds=runner.seconds,
            callers=self._callers,
            connections=tuple(runner.connections),
            played=self._player.played,
            end=self._end,
        )

    async def _main(self) -> None:
        async with self._run.environment(self._snapshot) as env, Cluster(named(env.config, ADMIN)) as admin:
            env.journal.subscribe(self._on_write)
            await self._settle()
            operator = self._run.operator()
            operator.journal = self._sources
            operator.follows_definitions = False
            config = await self._install(env, admin.uncached, operator)
            running = asyncio.create_task(operator.start(config, hooks=[_HotLoopHook(self._hot_loops)]))
            try:
                self._phase, self._end_time = RunPhase.OPERATOR, monotonic() + self._run.horizon
                if self._run.history:
                    await self._play(env, running)
                await self._until_rest(running)
                self._phase = RunPhase.CHANGES
                for change in self._run.changes:
                    await self._make(change, admin.uncached)
                    await self._until_rest(running)
            finally:
                # What the end of the operator writes is not in the plan.
                self._ended_in, self._phase = self._phase, RunPhase.SETTLING
                self._failure = await stop_operator(operator, running)
            if self._run.keep_end:
                end = without_server(await take_snapshot(env.config, secret_values=True), CLIENT_CONFIG.url)
                end = replace(end, secret_values=self._snapshot.secret_values, unseen=self._snapshot.unseen)
                end = replace(end, left_out=self._snapshot.left_out, objects=with_callers(end.objects, self._callers))
                self._end = without_unread(with_certificates_of(end, self._snapshot))

    async def _make(self, change: Change, client: Client) -> None:
        """Make a change of the user. Raises `ChangeError` if its object or kind is not in the cluster."""
        try:
            await change(client)
        except (NotFoundError, NoMatchError) as error:
            raise ChangeError(f"your change cannot be made in this cluster: {error}{self._advice(error)}") from error
        except ApiError as error:
            self._refused_changes.append(str(error))

    def _advice(self, error: OpsdkError) -> str:
        """Return what to do if the snapshot does not have the kind of a missing object."""
        details = error.details if isinstance(error, NotFoundError) else Details()
        resource = f"{details.kind}.{details.group}" if details.group else details.kind
        refused = [each for each in self._snapshot.unseen if each.what == resource]
        if refused:
            return f". It may exist: the snapshot could not read {refused[0]}"
        kinds = {kind.resource for kind in self._snapshot.kinds}
        if not kinds or not resource or resource in kinds:
            return ""
        return (
            f". The operator does not use this kind, so the snapshot has no {resource}: "
            "write it with opsdk snapshot --all"
        )

    def _source_of(self, change: NetChange) -> WriteSource | None:
        deleted = change.after is None or "deletionTimestamp" in change.after["metadata"]
        return self._sources.source_of(change.revisions, change.latest, deleted=deleted)

    # -------------------------------------------------------------- phases
    def _on_write(self, entry: Entry) -> None:
        now = monotonic()
        if self._phase is RunPhase.SETTLING:
            self._settling.note_write(now)
            return
        is_users = self._phase is RunPhase.CHANGES and not is_ignored(entry)
        paths = self._ledger.add(entry, self._phase)
        if entry.writer.user == user_of(self._run.namespace):
            if self._loops.add(now, entry, paths):
                self._rest.note_write(now)
            self._player.note_write(entry)
        elif is_users and entry.writer.user not in {*OWN_USERS, PLAYER}:
            self._user_writes.append(entry)

    async def _settle(self) -> None:
        """Wait until the simulated controllers have nothing more to do. In a snapshot they nearly are."""
        settling = self._settling
        settling.begin(now := monotonic())
        while not (settling.is_reached(now) or settling.is_overdue(now)):
            await asyncio.sleep(_STEP)
            now = monotonic()

    async def _install(self, env: ForkEnvironment, client: Client, operator: Operator) -> RestConfig:
        """Install the operator. Returns the configuration of its clients."""
        self._phase = RunPhase.INSTALLATION
        await install_definitions(operator, env, client)
        # Webhook configurations and the role stand for those that an installation applies. They are not in the plan.
        self._phase = RunPhase.SETTLING
        config = await add_operator_user(operator, env, client, namespace=self._run.namespace, rules=self._run.rules)
        return self._refusals.around(config)

    async def _play(self, env: ForkEnvironment, running: asyncio.Task[None]) -> None:
        """Make the changes of the history while the operator runs."""
        self._end_time += self._run.history[-1].seconds
        user = env.add_user(PLAYER, groups=(MASTERS,))
        async with Cluster(named(user.config, PLAYER)) as others:
            playing = asyncio.create_task(self._player.play(others.uncached))
            try:
                await asyncio.wait([running, playing], return_when=asyncio.FIRST_COMPLETED)
                if playing.done():
                    playing.result()
            finally:
                playing.cancel()
                await asyncio.wait([playing])

    async def _until_rest(self, running: asyncio.Task[None]) -> None:
        """Wait until the operator is at rest, has ended, or has had its time."""
        rest, run = self._rest, self._run
        rest.begin(monotonic())
        while not rest.is_reached(now := monotonic()):
            if running.done():
                self._reached = False
                return
            if now >= self._end_time:
                self._reached &= not rest.wrote_within(min(run.quiet, run.horizon / 2), now)
                return
            await asyncio.wait([running], timeout=_STEP)


class _HotLoopHook(TelemetryHook):
    def __init__(self, found: list[str]) -> None:
        self._found = found

    def record(self, record: Record) -> None:
        if isinstance(record, HotLoopFound):
            self._found.append(f"controller {record.controller}: {record.request} {record.description}")


def _seed(seed: int, snapshot: ClusterSnapshot) -> int:
    """Return a seed that differs from that of the run which made the snapshot: else new uids would repeat its uids."""
    text = f"{seed} {snapshot.taken_at} {snapshot.resource_version} {len(snapshot.objects)}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def _epoch(snapshot: ClusterSnapshot) -> datetime:
    try:
        return datetime.fromisoformat(snapshot.taken_at).astimezone(UTC)
    except ValueError as error:
        raise SnapshotError(f"the snapshot was taken at {snapshot.taken_at!r}, which is not a time") from error
