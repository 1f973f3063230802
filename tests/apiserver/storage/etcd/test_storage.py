"""The storage and a real etcd: TLS, users, limits, compaction, restarts, cancellation."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from etcd_cluster import EtcdCluster, needs_etcd
from msgspec.structs import replace

from envtest.plane.certificates import Authority
from opsdk.apiserver.storage.etcd import messages
from opsdk.apiserver.storage.etcd.client import EtcdClient, Rpc
from opsdk.apiserver.storage.etcd.compactor import COMPACT_REV_KEY, EtcdCompactor
from opsdk.apiserver.storage.etcd.options import EtcdOptions
from opsdk.apiserver.storage.etcd.storage import EtcdStorage
from opsdk.apiserver.storage.ports import CompactedError, Storage, StorageWatch
from opsdk.errors import ConfigError, ConnectError, InternalServerError, ServiceUnavailableError, TooLargeError
from opsdk.structured_merge.value import JsonObject

pytestmark = [pytest.mark.realtime, needs_etcd]
P = "core/configmaps/"
_NUMBERS = itertools.count()
_PATIENCE = 30.0


def options_for(cluster: EtcdCluster, **fields: Any) -> EtcdOptions:
    """Options with a prefix of their own."""
    return EtcdOptions(endpoints=cluster.urls, prefix=f"/own-{next(_NUMBERS)}/", compaction_interval=0, **fields)


def obj(name: str, **data: object) -> JsonObject:
    """An object with some data."""
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "data": data}


async def names(watch: StorageWatch, count: int) -> list[str]:
    """The names of the next changes."""
    async with asyncio.timeout(_PATIENCE):
        return [(await anext(watch)).key.removeprefix(P) for _ in range(count)]


async def put(storage: Storage, *created: str) -> int:
    """Create objects; return the last revision."""
    revision = 0
    for name in created:
        revision = int((await storage.create(f"{P}{name}", obj(name)))["metadata"]["resourceVersion"])
    return revision


# ------------------------------------------------------------------ what is stored
async def test_keys_and_values_are_readable_elsewhere(etcd: EtcdCluster) -> None:
    """A key is the prefix and the object's key; its value is JSON without a resourceVersion."""
    options = options_for(etcd)
    async with EtcdStorage(options) as storage, EtcdClient(options) as other:
        await put(storage, "a")
        response, _ = await other.request(Rpc.RANGE, messages.RangeRequest(key=f"{options.prefix}{P}a".encode()))
    assert json.loads(response.kvs[0].value) == obj("a")


async def test_foreign_values_are_named(etcd: EtcdCluster) -> None:
    """A value that is not an object fails the read with its key, and a watch with the same error."""
    options = options_for(etcd)
    async with EtcdStorage(options) as storage, EtcdClient(options) as other:
        watch = await storage.watch(P)
        key = f"{options.prefix}{P}a"
        write = messages.RequestOp(request_put=messages.PutRequest(key=key.encode(), value=b"k8s\0"))
        await other.request(Rpc.TXN, messages.TxnRequest(success=[write]))
        for read in (storage.get(f"{P}a"), storage.list(P), names(watch, 1)):
            with pytest.raises(InternalServerError, match=f"{key} holds no JSON object"):
                await read


# ------------------------------------------------------------------ limits
async def test_a_large_object_is_refused(etcd: EtcdCluster) -> None:
    """An object above etcd's limit is a 413, and nothing is stored."""
    async with EtcdStorage(options_for(etcd)) as storage:
        with pytest.raises(TooLargeError, match="request is too large"):
            await storage.create(f"{P}a", obj("a", text="x" * 2_000_000))
        assert not (await storage.list(P)).items


