"""Lost responses, and members that die or hang while several writers write."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from etcd_cluster import EtcdCluster, free_port, needs_etcd, progress_flag

from opsdk.apiserver.storage.etcd.client import Rpc
from opsdk.apiserver.storage.etcd.errors import EtcdError, EtcdFailure
from opsdk.apiserver.storage.etcd.options import EtcdOptions
from opsdk.apiserver.storage.etcd.storage import EtcdStorage
from opsdk.apiserver.storage.ports import ChangeType, StorageChange, StorageWatch
from opsdk.errors import ConnectError, ServerTimeoutError, ServiceUnavailableError
from tests.apiserver.etcd_history import PREFIX, History, Writer

pytestmark = [pytest.mark.realtime, needs_etcd]
KILLS = int(os.environ.get("OPSDK_ETCD_KILLS", "10"))
_NUMBERS = itertools.count()
_PATIENCE = 60.0


async def eventually(check: Callable[[], object]) -> None:
    """Wait until a check is true."""
    async with asyncio.timeout(_PATIENCE):
        while not check():
            await asyncio.sleep(0.01)


async def collect(watch: StorageWatch, changes: list[StorageChange]) -> None:
    """Read until cancelled."""
    while True:
        changes.append(await anext(watch))


@asynccontextmanager
async def collecting(storages: list[EtcdStorage]) -> AsyncIterator[list[list[StorageChange]]]:
    """The changes that a watcher on each storage sees."""
    revision = await storages[0].get_current_resource_version()
    changes: list[list[StorageChange]] = [[] for _ in storages]
    watches = [await storage.watch(PREFIX, revision) for storage in storages]
    tasks = [asyncio.ensure_future(collect(w, c)) for w, c in zip(watches, changes, strict=True)]
    try:
        yield changes
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def losing(storage: EtcdStorage, rng: random.Random, share: float) -> None:
    """Make transactions fail before etcd gets them, or lose the answers."""
    attempt = storage._client._attempt

    async def lossy(rpc: Rpc, message: Any, deadline: float) -> Any:
        fate = rng.random() if rpc is Rpc.TXN else 1.0
        if fate < share / 2:
            raise EtcdError(EtcdFailure.UNKNOWN, "lost before etcd got it")
        response = await attempt(rpc, message, deadline)
        if fate < share:
            raise EtcdError(EtcdFailure.UNKNOWN, "the answer was lost")
        return response

    storage._client._attempt = lossy  # type: ignore[method-assign]


@pytest.mark.parametrize("seed", range(3))
async def test_lost_answers_lose_and_double_nothing(etcd: EtcdCluster, seed: int) -> None:
    """With answers lost at random, each acknowledged write happened once, and each increment is counted once."""
    rng = random.Random(seed)
    options = EtcdOptions(endpoints=etcd.urls, prefix=f"/lost-{next(_NUMBERS)}/", compaction_interval=0)
    history, done = History(), asyncio.Event()
    async with EtcdStorage(options) as one, EtcdStorage(options) as two, collecting([one, two]) as received:
        for storage in (one, two):
            losing(storage, rng, 0.3)
        writers = [Writer(f"w{n}", storage, history, rng) for n, storage in enumerate((one, one, two))]
        running = [asyncio.ensure_future(writer.run(until=done)) for writer in writers]
        await eventually(lambda: len(history.acknowledged) >= 40 or any(task.done() for task in running))
        done.set()
        await asyncio.gather(*running)
        last = await one.get_current_resource_version()
        await eventually(lambda: all(max(c.revision for c in changes) >= last for changes in received))
        for changes in received:
            history.assert_consistent(changes)
        for key, value in (await two.list(f"{PREFIX}")).items:
            if "counter" in key:
                assert value["n"] == history.increments[key]  # updates are always found out


async def test_an_etcd_that_is_down_is_named() -> None:
    """Opening fails with the endpoint and what to check, after the time for retries."""
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ConnectError, match=f"{url}.*check that a majority of its members runs"):
        async with EtcdStorage(EtcdOptions(endpoints=(url,), retry_timeout=0.3)):
            pass


@pytest.mark.slow
async def test_a_lost_majority_is_waited_for(tmp_path: Path) -> None:
    """Without a majority, calls end with a retryable error; when it is back, watches continue without a gap."""
    with EtcdCluster(tmp_path, size=3) as cluster:
        options = EtcdOptions(endpoints=cluster.urls, request_timeout=0.5, retry_timeout=2.0, compaction_interval=0)
        async with EtcdStorage(options) as storage, collecting([storage]) as [changes]:
            await storage.create(f"{PREFIX}a", {"metadata": {"name": "a"}})
            for member in cluster.members[1:]:
                member.send(signal.SIGSTOP)
            with pytest.raises((ServerTimeoutError, ServiceUnavailableError)) as read:
                await storage.get(f"{PREFIX}a")
            assert read.value.retry_after
            with pytest.raises((ServerTimeoutError, ServiceUnavailableError)) as write:
                await storage.create(f"{PREFIX}c", {"metadata": {"name": "c"}})
            assert write.value.retry_after
            refused = {"c"} if write.value.code == 503 else set()
            for member in cluster.members[1:]:
                member.send(signal.SIGCONT)
            await asyncio.to_thread(cluster.wait_healthy)
            last = await storage.create(f"{PREFIX}b", {"metadata": {"name": "b"}})
            revision = int(last["metadata"]["resourceVersion"])
            await eventually(lambda: changes and changes[-1].revision >= revision)
            puts = [change for change in changes if change.kind is ChangeType.PUT]
            names = [change.key.removeprefix(PREFIX) for change in puts]
            assert [name for name in names if name != "c"] == ["a", "b"]
            assert not refused.intersection(names)


@pytest.mark.slow
async def test_watches_leave_a_member_that_hangs(tmp_path: Path) -> None:
    """If a member lets a request time out, its watches continue at another one, without a gap."""
    with EtcdCluster(tmp_path, size=3) as cluster:
        options = EtcdOptions(endpoints=cluster.urls, request_timeout=0.5, keepalive_time=600.0, compaction_interval=0)
        async with EtcdStorage(options) as storage, collecting([storage]) as [changes]:
            await storage.create(f"{PREFIX}a", {"metadata": {"name": "a"}})
            await eventually(lambda: changes)
            cluster.members[0].send(signal.SIGSTOP)
            with suppress(ServerTimeoutError):
                await storage.create(f"{PREFIX}b", {"metadata": {"name": "b"}})
            await storage.create(f"{PREFIX}c", {"metadata": {"name": "c"}})
            await eventually(lambda: changes[-1].key == f"{PREFIX}c")
            assert f"at {cluster.urls[0]}" not in repr(storage)
            cluster.members[0].send(signal.SIGCONT)


@pytest.mark.slow
async def test_dying_and_hanging_members_lose_no_write(tmp_path: Path) -> None:
    """However members die or hang, no acknowledged write is lost and watchers see each change once, in order.

    ``OPSDK_ETCD_KILLS`` is the number of faults; ``-s`` shows the figures.
    """
    rng = random.Random(16)
    history, done = History(), asyncio.Event()
    with EtcdCluster(tmp_path, size=3, arguments=("--heartbeat-interval=50", "--election-timeout=500")) as cluster:
        async with AsyncExitStack() as stack:
            storages = []
            for turn in range(2):
                urls = cluster.urls[turn:] + cluster.urls[:turn]
                options = EtcdOptions(endpoints=urls, request_timeout=1.0, retry_timeout=8.0, compaction_interval=0)
                storages.append(await stack.enter_async_context(EtcdStorage(options)))
            received = await stack.enter_async_context(collecting(storages))
            writers = [Writer(f"w{n}", storages[n % 2], history, random.Random(n)) for n in range(4)]
            running = [asyncio.ensure_future(writer.run(until=done)) for writer in writers]
            started = time.monotonic()
            for _ in range(KILLS):
                await _fault(cluster, history, rng, lambda: any(task.done() for task in running))
            done.set()
            await asyncio.gather(*running)
            seconds = time.monotonic() - started
            last = max(history.acknowledged)
            await eventually(lambda: all(changes and changes[-1].revision >= last for changes in received))
        for changes in received:
            history.assert_consistent(changes)
    print(
        f"\n{KILLS} faults in {seconds:.0f} s: {len(history.acknowledged)} acknowledged writes, none lost;"
        f" {len(history.unknown)} unknown outcomes, errors {dict(history.errors)};"
        f" slowest write {history.slowest:.1f} s; each watcher saw {len(received[0])} changes"
    )


async def _fault(cluster: EtcdCluster, history: History, rng: random.Random, failed: Callable[[], bool]) -> None:
    """Kill or stop one member, let the others write, bring it back."""
    member = rng.choice(cluster.members)
    killed = rng.random() < 0.7
    if killed:
        member.kill()
    else:
        member.send(signal.SIGSTOP)
    due = len(history.acknowledged) + 20
    await eventually(lambda: len(history.acknowledged) >= due or failed())
    if killed:
        cluster.restart(member)
    else:
        member.send(signal.SIGCONT)
    await asyncio.to_thread(cluster.wait_healthy)


@pytest.mark.parametrize(
    ("flags", "flag"),
    [
        (["experimental-watch-progress-notify-interval"], "--experimental-watch-progress-notify-interval"),
        (
            ["experimental-watch-progress-notify-interval", "watch-progress-notify-interval"],
            "--watch-progress-notify-interval",
        ),
        (["watch-progress-notify-interval"], "--watch-progress-notify-interval"),
    ],
    ids=["3.5", "3.6", "3.7"],
)
def test_members_start_with_the_flag_of_their_version(flags: list[str], flag: str) -> None:
    """The help of the etcd binary decides which flag is used."""
    assert progress_flag("".join(f"  --{name} '10m'\n    Duration.\n" for name in flags)) == flag
