"""Seeded worlds: an operator with a history, a plan for the next change, and what then really happens."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

import envtest
from opsdk import Operator
from opsdk.aio.clock import monotonic
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.engine.determinism import seeded_entropy
from opsdk.engine.doubles import EMPTY_CLUSTER, DoublesFactory, factory_of
from opsdk.engine.ledger import WriteLedger
from opsdk.engine.net_changes import NetChange
from opsdk.engine.recording import RunPhase
from opsdk.engine.run import Change, OperatorRun
from opsdk.engine.snapshot import ClusterSnapshot
from opsdk.engine.snapshot_reader import take_snapshot
from opsdk.engine.webhooks import CLIENT_CONFIG, apply_configurations, serve_in_process
from opsdk.engine.writes import OWN_USERS
from opsdk.errors import NotFoundError
from opsdk.http.asgi_types import App, Receive, Scope, Send
from opsdk.rbac.permissions import Permission, RuleSet
from opsdk.recipes.definitions import apply_definitions
from opsdk.structured_merge.value import JsonValue
from opsdk.testing.loop import VirtualLoop
from opsdk.testing.running import running
from opsdk.testing.simulate import Action, World

_QUIET = 600.0
_MAX_ACTIONS = 6
_DEPLOYER = "opsdk-deploy"
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_RANDOM = (
    "uid",
    "resourceVersion",
    "secretVersion",
    "lastTransitionTime",
    "lastUpdateTime",
    "time",
    "Time",
    "clusterIP",
    "clusterIPs",
)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """An operator and the actions of its users.

    Attributes:
        operator: makes it; not with `doubles`.
        doubles: makes the doubles of its external systems, and with them the operator.
        actions: the workload.
        upgraded: makes a later version of it, which runs from the snapshot on.
    """

    operator: Callable[[], Operator] | None = None
    doubles: DoublesFactory | None = None
    actions: Sequence[Action]
    upgraded: Callable[[], Operator] | None = None

    def factory(self, snapshot: ClusterSnapshot) -> Callable[[], Operator]:
        """Return what makes the operator, on doubles with the state of a snapshot."""
        return factory_of(self.operator, self.doubles)(snapshot).operator


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What was planned, and what happened.

    Attributes:
        planned: the net changes of the plan, by object.
        happened: those of the live cluster.
        methods: the HTTP methods of the plan's requests to the live cluster.
        connections: what the operator tried to reach outside of the fork.
    """

    planned: Mapping[str, JsonValue]
    happened: Mapping[str, JsonValue]
    methods: frozenset[str]
    connections: Sequence[str]

    @property
    def is_exact(self) -> bool:
        """Whether both are equal."""
        return self.planned == self.happened

    @property
    def difference(self) -> str:
        """The objects whose changes differ, one a line."""
        subjects = {**self.planned, **self.happened}
        return "\n".join(
            f"{subject}: planned {self.planned.get(subject)}, happened {self.happened.get(subject)}"
            for subject in subjects
            if self.planned.get(subject) != self.happened.get(subject)
        )


def compare(scenario: Scenario, seed: int) -> Comparison:
    """Play one world: its history, the snapshot, the next action, and the plan for it."""
    snapshot, methods, happened = _live(scenario, seed)
    outcome = OperatorRun(
        snapshot=snapshot,
        operator=scenario.upgraded or scenario.factory(snapshot),
        environment=lambda state: envtest.Environment(controllers="cluster", snapshot=state),
        changes=[_change(scenario, seed)],
        # Some operators of tests declare no permissions: they run as an admin.
        rules=RuleSet([Permission("*", "*", "*")]),
        seed=seed + 1,
    ).execute()
    assert not outcome.failure, outcome.failure
    return Comparison(
        planned=_comparable(outcome.changes), happened=happened, methods=methods, connections=outcome.connections
    )


_Live = tuple[ClusterSnapshot, frozenset[str], Mapping[str, JsonValue]]


def world_of(scenario: Scenario, seed: int) -> tuple[ClusterSnapshot, Change]:
    """Return the cluster after the history of one world, and the next action as a change."""
    return _live(scenario, seed)[0], _change(scenario, seed)


def _change(scenario: Scenario, seed: int) -> Change:
    action, action_seed = _next_action(scenario, seed)

    async def change(client: Client) -> None:
        await act(action, client, action_seed)

    return change


