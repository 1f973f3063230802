"""An operator writes Events about its own election."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from opsdk.api.core.v1 import ConfigMap
from opsdk.api.events.v1 import Event
from opsdk.builder.operator import Operator, OperatorOptions
from opsdk.cluster.cluster import Cluster
from opsdk.event.request import Request

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")


@pytest.mark.behaviour(121)
async def test_an_operator_records_its_election() -> None:
    """The Lease of a stopped operator has both Events, and no task is left."""
    operator = Operator("shop", OperatorOptions(leader_election=True, leader_election_namespace="default"))

    @operator.reconciler(ConfigMap)
    async def reconcile(request: Request) -> None:
        """Do nothing."""

    async with environment.Environment() as env, Cluster(env.config) as cluster:
        before = asyncio.all_tasks()
        manager = operator.prepare(env.config)
        running = asyncio.create_task(operator.start_prepared())
        await manager.wait_elected()
        await asyncio.sleep(5)
        manager.stop()
        await running
        assert asyncio.all_tasks() <= before
        listed: Any = await cluster.uncached.list(Event, namespace="default")
    notes = [event.note.partition(" ")[2] for event in sorted(listed.items, key=lambda event: str(event.event_time))]
    assert notes == ["became leader", "stopped leading"]
    assert {event.regarding.name for event in listed.items} == {"shop"}
