"""Shards of real processes under faults. ``python -m benchmarks.runtime sharding`` plays more rounds."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from http_servers import listening, port_of

from benchmarks.runtime.shard_journal import ShardJournal
from benchmarks.runtime.tcp_proxy import TcpProxy
from opsdk import ObjectMeta
from opsdk.api.core.v1 import ConfigMap
from opsdk.fleet.shard_lease import held_by, new_shard_lease

pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")

from benchmarks.runtime.sharding import run_faults


@pytest.mark.slow
@pytest.mark.realtime
async def test_each_patch_is_the_holders() -> None:
    """SIGKILL, SIGSTOP and a partition: others take over, and every patch came from the holder of the shard's lease."""
    journal = await run_faults(1, objects=64, namespaces=12, processes=3)
    assert len({writer for _, _, writer in journal.writes}) >= 3


def patched(namespace: str, want: str, by: str) -> ConfigMap:
    """Return an object that a process has patched."""
    return ConfigMap(metadata=ObjectMeta(name="x", namespace=namespace), data={"want": want, "done": want, "by": by})


def test_the_judge_finds_a_patch_without_the_lease() -> None:
    """The holder of this shard at the revision of the patch counts; a patch is counted once."""
    journal, lease = ShardJournal(), new_shard_lease("f", "default", "s")
    wall = datetime(2026, 1, 1, tzinfo=UTC)
    journal.record(10, held_by(lease, "a", wall))
    journal.record(11, patched("s", "1", "a"))
    journal.record(12, patched("t", "1", "a"))
    journal.record(20, held_by(lease, "b", wall))
    changed = patched("s", "1", "a")
    changed.data["want"] = "2"
    journal.record(21, changed)
    journal.record(22, patched("s", "2", "a"))
    journal.record(23, patched("s", "2", "b"))
    journal.record(30, held_by(lease, "b", wall), is_deleted=True)
    journal.record(31, patched("s", "3", "b"))
    assert [text.split(":")[0] for text in journal.violations()] == ["revision 12", "revision 22", "revision 31"]


@pytest.mark.realtime
async def test_nothing_passes_a_cut_proxy_and_nothing_arrives_late() -> None:
    """Bytes that are sent during a cut never arrive; a connection from after it works."""
    received = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            received.extend(data)
            writer.write(data)
        writer.close()

    async with listening(serve) as server, TcpProxy("127.0.0.1", port_of(server)) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"before")
        assert await reader.readexactly(6) == b"before"
        proxy.cut()
        writer.write(b"during")
        proxy.heal()
        with pytest.raises(ConnectionError):
            await reader.readexactly(1)
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"after")
        assert await reader.readexactly(5) == b"after"
        writer.close()
    assert bytes(received) == b"beforeafter"