async def test_a_full_database_is_named(tmp_path: Path) -> None:
    """When the quota is reached, writes are a 503 with advice, and reads still work."""
    with EtcdCluster(tmp_path, arguments=("--quota-backend-bytes=3000000",)) as cluster:
        async with EtcdStorage(options_for(cluster)) as storage:

            async def fill() -> None:
                for number in range(1000):  # etcd learns the size of its file every 100 ms
                    await storage.create(f"{P}{number}", obj(str(number), text="x" * 500_000))

            with pytest.raises(ServiceUnavailableError, match="etcdctl alarm disarm") as caught:
                await fill()
            assert caught.value.retry_after == 10
            assert await storage.get(f"{P}0")
            assert storage.failure == "etcd is full"


async def test_a_list_may_be_larger_than_a_message(etcd: EtcdCluster) -> None:
    """Lists beyond gRPC's usual limit of 4 MiB are read."""
    async with EtcdStorage(options_for(etcd)) as storage:
        for number in range(6):
            await storage.create(f"{P}{number}", obj(str(number), text="x" * 1_000_000))
        assert len((await storage.list(P)).items) == 6


# ------------------------------------------------------------------ watches
async def test_readers_share_one_watch(etcd: EtcdCluster) -> None:
    """However many readers a resource has, etcd has one watch; it ends with the last reader."""
    async with EtcdStorage(options_for(etcd)) as storage:
        readers = [await storage.watch(prefix) for prefix in (P, f"{P}a", P) for _ in range(10)]
        await put(storage, "a", "b")
        assert [await names(reader, 1) for reader in readers] == [["a"]] * 30
        assert storage.etcd_watches == 1
        for reader in readers:
            reader.close()
        assert storage.etcd_watches == 0


async def test_a_late_watch_reads_etcd_and_then_joins(etcd: EtcdCluster) -> None:
    """A watch from before the shared history first reads older events from etcd, without gap or repetition."""
    async with EtcdStorage(options_for(etcd, history_limit=3)) as storage:
        start = await storage.get_current_resource_version()
        shared = await storage.watch(P)
        first = [f"a{number}" for number in range(10)]
        await put(storage, *first)
        assert await names(shared, 10) == first
        late = await storage.watch(P, start)
        assert storage.etcd_watches == 2
        assert await names(late, 10) == first
        await put(storage, "z")
        assert (await names(late, 1), await names(shared, 1)) == (["z"], ["z"])
        assert storage.etcd_watches == 1
        shared.close()
        await put(storage, "zz")
        assert await names(late, 1) == ["zz"]


async def test_no_reader_waits_for_a_task_that_ended(etcd: EtcdCluster) -> None:
    """If the task of a watch ends by a defect, its readers end with `CompactedError`, and new ones work."""
    async with EtcdStorage(options_for(etcd)) as storage:
        watch = await storage.watch(P)
        [task] = [task for task in asyncio.all_tasks() if task.get_name() == f"etcd-watches/{P}".rstrip("/")]
        task.cancel()
        with pytest.raises(CompactedError):
            await names(watch, 1)
        watch = await storage.watch(P)
        await put(storage, "a")
        assert await names(watch, 1) == ["a"]


async def test_a_large_burst_arrives_in_order(etcd: EtcdCluster) -> None:
    """Fragments of a large response are joined in order."""
    async with EtcdStorage(options_for(etcd)) as storage:
        start = await storage.get_current_resource_version()
        for number in range(8):
            await storage.create(f"{P}{number}", obj(str(number), text="x" * 700_000))
        assert await names(await storage.watch(P, start), 8) == list("01234567")


@pytest.mark.slow
async def test_a_watch_outlives_a_restart(tmp_path: Path) -> None:
    """A watch survives the restart of its member and misses no change; reads wait for it."""
    with EtcdCluster(tmp_path) as cluster:
        async with EtcdStorage(options_for(cluster)) as storage:
            watch = await storage.watch(P)
            await put(storage, "a")
            cluster.members[0].kill()
            reading = asyncio.ensure_future(storage.get(f"{P}a"))
            await asyncio.sleep(0)
            cluster.restart(cluster.members[0])
            assert await reading
            await put(storage, "b")
            assert await names(watch, 2) == ["a", "b"]


