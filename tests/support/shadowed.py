"""A leader in a cluster, and another version of it in a shadow, both in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from msgspec.structs import replace

import envtest
from opsdk import ObjectMeta
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.engine.environments import environment_factory
from opsdk.engine.shadow.comparison import Disagreement
from opsdk.engine.shadow.run import ShadowOutcome, ShadowRun
from opsdk.engine.snapshot_reader import take_snapshot
from opsdk.engine.webhooks import CLIENT_CONFIG, serve_in_process
from opsdk.http.asgi_types import App, Receive, Scope, Send
from opsdk.recipes.definitions import apply_definitions
from opsdk.rest.config import Config
from opsdk.testing.loop import VirtualLoop
from opsdk.testing.running import running
from upgrades import AppSpec, Version
from upgrades import App as AppKind

Play = Callable[[Client], Awaitable[None]]
"""What users do in the cluster while the shadow runs."""
_REST = 60.0


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
    methods: set[str] = field(default_factory=set)

    @property
    def texts(self) -> list[str]:
        """Subject and field of each disagreement that lasts."""
        return [f"{each.subject} {each.path}".strip() for each in self.outcome.disagreements]


def shadow(
    leader: Version | None, version: Version, play: Play, *, apps: int = 1, seconds: float = 120.0, seed: int = 0
) -> Shadowed:
    """Run a version beside a leader; None is a cluster without one.

    Args:
        leader: the version that runs in the cluster.
        version: the version in the shadow.
        play: what happens in the cluster meanwhile.
        apps: number of Apps that exist before.
        seconds: of the comparison.
        seed: of the order of callbacks.
    """
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(seed)) as runner:
        return runner.run(_shadow(leader, version, play, apps, seconds))


async def _shadow(leader: Version | None, version: Version, play: Play, apps: int, seconds: float) -> Shadowed:
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
            await client.create(AppKind(metadata=meta, spec=AppSpec(backup="daily")), field_owner="user")
        await asyncio.sleep(_REST)
        return await beside(env.config, version, play, client=client, seconds=seconds)


async def beside(config: Config, version: Version, play: Play, *, client: Client, seconds: float) -> Shadowed:
    """Run a version in the shadow of a cluster whose leader runs already.

    Args:
        config: of the cluster's admin.
        version: in the shadow.
        play: what happens in the cluster meanwhile.
        client: of the play.
        seconds: of the comparison.
    """
    reported: list[Disagreement] = []
    methods: set[str] = set()
    assert config.app is not None
    run = ShadowRun(
        snapshot=await take_snapshot(config, secret_values=True),
        operator=version.operator(),
        environment=environment_factory(controllers="none"),
        cluster=replace(config, app=_recorded(config.app, methods)),
        reconciled=["App"],
        rules=version.rules,
        seconds=seconds,
        report=reported.append,
    )
    comparison = asyncio.create_task(run.run(asyncio.Event()))
    await asyncio.sleep(1.0)
    await play(client)
    return Shadowed(outcome=await comparison, reported=reported, methods=methods)


def _recorded(app: App, methods: set[str]) -> App:
    async def recorded(scope: Scope, receive: Receive, send: Send) -> None:
        methods.add(scope["method"])
        await app(scope, receive, send)

    return recorded
