"""Lag of informers in virtual time: silent watches, quiet kinds, and servers that do not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from fake_server import FakeServer

from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.cache.informer import Informer, InformerOptions
from opsdk.cache.list_watch import RawEvent
from opsdk.cache.options import CacheOptions
from opsdk.cluster.cluster import Cluster, ClusterOptions
from opsdk.errors import ConnectionLostError, ServiceUnavailableError, UsageError

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")


class SilentServer(FakeServer):
    """A server whose open watches can become silent, and end half an hour later."""

    def __init__(self) -> None:
        super().__init__()
        self._opened = 0
        self._silent = 0

    def silence(self) -> None:
        """Send no further event on the watches that are open now."""
        self._silent = self._opened

    async def _events(self, after: int) -> AsyncIterator[RawEvent]:
        self._opened += 1
        number = self._opened
        async for event in super()._events(after):
            if number <= self._silent:
                await asyncio.sleep(1800)
                raise ConnectionLostError("the peer is gone")
            yield event


@asynccontextmanager
async def informer_of(server: FakeServer) -> AsyncIterator[Informer]:
    """An informer that has synced, with a measurement every 30 s."""
    async with Informer(server, InformerOptions(lag_interval=30.0)) as informer:
        await informer.wait_synced()
        yield informer


def lag_of(informer: Informer) -> float | None:
    """The lag now."""
    return informer.health().lag_seconds


async def test_a_watch_that_shows_everything_has_no_lag() -> None:
    """It is unknown before the first measurement, and 0 from then on; each measurement is one list."""
    server = SilentServer()
    server.put("a")
    async with informer_of(server) as informer:
        assert lag_of(informer) is None
        await asyncio.sleep(40)
        assert (lag_of(informer), informer.health().resource_version) == (0, str(server.revision))
        lists, watches = server.lists, len(server.watches)
        for number in range(10):
            server.put(f"b{number}")
            await asyncio.sleep(30)
            assert lag_of(informer) == 0
        assert 9 <= server.lists - lists <= 11
        assert len(server.watches) - watches <= 1  # the informer's own one ends after 300 s


async def test_a_silent_watch_is_found() -> None:
    """The lag begins with the first measurement after the missing change, and ends when the informer has it."""
    server = SilentServer()
    async with informer_of(server) as informer:
        await asyncio.sleep(40)
        server.silence()
        server.put("a")
        missing_since = asyncio.get_running_loop().time()
        await asyncio.sleep(40)
        first = lag_of(informer)
        assert first is not None
        assert 0 < first <= 40
        await asyncio.sleep(100)
        elapsed = asyncio.get_running_loop().time() - missing_since
        assert elapsed - 35 <= (lag_of(informer) or 0) <= elapsed
        assert lag_of(informer) == pytest.approx(first + 100)
        assert informer.health().seconds_without_watch == 0  # the connection looks healthy
        server.compact()  # the second watch gets 410, which is a missing change, too
        await asyncio.sleep(40)
        assert lag_of(informer) == pytest.approx(first + 140)
        server.put("b")
        await asyncio.sleep(2000)  # the silent watch ends, and the informer lists
        assert lag_of(informer) == 0
        assert set(server.objects) == {entry.key.name for entry in informer.store.entries()}


async def test_changes_of_other_kinds_are_no_lag() -> None:
    """The storage has newer resource versions, and the second watch shows nothing."""
    server = SilentServer()
    async with informer_of(server) as informer:
        watches = len(server.watches)
        for _ in range(5):
            server.revision += 10
            await asyncio.sleep(30)
        assert lag_of(informer) == 0
        assert 4 <= len(server.watches) - watches <= 6


async def test_the_lag_is_unknown_while_the_server_does_not_answer() -> None:
    """No failure of a measurement is counted as one of the informer."""
    server = SilentServer()
    async with informer_of(server) as informer:
        await asyncio.sleep(40)
        server.refuse = ServiceUnavailableError("busy")
        await asyncio.sleep(60)
        assert (lag_of(informer), informer.health().errors) == (None, 0)
        server.refuse = None
        await asyncio.sleep(60)
        assert lag_of(informer) == 0


async def test_nothing_is_measured_by_default() -> None:
    """An informer sends a list and a watch, and nothing else."""
    server = SilentServer()
    async with Informer(server) as informer:
        await informer.wait_synced()
        await asyncio.sleep(200)
        assert (lag_of(informer), server.lists, len(server.watches)) == (None, 1, 1)


@pytest.mark.parametrize("interval", [0.0, 0.5, -1.0, float("nan")])
def test_an_interval_has_a_lower_limit(interval: float) -> None:
    """A measurement may take a second."""
    with pytest.raises(UsageError, match="lag_interval"):
        CacheOptions(lag_interval=interval)


async def test_a_cluster_shows_lag_and_resource_version_of_each_informer() -> None:
    """A quiet kind has no lag while another one changes, and the debug page has both."""
    options = ClusterOptions(cache=CacheOptions(lag_interval=30.0))
    async with environment.Environment() as env, Cluster(env.config, options) as cluster:
        running = asyncio.create_task(cluster.start())
        await cluster.wait_ready()
        for kind in (ConfigMap, Secret):
            await cluster.client.list(kind)
        for number in range(20):
            await cluster.client.create(ConfigMap(metadata=ObjectMeta(name=f"a{number}", namespace="default")))
            await asyncio.sleep(10)
        rows = [row for row in cluster.debug_pages()["informers"]() if isinstance(row, dict)]
        assert {row["name"]: row["lag_seconds"] for row in rows} == {"configmaps": 0, "secrets": 0}
        assert all(int(row["resource_version"]) > 1 for row in rows)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
