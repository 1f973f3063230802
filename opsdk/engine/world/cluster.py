"""The cluster of a run: an environment, and replicas of the operator behind links that apply faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, Self

from msgspec.structs import replace

from opsdk.aio.closing import Closing
from opsdk.aio.randomness import seeded
from opsdk.aio.tasks import until_set
from opsdk.builder.operator import Operator
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.controller.journal import ReconcileRecord
from opsdk.engine.policies import apply_policies
from opsdk.engine.running_environment import RunningEnvironment
from opsdk.engine.webhooks import InProcessWebhooks, apply_configurations
from opsdk.engine.world.declaration import Action, SimulatedOperator, World, name_of
from opsdk.engine.world.invariants import LeaseLedger, calm_violations, hot_loops, restart_violations
from opsdk.engine.world.replica import Observer, Replica
from opsdk.errors import InternalServerError
from opsdk.http.asgi_types import App, Receive, Scope, Send
from opsdk.recipes.definitions import apply_definitions
from opsdk.webhook.configurations import WebhookClientConfig

# Seconds until a new leader is elected and has reconciled everything once.
_GRACE: Final = 45.0
# Checks, one each five seconds, whether informers watch again: longer than the timeout of a list, and a pause after it.
_RECONNECT_CHECKS: Final = 40
# Fixed User-Agents: the default names the running program, and is the default field manager.
_USER_AGENT: Final = "simulation/1"
_USERS: Final = "user/1"
_FIELD_OWNER: Final = "simulation"
_AUTHORITY: Final = "webhooks.simulation:443"
_CLIENT_CONFIG: Final = WebhookClientConfig(url=f"https://{_AUTHORITY}")
_POLL_SECONDS: Final = 0.02
# Without these, deleted owners keep their children, and deleted namespaces never end.
_CONTROLLERS: Final = ("garbage-collector", "namespace")
# Seconds between two tries of an action whose webhook no replica serves, and their number.
_ACTION_PAUSE: Final = 1.0
_ACTION_TRIES: Final = 60


class SimulatedCluster(Closing):
    """The environment and the replicas of one run; an async context manager.

    Args:
        declared: the operator and its invariants.
        observer: records the activity of the replicas.
    """

    env: RunningEnvironment
    client: Client

    def __init__(self, declared: SimulatedOperator, observer: Observer) -> None:
        self._declared, self.observer = declared, observer
        self.replicas: list[Replica] = []
        self.user_writes: list[str] = []
        """Method and path of each write of the actions."""
        self._ledger = LeaseLedger()
        self._doubles = declared.new_doubles()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opened:
            await self._open(opened)
            self._stack = opened.pop_all()
        return self

    async def _open(self, stack: AsyncExitStack) -> None:
        declared = self._declared
        self.env = env = await stack.enter_async_context(declared.environment())
        config = replace(env.config, user_agent=_USER_AGENT)
        assert config.app is not None
        users = replace(config, app=_recorded(config.app, self.user_writes), user_agent=_USERS)
        self.client = (await stack.enter_async_context(Cluster(users))).uncached
        await env.ensure_controllers(_CONTROLLERS)
        operator = self._doubles.operator()
        # A start may import all modules anew: the first replica starts with the operator that is there already.
        starts = [_beginning_with(operator, self._doubles.operator)]
        starts += [self._doubles.operator] * (declared.replicas - 1)
        self.replicas = [
            Replica(number, start, config, self.observer, self._ledger) for number, start in enumerate(starts)
        ]
        if operator.has_webhooks:
            env.local_apps[_AUTHORITY] = InProcessWebhooks(lambda: [each.webhook_app for each in self.replicas])
            definitions = operator.definitions(_CLIENT_CONFIG)
            # A test server establishes a definition immediately.
            await apply_definitions(self.client, definitions, poll_interval=_POLL_SECONDS)
            await apply_configurations(self.client, operator, _CLIENT_CONFIG, field_owner=_FIELD_OWNER)
        await apply_policies(self.client, operator, field_owner=_FIELD_OWNER)
        for replica in self.replicas:
            replica.start()
            stack.push_async_callback(replica.aclose)

    @property
    def systems(self) -> Any:
        """The doubles of external systems, see `Doubles.systems`."""
        return self._doubles.systems

    async def aclose(self) -> None:
        """Stop the replicas, and close the environment."""
        await self._stack.aclose()

    def is_standby(self, client: str) -> bool:
        """Whether a client holds none of the Leases, and another one does."""
        holders = set(filter(None, self._ledger.holders.values()))
        return bool(holders) and client not in holders

    def world(self, seed: int) -> World:
        """Return the argument of an action, with the random numbers of a seed."""
        return World(
            client=self.client,
            rng=seeded(seed),
            env=self.env,
            exchanges=self.observer.exchanges,
            systems=self.systems,
        )

    async def act(self, action: Action, seed: int) -> None:
        """Call an action. While no replica serves a webhook, the server answers with 500: then it is tried again."""
        for attempts_left in reversed(range(_ACTION_TRIES)):
            try:
                await action(self.world(seed))
            except InternalServerError as error:
                if "failed calling webhook" not in str(error) or not attempts_left:
                    raise
                await asyncio.sleep(_ACTION_PAUSE)
            else:
                return

    def heal(self) -> None:
        """End all faults, and start the replicas that are absent."""
        for replica in self.replicas:
            replica.link.heal()
            replica.wake()

    async def until_exhausted(self, play: Coroutine[Any, Any, list[str]]) -> list[str]:
        """Return the violations of a run, or none when a replica exceeds its budget of writes: that is a violation."""
        return await until_set(self.observer.exhausted, play) or []

    # -------------------------------------------------------------- the judgement
    async def judge(self, seed: int) -> list[str]:
        """Return the violations at the end of a run: of convergence, of the calm after it, and of the checks."""
        problems = await self.rest_violations(seed) or await self.failed_checks(self._declared.at_rest, seed)
        return problems or await self.restart()

    async def rest_violations(self, seed: int) -> list[str]:
        """Return the violations until the operator is at rest."""
        if (problem := await self._settle(seed)) is not None:
            return [f"converged: {problem}"]
        await self._wait_connected()
        # A new leader may still reconcile every object, and status updates of the last change follow.
        await asyncio.sleep(_GRACE)
        count = len(self.observer.exchanges)
        await asyncio.sleep(self._declared.calm)
        violations = calm_violations(self.observer.exchanges[count:], self._declared.calm)
        return violations + await self.failed_checks((self._declared.check, *self._declared.invariants), seed)

    async def _wait_connected(self) -> None:
        """Wait until each informer has a watch, or for some minutes.

        A request that vanished in a black hole ends by its timeout only, and the cache is old until then.
        """
        for _ in range(_RECONNECT_CHECKS):
            if all(each.is_connected for each in self.replicas):
                return
            await asyncio.sleep(5.0)

    async def failed_checks(self, checks: Iterable[Action], seed: int) -> list[str]:
        """Return the checks that do not hold now: name and reason."""
        problems = []
        for check in checks:
            try:
                await check(self.world(seed))
            except AssertionError as error:
                problems.append(f"{name_of(check)}: {_text(error)}")
        return problems

    async def restart(self) -> list[str]:
        """Restart every replica at rest. Returns the writes: each object is reconciled again, and has what it needs."""
        count = len(self.observer.exchanges)
        for replica in self.replicas:
            await replica.restart(0.0, crash=False)
        await asyncio.sleep(_GRACE)
        return restart_violations(self.observer.exchanges[count:])

    async def _settle(self, seed: int) -> str | None:
        """Wait until the check passes. Returns its last error if it never does."""
        deadline = asyncio.get_running_loop().time() + self._declared.settle
        while True:
            try:
                await self._declared.check(self.world(seed))
            except AssertionError as error:
                if asyncio.get_running_loop().time() >= deadline:
                    return _text(error)
            else:
                return None
            await asyncio.sleep(5.0)

    def violations(self, found: Sequence[str]) -> tuple[str, ...]:
        """Return all violations of a run: those that were found at its end, and those that were seen meanwhile."""
        observer = self.observer
        problems = [*found, *observer.violations, *self._ledger.violations, *hot_loops(observer.exchanges)]
        return tuple(dict.fromkeys(problems))

    @property
    def records(self) -> list[ReconcileRecord]:
        """The reconciles of all replicas, by time."""
        records = [record for replica in self.replicas for journal in replica.journals for record in journal.find()]
        return sorted(records, key=lambda record: record.started_at)


def _recorded(app: App, writes: list[str]) -> App:
    async def recorded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] != "GET":
            writes.append(f"{scope['method']} {scope['path']}")
        await app(scope, receive, send)

    return recorded


def _text(error: AssertionError) -> str:
    return str(error).partition("\n")[0] or "the check failed"


def _beginning_with(first: Operator, create: Callable[[], Operator]) -> Callable[[], Operator]:
    """Return a function that returns an operator once, and then new ones."""
    ready = [first]
    return lambda: ready.pop() if ready else create()