@pytest.mark.slow
async def test_a_restored_cluster_ends_the_watches(tmp_path: Path) -> None:
    """If etcd returns with older data, its revisions repeat: watches end, so that readers list again."""
    with EtcdCluster(tmp_path) as cluster:
        async with EtcdStorage(options_for(cluster)) as storage:
            watch = await storage.watch(P)
            await put(storage, "a", "b")
            assert await names(watch, 2) == ["a", "b"]
            cluster.members[0].kill()
            cluster.members[0].forget()
            cluster.restart(cluster.members[0])
            with pytest.raises(CompactedError):
                await names(watch, 1)
            assert not (await storage.list(P)).items


@pytest.mark.slow
async def test_a_compaction_past_a_broken_watch_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the changes behind a watch are compacted before it can go on, it ends with `CompactedError`."""
    with EtcdCluster(tmp_path) as cluster:
        options = options_for(cluster)
        async with EtcdStorage(options) as storage, EtcdClient(options) as other:
            watch = await storage.watch(P)
            await put(storage, "a")
            assert await names(watch, 1) == ["a"]
            compacted, open_watch = asyncio.Event(), EtcdClient.watch

            @asynccontextmanager
            async def late(client: EtcdClient, request: Any) -> AsyncIterator[Any]:
                await compacted.wait()
                async with open_watch(client, request) as responses:
                    yield responses

            monkeypatch.setattr(EtcdClient, "watch", late)
            cluster.members[0].kill()
            cluster.restart(cluster.members[0])
            assert await storage.get(f"{P}a")
            revision = await put(storage, *"bcd")
            await other.request(Rpc.COMPACT, messages.CompactionRequest(revision=revision))
            compacted.set()
            with pytest.raises(CompactedError):
                await names(watch, 9)


# ------------------------------------------------------------------ compaction
async def test_one_of_several_replicas_compacts(etcd: EtcdCluster) -> None:
    """In each round one replica compacts, up to the revision of the previous round; the others follow."""
    options = options_for(etcd)
    async with EtcdStorage(options) as storage, EtcdClient(options) as other:
        replicas = [EtcdCompactor(other, interval=300) for _ in range(2)]
        start = await put(storage, "a")
        await replicas[0].compact()  # learns the round of the test run
        await replicas[1].compact()
        compacted = []
        for _ in range(3):
            await put(storage, f"n{next(_NUMBERS)}")
            compacted.append([await replica.compact() for replica in replicas])
        assert all(sum(revision > 0 for revision in pair) <= 1 for pair in compacted)
        assert any(revision > start for pair in compacted for revision in pair)
        with pytest.raises(CompactedError):
            await storage.list(P, revision=start - 1)
        response, _ = await other.request(Rpc.RANGE, messages.RangeRequest(key=COMPACT_REV_KEY))
        assert response.kvs


# ------------------------------------------------------------------ TLS and users
@asynccontextmanager
async def secured(folder: Path) -> AsyncIterator[tuple[EtcdCluster, EtcdOptions, Authority]]:
    """An etcd that asks for client certificates."""
    authority = Authority.load_or_create(None)
    ca = folder / "ca.crt"
    ca.write_bytes(authority.pair.cert)
    cert, key = authority.serving("127.0.0.1").write(folder, "etcd")
    arguments = (f"--cert-file={cert}", f"--key-file={key}", "--client-cert-auth", f"--trusted-ca-file={ca}")
    own_cert, own_key = authority.client("bookshelf").write(folder, "client")
    with EtcdCluster(folder, arguments=arguments, scheme="https") as cluster:
        options = options_for(cluster, ca_file=ca, cert_file=own_cert, key_file=own_key)
        yield cluster, options, authority


async def test_tls_with_client_certificates(tmp_path: Path) -> None:
    """Valid certificates connect; a wrong CA, no client certificate or a missing file is an error with advice."""
    async with secured(tmp_path) as (_, options, authority):
        async with EtcdStorage(options) as storage:
            assert await put(storage, "a")
        other = tmp_path / "other.crt"
        other.write_bytes(Authority.load_or_create(None).pair.cert)
        assert authority.pair.cert != other.read_bytes()
        for wrong in ({"ca_file": other}, {"cert_file": None, "key_file": None}):
            with pytest.raises(ConnectError, match="certificates"):
                async with EtcdStorage(replace(options, retry_timeout=0.5, **wrong)):
                    pass
        with pytest.raises(ConfigError, match=r"cannot read .*gone"):
            async with EtcdStorage(replace(options, ca_file=tmp_path / "gone")):
                pass


def gateway(cluster: EtcdCluster, path: str, **body: object) -> None:
    """A call of etcd's JSON gateway."""
    request = urllib.request.Request(f"{cluster.urls[0]}/v3/{path}", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=10):
        pass