def _live(scenario: Scenario, seed: int) -> _Live:
    """Return the state after a seeded history, how it was read, and what the next action really changes."""
    with seeded_entropy(seed), asyncio.Runner(loop_factory=lambda: VirtualLoop(seed)) as runner:
        return runner.run(_play(scenario, seed))


async def _play(scenario: Scenario, seed: int) -> _Live:
    rng = random.Random(seed)
    ledger = WriteLedger(OWN_USERS)
    async with envtest.Environment(controllers="cluster") as env, Cluster(env.config) as cluster:
        make_operator = scenario.factory(EMPTY_CLUSTER)
        async with deployed(make_operator(), env, cluster.uncached):
            for _ in range(rng.randint(1, _MAX_ACTIONS)):
                await act(rng.choice(scenario.actions), cluster.uncached, rng.randrange(2**30))
                await asyncio.sleep(rng.choice([0.0, 1.0, 30.0]))
            await _rest(env)
        requests = Requests(env.config.app)
        snapshot = await take_snapshot(replace(env.config, app=requests), secret_values=True)
        env.journal.subscribe(lambda entry: ledger.add(entry, RunPhase.CHANGES))
        async with deployed((scenario.upgraded or make_operator)(), env, cluster.uncached):
            await _rest(env)
            action, action_seed = _next_action(scenario, seed)
            await act(action, cluster.uncached, action_seed)
            await _rest(env)
    return snapshot, frozenset(requests.methods), _comparable(ledger.changes(lambda _: None))


class Requests:
    """Passes requests on, and notes their methods."""

    def __init__(self, app: App | None) -> None:
        assert app is not None
        self._app = app
        self.methods = set[str]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI 3."""
        self.methods.add(scope["method"])
        await self._app(scope, receive, send)


@asynccontextmanager
async def deployed(operator: Operator, env: envtest.Environment, client: Client) -> AsyncIterator[None]:
    """Install an operator as a deployment does, and run it."""
    serve_in_process(operator, env.local_apps)
    await apply_definitions(client, operator.definitions(CLIENT_CONFIG), field_owner=_DEPLOYER)
    await apply_configurations(client, operator, CLIENT_CONFIG, field_owner=_DEPLOYER)
    config = replace(env.config, user_agent=f"{operator.name}/opsdk")
    async with running(operator, config, definitions=False):
        yield


async def _rest(env: Any) -> None:
    """Wait until nothing was written for a while."""
    count, since = env.journal.count, monotonic()
    while monotonic() - since < _QUIET:
        await asyncio.sleep(5.0)
        if env.journal.count != count:
            count, since = env.journal.count, monotonic()


def _next_action(scenario: Scenario, seed: int) -> tuple[Action, int]:
    rng = random.Random(seed + 10**6)
    return rng.choice(scenario.actions), rng.randrange(2**30)


async def act(action: Action, client: Client, seed: int) -> None:
    """Call an action. An object that the operator deletes meanwhile makes it do nothing."""
    with suppress(NotFoundError):
        await action(World(client=client, rng=random.Random(seed), env=None, exchanges=()))


def _comparable(changes: Mapping[str, NetChange]) -> dict[str, JsonValue]:
    """Return actions and differences, without values that are random or the time."""
    return {
        _subject(change): [
            change.action.value,
            *(
                f"{each.path}: {_text(each.path, each.old)} -> {_text(each.path, each.new)}"
                for each in sorted(change.differences, key=lambda each: each.path)
            ),
        ]
        for change in changes.values()
        if change.own and (change.action.value != "update" or change.differences)
    }


def _subject(change: NetChange) -> str:
    """Return the object; a generated name ends at random."""
    metadata = change.latest["metadata"]
    generated = metadata.get("generateName")
    return change.subject.replace(metadata["name"], f"{generated}*") if generated else change.subject


def _text(path: str, value: JsonValue) -> str:
    # The order of keys depends on who wrote an object first, and on what a snapshot read.
    return _UUID.sub("...", json.dumps(_masked(path, value), sort_keys=True))


def _masked(path: str, value: JsonValue) -> JsonValue:
    if path.rpartition(".")[2].endswith(_RANDOM):
        return "..."
    if isinstance(value, dict):
        hidden = {"name": "..."} if value.get("generateName") else {}
        return {name: _masked(f"{path}.{name}", item) for name, item in value.items()} | hidden
    if isinstance(value, list):
        return [_masked(path, item) for item in value]
    return value
