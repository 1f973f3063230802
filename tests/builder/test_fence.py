"""A leader whose event loop was blocked writes no more, even before it notices that the lease is over."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import envtest
from opsdk import Cluster, ObjectMeta
from opsdk.api.core.v1 import ConfigMap
from opsdk.api.events.v1 import Event
from opsdk.builder.operator import Operator
from opsdk.builder.options import OperatorOptions
from opsdk.cluster.cluster import ClusterOptions
from opsdk.errors import LeaderElectionLostError


def config_map(name: str) -> ConfigMap:
    """An object to write."""
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"))


class Blocks:
    """Writes, blocks the event loop longer than the lease lasts, and writes again."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.refused: list[str] = []

    async def start(self) -> None:
        client = self.operator.client
        await client.create(config_map("before"))
        loop: Any = asyncio.get_running_loop()
        loop._jumping.skipped += 20
        self.operator.recorder.event(config_map("before"), "Normal", "Late", "recorded after the lease")
        for name in ("after", "again"):
            try:
                await client.create(config_map(name))
            except LeaderElectionLostError as error:
                self.refused.append(str(error))
        await asyncio.sleep(3600)


async def test_a_blocked_leader_does_not_write() -> None:
    """The first write after the blockade is refused by the clock, the operator ends with a lost lease."""
    async with envtest.Environment() as env, Cluster(env.config) as outside:
        options = OperatorOptions(leader_election=True, leader_election_namespace="default")
        operator = Operator("blocked", options)
        blocks: list[Blocks] = []

        @operator.setup
        def add(operator: Operator) -> None:
            blocks.append(Blocks(operator))
            operator.manager.add(blocks[0])

        with pytest.raises(LeaderElectionLostError):
            await operator.start(env.config)
        assert len(blocks[0].refused) == 2
        assert all(
            text.startswith("POST /api/v1/namespaces/default/configmaps was not sent") for text in blocks[0].refused
        )
        names = {m.metadata.name for m in await outside.uncached.list(ConfigMap, namespace="default")}
        assert names & {"before", "after", "again"} == {"before"}
        assert not [e for e in await outside.uncached.list(Event) if e.reason == "Late"]


async def test_a_dry_run_writes_no_events() -> None:
    """A dry-run cluster writes no events."""
    async with envtest.Environment() as env, Cluster(env.config) as outside:
        async with Cluster(env.config, ClusterOptions(dry_run=True)) as dry:
            running = asyncio.create_task(dry.start())
            dry.recorder.event(config_map("a"), "Normal", "Dry", "never stored")
            await asyncio.sleep(10)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        assert not [e for e in await outside.uncached.list(Event) if e.reason == "Dry"]
