"""Two replicas of an operator: at no moment do both reconcile."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any

import pytest

import envtest
from opsdk import Cluster, MergeFrom, ObjectMeta
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.object import deep_copy
from opsdk.builder.operator import Operator
from opsdk.builder.options import OperatorOptions
from opsdk.controller.options import ControllerOptions
from opsdk.errors import LeaderElectionLostError, OpsdkError
from opsdk.event.request import Request
from opsdk.http.asgi_types import CUT
from opsdk.manager.manager import ManagerOptions

# As the client's TCP_USER_TIMEOUT on a real network.
_TCP_SECONDS = 45.0


class Line:
    """The way from one replica to the server; cut, requests hang, and their connections break after a while."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.cut = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def later(message: Any) -> None:
            if self.cut:
                await asyncio.sleep(_TCP_SECONDS)
                raise ConnectionError("cut")
            await send(message)

        if self.cut:
            await asyncio.sleep(_TCP_SECONDS)
            scope["extensions"][CUT]()
            return
        await self._app(scope, receive, later)


class Watchman:
    """Knows who is at work, and fails when two replicas are."""

    def __init__(self) -> None:
        self.at_work: dict[str, int] = {}
        self.seen: dict[str, str] = {}

    def enter(self, replica: str) -> None:
        self.at_work[replica] = self.at_work.get(replica, 0) + 1
        working = {name for name, count in self.at_work.items() if count}
        assert working == {replica}, f"at work at once: {working}"

    def leave(self, replica: str) -> None:
        self.at_work[replica] -= 1


async def replica(name: str, config: Any, watchman: Watchman, rng: random.Random) -> None:
    """One replica, started again whenever it ends, as a cluster would."""
    options = OperatorOptions(
        leader_election=True,
        leader_election_namespace="default",
        manager=ManagerOptions(shutdown_timeout=20),
        controller=ControllerOptions(max_concurrent_reconciles=3, shutdown_timeout=5),
    )
    while True:
        operator = Operator("replicated", options)

        @operator.reconciler(ConfigMap)
        async def reconcile(request: Request, operator: Operator = operator) -> None:
            watchman.enter(name)
            try:
                current = await operator.client.get_or_none(ConfigMap, request.key)
                await asyncio.sleep(rng.choice([0, 0.1, 2, 6]))
                if current is not None:
                    watchman.seen[request.name] = current.data.get("n", "")
            finally:
                watchman.leave(name)

        try:
            await operator.start(config)
        except (LeaderElectionLostError, OpsdkError):
            await asyncio.sleep(1)


@pytest.mark.slow
@pytest.mark.behaviour(111)
@pytest.mark.parametrize("seed", range(8))
async def test_at_no_moment_do_both_reconcile(seed: int) -> None:
    """Lines cut for seconds or minutes, replicas stopped and started: one works at a time, and all work gets done."""
    rng = random.Random(seed)
    watchman = Watchman()
    async with envtest.Environment() as env, Cluster(env.config) as cluster:
        lines = {name: Line(env.config.app) for name in "ab"}
        configs = {name: replace(env.config, app=line) for name, line in lines.items()}
        tasks = {n: asyncio.create_task(replica(n, configs[n], watchman, rng)) for n in "ab"}
        for step in range(40):
            name = f"m{rng.randrange(5)}"
            current = await cluster.uncached.get_or_none(ConfigMap, name, namespace="default")
            if current is None:
                meta = ObjectMeta(name=name, namespace="default")
                await cluster.uncached.create(ConfigMap(metadata=meta, data={"n": str(step)}))
            else:
                before = deep_copy(current)
                current.data["n"] = str(step)
                await cluster.uncached.patch(current, MergeFrom(before))
            await asyncio.sleep(rng.choice([0.1, 1, 5, 20]))
            roll, who = rng.random(), rng.choice("ab")
            if roll < 0.25:
                lines[who].cut = not lines[who].cut
            elif roll < 0.35:
                tasks[who].cancel()
                await asyncio.gather(tasks[who], return_exceptions=True)
                tasks[who] = asyncio.create_task(replica(who, configs[who], watchman, rng))
        for line in lines.values():
            line.cut = False
        await asyncio.sleep(1500)
        spec = {m.metadata.name: m.data["n"] for m in await cluster.uncached.list(ConfigMap, namespace="default")}
        assert {k: watchman.seen.get(k) for k in spec} == spec
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
