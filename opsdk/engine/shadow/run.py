"""Runs an operator beside its running leader: the cluster is read, and the operator writes into a fork of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import msgspec

from opsdk.aio.clock import monotonic
from opsdk.apimachinery.tree_names import key_of_tree
from opsdk.builder.operator import Operator
from opsdk.cluster.cluster import Cluster
from opsdk.engine.connections import refuse_connections
from opsdk.engine.installation import (
    ADMIN,
    add_operator_user,
    install_definitions,
    named,
    stop_operator,
    user_of,
)
from opsdk.engine.isolation import isolate
from opsdk.engine.net_changes import is_ignored
from opsdk.engine.read_only import ReadOnlyTransport
from opsdk.engine.recording import FailureJournal, RefusalRecorder
from opsdk.engine.running_environment import ForkEnvironment
from opsdk.engine.shadow.comparison import ShadowComparison
from opsdk.engine.shadow.follower import ClusterEvent, ClusterFollower
from opsdk.engine.shadow.outcome import Disagreement, ShadowOutcome
from opsdk.engine.snapshot import ClusterSnapshot, Unseen
from opsdk.engine.snapshot_kinds import UnreadKinds, blind_spots
from opsdk.engine.writes import Entry
from opsdk.rbac.permissions import RuleSet
from opsdk.rest.config import RestConfig
from opsdk.structured_merge.value import JsonObject

__all__ = ["ShadowRun"]

_LOOK: Final = 0.5
"""Seconds between two looks at what is due."""
_NOT_FOLLOWED: Final = frozenset({
    "admissionregistration.k8s.io/mutatingadmissionpolicies",
    "admissionregistration.k8s.io/mutatingadmissionpolicybindings",
    "admissionregistration.k8s.io/mutatingwebhookconfigurations",
    "admissionregistration.k8s.io/validatingadmissionpolicies",
    "admissionregistration.k8s.io/validatingadmissionpolicybindings",
    "admissionregistration.k8s.io/validatingwebhookconfigurations",
    "apiextensions.k8s.io/customresourcedefinitions",
    "apiregistration.k8s.io/apiservices",
})  # fmt: skip
"""Kinds whose objects in the fork are those of the version that runs there."""


@dataclass(kw_only=True)
class ShadowRun:
    """One comparison of an operator with its leader.

    Args:
        snapshot: of the cluster, with the values of Secrets.
        operator: that runs in the fork.
        environment: makes the environment with the objects of a snapshot, without simulated controllers.
        cluster: configuration of the cluster's clients, which only read.
        leader: field managers of the leader; the operator's own one is among them.
        namespace: of the operator.
        wait: seconds that one side may be later than the other.
        seconds: of the comparison.
        allowed_hosts: that the operator may reach beside the fork.
        rules: the permissions of the operator; None for those that it declares.
        begun: called when the operator runs, and what happens in the cluster is compared from now on.
        report: called with each disagreement when it is found, or has new values.
    """

    snapshot: ClusterSnapshot
    operator: Operator
    environment: Callable[[ClusterSnapshot], AbstractAsyncContextManager[ForkEnvironment]]
    cluster: RestConfig
    leader: Collection[str] = ()
    namespace: str = "default"
    wait: float = 10.0
    seconds: float = 86_400.0
    allowed_hosts: Sequence[str] = ()
    rules: RuleSet | None = None
    begun: Callable[[], None] = lambda: None
    report: Callable[[Disagreement], None] = lambda _: None

    def __post_init__(self) -> None:
        self._unseen = [*isolate(self.snapshot).unseen]
        self._unread = UnreadKinds(self.snapshot)
        self._hidden: dict[str, Unseen] = {}
        self._events: asyncio.Queue[ClusterEvent | Entry] = asyncio.Queue()
        managers = {self.operator.options.cluster.field_owner or self.operator.name, self.operator.name, *self.leader}
        self._leaders = frozenset(managers)
        self._comparison = ShadowComparison(managers, wait=self.wait)
        self._buckets = {(kind.api_version, kind.kind): kind.bucket for kind in self.snapshot.kinds}
        self._failures, self._refusals = FailureJournal(), RefusalRecorder()
        self._begin: float | None = None

    async def run(self, stop: asyncio.Event) -> ShadowOutcome:
        """Compare for as long as asked, or until `stop` is set. Raises `OpsdkError` if the cluster cannot be read."""
        # Names are looked up in threads, which have no task that could be exempt.
        host = urlsplit(self.cluster.host).hostname or ""
        with refuse_connections(self.allowed_hosts, names=[host]) as connections:
            failure = await self._run(stop)
        rules = self.rules if self.rules is not None else self.operator.rules(namespace=self.namespace)
        unseen = tuple(dict.fromkeys((*self._unseen, *self._hidden.values())))
        owned, last_write = self._comparison.owned(self.snapshot.objects)
        snapshot = msgspec.structs.replace(self.snapshot, unseen=unseen)
        return ShadowOutcome(
            operator=self.operator.name,
            disagreements=self._comparison.disagreements,
            agreed=self._comparison.agreed,
            late=self._comparison.late,
            decisions=self._comparison.decisions,
            managers=sorted(self._leaders),
            owned=owned,
            last_write=last_write,
            missed=self._comparison.missed,
            others=dict(sorted(self._comparison.others.items())),
            seconds=0.0 if self._begin is None else monotonic() - self._begin,
            failure=failure,
            failing=[str(record) for record in self._failures.failing],
            refused=self._refusals.refusals,
            unseen=unseen,
            blind=tuple(dict.fromkeys((*blind_spots(snapshot, rules), *self._hidden.values()))),
            connections=list(connections),
        )

    async def _run(self, stop: asyncio.Event) -> str:
        kinds = [kind for kind in self.snapshot.kinds if kind.bucket not in _NOT_FOLLOWED]
        async with (
            self.environment(self.snapshot) as env,
            Cluster(named(env.config, ADMIN)) as admin,
            ReadOnlyTransport(self.cluster) as transport,
            ClusterFollower(transport, kinds, self._events.put_nowait) as follower,
        ):
            self._unseen += await follower.start()
            self._unread = UnreadKinds(msgspec.structs.replace(self.snapshot, unseen=self._unseen))
            await self._catch_up(env, follower)
            await install_definitions(self.operator, env, admin.uncached)
            config = await add_operator_user(
                self.operator, env, admin.uncached, namespace=self.namespace, rules=self.rules
            )
            self.operator.journal = self._failures
            self.operator.follows_definitions = False
            env.journal.subscribe(self._on_write)
            self._begin = monotonic()
            running = asyncio.create_task(self.operator.start(self._refusals.around(config)))
            self.begun()
            others = [asyncio.create_task(stop.wait()), asyncio.create_task(self._follow(env, follower))]
            try:
                await self._compare(env, follower, [running, *others])
            finally:
                for task in others:
                    task.cancel()
                await asyncio.wait(others)
                failure = await stop_operator(self.operator, running)
            for task in others:
                if not task.cancelled():
                    task.result()
            while not self._events.empty():
                if isinstance(event := self._events.get_nowait(), ClusterEvent):
                    self._comparison.on_missed_event(event.before, event.after)
            return failure

    async def _catch_up(self, env: ForkEnvironment, follower: ClusterFollower) -> None:
        """Give the fork what changed in the cluster since the snapshot."""
        listed = set[str]()
        taken = {self._key(obj): obj for obj in self.snapshot.objects}
        while not self._events.empty():
            event = self._events.get_nowait()
            assert isinstance(event, ClusterEvent)
            listed.add(event.key)
            self._comparison.on_missed_event(taken.get(event.key), event.after)
            if not _is_stored(env.stored(event.key), event.after):
                await env.place(event.key, event.after)
        for key, obj in taken.items():
            if key not in listed and follower.follows(key):
                self._comparison.on_missed_event(obj, None)
                await env.place(key, None)

    def _key(self, obj: JsonObject) -> str:
        """Return the storage key of an object of the snapshot."""
        return f"{self._buckets.get((obj['apiVersion'], obj['kind']), '')}/{key_of_tree(obj)}"

    # -------------------------------------------------------------- while it lasts
    async def _compare(
        self, env: ForkEnvironment, follower: ClusterFollower, ending: Sequence[asyncio.Task[object]]
    ) -> None:
        assert self._begin is not None
        end = self._begin + self.seconds
        while monotonic() < end and not any(task.done() for task in ending):
            await self._judge(env, follower)
            await asyncio.wait(ending, timeout=min(_LOOK, max(end - monotonic(), 0.0)), return_when="FIRST_COMPLETED")

    async def _follow(self, env: ForkEnvironment, follower: ClusterFollower) -> None:
        while True:
            event = await self._events.get()
            if isinstance(event, Entry):
                await self._apply_own(env, follower, event)
            else:
                await self._apply(env, follower, event)

    async def _apply_own(self, env: ForkEnvironment, follower: ClusterFollower, entry: Entry) -> None:
        """Pass a write of the operator to the comparison."""
        if entry.writer.manager:
            self._comparison.add_manager(entry.writer.manager)
        self._comparison.on_shadow_write(self._now(), entry.key, entry.before, entry.after)
        stored, live = env.stored(entry.key), follower.get(entry.key)
        if stored is None or live is None:
            return
        if entry.before is None or _generation(stored) != _generation(live):
            await self._place(env, entry.key, self._comparison.adopted(stored, live), live)

    async def _apply(self, env: ForkEnvironment, follower: ClusterFollower, event: ClusterEvent) -> None:
        """Pass a change of the cluster to the comparison, and to the fork."""
        obj = event.after or event.before
        assert obj is not None
        forked = env.stored(event.key)
        desired = self._comparison.on_cluster_event(
            self._now(),
            event.key,
            event.before,
            event.after,
            fork=forked,
            collected=follower.is_collected(obj, follower.get),
        )
        if desired is not forked:
            await self._place(env, event.key, desired, event.after)

    async def _judge(self, env: ForkEnvironment, follower: ClusterFollower) -> None:
        """Compare what is due, as long as no change of the cluster waits: the follower's store is newer than that."""
        for key in self._comparison.due(self._now()):
            if not self._events.empty():
                return
            stored = env.stored(key)
            if stored is not None and follower.get(key) is None and follower.is_collected(stored, env.stored):
                # Nothing collects garbage in the fork.
                await env.place(key, None)
            judgement = self._comparison.judge(self._now(), key, cluster=follower.get, fork=env.stored)
            for disagreement in judgement.disagreements:
                self.report(disagreement)
            for place, obj in judgement.placements.items():
                await self._place(env, place, obj, obj)

    async def _place(self, env: ForkEnvironment, key: str, obj: JsonObject | None, live: JsonObject | None) -> None:
        await env.place(key, obj)
        stored = env.stored(key)
        if stored is not None and live is not None:
            self._comparison.on_placement(stored, live)

    def _on_write(self, entry: Entry) -> None:
        """Take note of a write in the fork. It is not compared here: the storage is in the middle of the write.

        Nothing is compared with an object that was not read: the leader may have it.
        """
        if entry.writer.user != user_of(self.namespace) or is_ignored(entry):
            return
        if (reason := self._unread.reason(entry.ref)) is None:
            self._events.put_nowait(entry)
        else:
            self._hidden[reason.what] = reason

    def _now(self) -> float:
        return monotonic() - (self._begin or 0.0)


def _generation(obj: JsonObject) -> object:
    return obj["metadata"].get("generation")


def _is_stored(stored: JsonObject | None, obj: JsonObject | None) -> bool:
    """Whether the fork has an object as the cluster has it: the snapshot keeps resource versions."""
    if stored is None or obj is None:
        return stored is obj
    return bool(stored["metadata"].get("resourceVersion") == obj["metadata"].get("resourceVersion"))