async def test_users_and_passwords(tmp_path: Path) -> None:
    """A user with a password can read and write, also when etcd forgets the token; others get an error."""
    with EtcdCluster(tmp_path) as cluster:
        gateway(cluster, "auth/user/add", name="root", password="secret")
        gateway(cluster, "auth/role/add", name="root")
        gateway(cluster, "auth/user/grant", user="root", role="root")
        gateway(cluster, "auth/enable")
        options = options_for(cluster, user="root", password="secret")
        async with EtcdStorage(options) as storage:
            watch = await storage.watch(P)
            await put(storage, "a")
            for name in "bc":
                cluster.members[0].kill()
                cluster.restart(cluster.members[0])
                await put(storage, name)
            assert await names(watch, 3) == ["a", "b", "c"]
        for wrong in ({"password": "wrong"}, {"user": "", "password": ""}):
            with pytest.raises(ConnectError, match="user and password"):
                async with EtcdStorage(replace(options, **wrong)):
                    pass


# ------------------------------------------------------------------ cancellation
@pytest.mark.parametrize("seed", range(3))
async def test_cancelled_calls_leave_nothing_behind(etcd: EtcdCluster, seed: int) -> None:
    """Cancelled calls and watches leave no task, stream or reader, and the storage stays usable."""
    rng = random.Random(seed)
    async with EtcdStorage(options_for(etcd)) as storage:

        async def work(number: int) -> None:
            watch = await storage.watch(P)
            try:
                await put(storage, str(number))
                await storage.list(P)
                await storage.delete(f"{P}{number}")
                await names(watch, 1000)
            finally:
                watch.close()

        tasks = [asyncio.ensure_future(work(number)) for number in range(20)]
        while pending := [task for task in tasks if not task.done()]:
            for _ in range(rng.randrange(40)):
                await asyncio.sleep(0)
            rng.choice(pending).cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert storage.etcd_watches == 0
        await put(storage, "last")


async def test_closing_ends_calls_and_is_idempotent(etcd: EtcdCluster) -> None:
    """After `aclose` readers have ended and calls raise; a second close does nothing."""
    storage = EtcdStorage(options_for(etcd))
    await storage.start()
    watch = await storage.watch(P)
    await storage.aclose()
    await storage.aclose()
    assert [change async for change in watch] == []
    with pytest.raises(RuntimeError, match="closed"):
        await storage.get(f"{P}a")


@pytest.mark.parametrize("library", ["grpc", "google.protobuf"])
def test_a_missing_library_names_the_extra(library: str) -> None:
    """Without its libraries, the import fails with the extra to install; the options can be imported."""
    code = f"""
import sys
sys.modules[{library!r}] = None
import opsdk.apiserver.storage.etcd.options
import opsdk.apiserver.storage.etcd.storage
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'opsdk[etcd]'" in run.stderr.splitlines()[-1]
