"""Client and server on uvloop, whose transports have no base class of asyncio."""

from __future__ import annotations

import asyncio

import pytest

from opsdk import Cluster, ObjectMeta, RestConfig
from opsdk.api.core.v1 import ConfigMap

uvloop = pytest.importorskip("uvloop", reason="needs uvloop: pip install opsdk[uvloop]")
environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")


def test_a_cluster_reads_writes_and_watches_over_tls() -> None:
    """A cluster reads, writes and watches over TLS on uvloop, and every connection is closed."""

    async def main() -> list[str]:
        async with environment.Environment() as env:
            web = await env.serve()
            config = RestConfig(host=web.url, ca_data=env.authority.pair.cert, token=env.config.token)
            async with Cluster(config) as cluster:
                running = asyncio.create_task(cluster.start())
                await cluster.client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
                cached = await cluster.client.list(ConfigMap, namespace="default")
                created = await cluster.client.get(ConfigMap, "default/a")
                created.data["color"] = "blue"
                await cluster.client.update(created)
                color = (await cluster.client.get(ConfigMap, "default/a")).data["color"]
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
        return [color, *(obj.metadata.name for obj in cached)]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        color, *names = runner.run(main())
    assert color == "blue"
    assert "a" in names
