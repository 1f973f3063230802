"""The end of an operator closes everything that it opened, although a part of it fails to close."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from opsdk.aio.blocking import BlockingPool
from opsdk.aio.closing import Closing
from opsdk.api.core.v1 import ConfigMap
from opsdk.builder.election import ElectionFactory
from opsdk.builder.operator import Operator
from opsdk.builder.options import OperatorOptions
from opsdk.cluster.cluster import Cluster
from opsdk.engine.world.cluster import SimulatedCluster
from opsdk.engine.world.replica import Observer
from opsdk.manager.leader_election.leader_elector import LeaderElector
from opsdk.testing.simulate import Simulation

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")


class FailsToCloseError(Exception):
    """What the tests raise."""


class FailingConnection(Closing):
    """A connection that raises an error after it has closed."""

    def __init__(self, connection: Closing) -> None:
        self.connection = connection

    async def aclose(self) -> None:
        """Close the connection, and raise."""
        await self.connection.aclose()
        raise FailsToCloseError


async def _fails(*_: object, **__: object) -> None:
    raise FailsToCloseError


def reconciling(*, election: bool = False) -> Operator:
    """An operator with a reconciler that does nothing, and one that blocks."""
    options = OperatorOptions(leader_election=election, leader_election_id="ends", leader_election_namespace="default")
    operator = Operator("ends", options)

    @operator.reconciler(ConfigMap)
    async def reconcile(config_map: ConfigMap) -> None:
        """Succeed."""

    @operator.reconciler(ConfigMap, name="blocking")
    def reconcile_in_thread(config_map: ConfigMap) -> None:
        """Succeed."""

    return operator


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What has been closed: clusters, and pools of threads."""
    closed: list[object] = []
    for cls in (Cluster, BlockingPool):
        original = cls.aclose

        async def aclose(self: Any, original: Any = original) -> None:
            closed.append(self)
            await original(self)

        monkeypatch.setattr(cls, "aclose", aclose)
    return closed


async def stopped(operator: Operator, config: Any) -> BaseException | None:
    """Run an operator for a while. Returns how its start ended."""
    task = asyncio.create_task(operator.start(config))
    await asyncio.sleep(30)
    task.cancel()
    (end,) = await asyncio.gather(task, return_exceptions=True)
    return end


async def test_the_cluster_closes_although_the_connection_of_the_election_does_not(
    monkeypatch: pytest.MonkeyPatch, closed: list[object]
) -> None:
    """The election has a client of its own, which closes first; its error is raised."""
    operator = reconciling(election=True)
    original = ElectionFactory.in_loop

    def in_loop(self: ElectionFactory) -> tuple[LeaderElector, Closing]:
        elector, connection = original(self)
        return elector, FailingConnection(connection)

    monkeypatch.setattr(ElectionFactory, "in_loop", in_loop)
    async with environment.Environment() as env:
        end = await stopped(operator, env.config)
        assert isinstance(end, FailsToCloseError)
        assert operator.cluster in closed


async def test_threads_end_although_the_daemons_do_not(monkeypatch: pytest.MonkeyPatch, closed: list[object]) -> None:
    """A controller closes its pool of threads whatever the end of its daemons raises."""
    monkeypatch.setattr("opsdk.controller.daemons.Daemons.aclose", _fails)
    operator = reconciling()
    async with environment.Environment() as env:
        await stopped(operator, env.config)
    assert [each for each in closed if isinstance(each, BlockingPool)]


async def test_a_world_whose_replicas_cannot_start_closes_its_environment(
    monkeypatch: pytest.MonkeyPatch, closed: list[object]
) -> None:
    """The cluster of the actions is open by then."""
    monkeypatch.setattr(environment.Environment, "ensure_controllers", _fails)
    before = asyncio.all_tasks()
    simulation = Simulation(operator=reconciling, environment=environment.Environment, actions=[_fails], check=_fails)
    with pytest.raises(FailsToCloseError):
        async with SimulatedCluster(simulation, Observer()):
            pytest.fail("the cluster has started")
    assert [type(each) for each in closed] == [Cluster]
    assert asyncio.all_tasks() == before
