"""A leader in a cluster, and another version of it in a shadow, both in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from msgspec.structs import replace
from planned_worlds import Requests, Scenario, act, deployed

import envtest
from opsdk import ObjectMeta, Operator
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.engine.determinism import seeded_entropy
from opsdk.engine.environments import environment_factory
from opsdk.engine.shadow.outcome import Disagreement, ShadowOutcome
from opsdk.engine.shadow.run import ShadowRun
from opsdk.engine.snapshot import ClusterSnapshot
from opsdk.engine.snapshot_reader import take_snapshot
from opsdk.engine.webhooks import CLIENT_CONFIG, serve_in_process
from opsdk.rbac.permissions import RuleSet
from opsdk.recipes.definitions import apply_definitions
from opsdk.rest.config import RestConfig
from opsdk.testing.doubles import EMPTY_CLUSTER
from opsdk.testing.loop import VirtualLoop
from opsdk.testing.running import running
from tests.engine.upgrades import ALL, App, AppSpec, Version, without_kinds

Play = Callable[[Client], Awaitable[None]]
"""What users do in the cluster while the shadow runs."""
_REST = 60.0
_ACTIONS = 6


@dataclass(kw_only=True)
class Shadowed:
    """What a comparison gave.

    Attributes:
        outcome: of the run.
        reported: disagreements, in the order in which they were found.
        methods: of the shadow's requests to the cluster.
    """

    outcome: ShadowOutcome
    reported: list[Disagreement] = field(default_factory=list)
    methods: set[str]

    @property
    def texts(self) -> list[str]:
        """Subject and field of each disagreement that lasts."""
        return [f"{each.subject} {each.path}".strip() for each in self.outcome.disagreements]


def shadow(
    leader: Version | None,
    version: Version,
    play: Play,
    *,
    apps: int = 1,
    seed: int = 0,
    without: Collection[str] = (),
    late: Play | None = None,
) -> Shadowed:
    """Run a version beside a leader; None is a cluster without one.

    Args:
        leader: the version that runs in the cluster.
        version: the version in the shadow.
        play: what happens in the cluster meanwhile.
        apps: number of Apps that exist before.
        seed: of the order of callbacks.
        without: resources that the shadow may not list.
        late: what happens after the snapshot, and before the shadow runs.
    """
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(seed)) as runner:
        return runner.run(_shadow(leader, version, play, apps=apps, without=without, late=late))


def shadow_world(scenario: Scenario, seed: int) -> Shadowed:
    """Run the operator of a scenario, or its later version, beside itself, while users do what they do."""
    with seeded_entropy(seed), asyncio.Runner(loop_factory=lambda: VirtualLoop(seed)) as runner:
        return runner.run(_shadow_world(scenario, seed))


async def _shadow_world(scenario: Scenario, seed: int) -> Shadowed:
    rng = random.Random(seed)
    make_operator = scenario.factory(EMPTY_CLUSTER)

    async def play(client: Client) -> None:
        for _ in range(_ACTIONS):
            await act(rng.choice(scenario.actions), client, rng.randrange(2**30))
            await asyncio.sleep(rng.choice([0.0, 0.2, 1.0, 5.0, 30.0]))
        await asyncio.sleep(_REST)

    async with envtest.Environment(controllers="cluster") as env, Cluster(env.config) as cluster:
        client = cluster.uncached
        async with deployed(make_operator(), env, client):
            await play(client)
            operator = (scenario.upgraded or scenario.factory(EMPTY_CLUSTER))()
            return await beside(env.config, operator, play, client=client, rules=ALL)


async def _shadow(
    leader: Version | None, version: Version, play: Play, *, apps: int, without: Collection[str], late: Play | None
) -> Shadowed:
    operator = (leader or version).operator()
    async with AsyncExitStack() as stack:
        env = await stack.enter_async_context(envtest.Environment(controllers="cluster"))
        client = (await stack.enter_async_context(Cluster(env.config))).uncached
        serve_in_process(operator, env.local_apps)
        await apply_definitions(client, operator.definitions(CLIENT_CONFIG), field_owner="opsdk-deploy")
        if leader is not None:
            config = replace(env.config, user_agent=f"{operator.name}/opsdk")
            await stack.enter_async_context(running(operator, config, definitions=False))
        for number in range(apps):
            meta = ObjectMeta(name=f"app-{number}", namespace="default")
            await client.create(App(metadata=meta, spec=AppSpec(backup="daily")), field_owner="user")
        await asyncio.sleep(_REST)
        taken = without_kinds(await take_snapshot(env.config, secret_values=True), without)
        if late is not None:
            await late(client)
        return await beside(env.config, version.operator(), play, client=client, rules=version.rules, taken=taken)


async def beside(
    config: RestConfig,
    operator: Operator,
    play: Play,
    *,
    client: Client,
    rules: RuleSet,
    taken: ClusterSnapshot | None = None,
) -> Shadowed:
    """Run an operator in the shadow of a cluster whose leader runs already, until the play has ended and settled.

    Args:
        config: of the cluster's admin.
        operator: in the shadow.
        play: what happens in the cluster meanwhile.
        client: of the play.
        rules: permissions of the operator.
        taken: the snapshot that the shadow begins with; None for a new one.
    """
    reported: list[Disagreement] = []
    assert config.app is not None
    requests = Requests(config.app)
    run = ShadowRun(
        snapshot=taken or await take_snapshot(config, secret_values=True),
        operator=operator,
        environment=environment_factory(controllers="none"),
        cluster=replace(config, app=requests),
        rules=rules,
        report=reported.append,
    )
    stop = asyncio.Event()
    comparison = asyncio.create_task(run.run(stop))
    await asyncio.sleep(1.0)
    await play(client)
    await asyncio.sleep(_REST)
    stop.set()
    return Shadowed(outcome=await comparison, reported=reported, methods=requests.methods)
