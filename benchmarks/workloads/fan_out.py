"""(k) The embedded server: start, memory, writes a second, and 1,000 watchers with TLS."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import ssl
import statistics
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import httptools

from benchmarks.model import CheckError, Metric, Run, Variant, Workload, named
from benchmarks.process import Outcome
from benchmarks.protocol import Sample
from benchmarks.server import WRITES_AT_ONCE, World, server_process
from envtest import Environment
from opsdk import Cluster, ObjectMeta, RestConfig, load_config
from opsdk.api.core.v1 import ConfigMap, Namespace

KEYS = 50
TOKEN = "watcher"
PATH = "/api/v1/namespaces/watched/configmaps"


def resident(pid: int) -> float:
    """Resident memory in MB."""
    match = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert match is not None
    return int(match.group(1)) / 1024


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process so far, of user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What many requests took.

    Attributes:
        rate: requests a second, of client and server together.
        server_cpu: the server's CPU seconds for each; it does not depend on the client, nor on a busy machine's queue.
        client_cpu: the client's CPU seconds for each.
    """

    rate: float
    server_cpu: float
    client_cpu: float


async def load(pid: int, count: int, work: Callable[[int], Awaitable[object]]) -> Load:
    """Measure `count` calls of `work`, `WRITES_AT_ONCE` at a time, against the server with this process id."""
    server, client, began = cpu_seconds(pid), time.process_time(), time.perf_counter()
    await _many(count, work)
    seconds = time.perf_counter() - began
    return Load(
        rate=count / seconds,
        server_cpu=(cpu_seconds(pid) - server) / count,
        client_cpu=(time.process_time() - client) / count,
    )


async def _many(count: int, work: Callable[[int], Awaitable[object]]) -> None:
    numbers = iter(range(count))

    async def lane() -> None:
        for number in numbers:
            await work(number)

    await asyncio.gather(*(lane() for _ in range(WRITES_AT_ONCE)))


def config_map(namespace: str, name: str, text: str) -> ConfigMap:
    """Return an object of about half a kilobyte."""
    meta = ObjectMeta(name=name, namespace=namespace, labels={"app": "load"})
    return ConfigMap(metadata=meta, data={"text": text, "more": "x" * 300})


class Watcher:
    """One raw connection that follows a list: a digest of its bytes, and the bytes themselves if `keep` is set."""

    def __init__(self, config: RestConfig, context: ssl.SSLContext, *, keep: bool) -> None:
        self._config, self._context, self._keep = config, context, keep
        self.digest = hashlib.blake2b()
        self.lines = 0
        self.kept: list[bytes] = []
        self.ended = False

    def on_body(self, data: bytes) -> None:
        """See httptools."""
        self.digest.update(data)
        self.lines += data.count(b"\n")
        if self._keep:
            self.kept.append(data)

    def on_message_complete(self) -> None:
        """See httptools."""
        self.ended = True

    async def follow(self, revision: str, wanted: int, ready: asyncio.Semaphore) -> None:
        """Until so many events have come."""
        host, port = self._config.host.removeprefix("https://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), ssl=self._context)
        parser = httptools.HttpResponseParser(self)
        writer.write(
            f"GET {PATH}?watch=true&resourceVersion={revision} HTTP/1.1\r\nhost: x\r\n"
            f"authorization: Bearer {TOKEN}\r\n\r\n".encode()
        )
        parser.feed_data(await reader.read(65536))
        ready.release()
        try:
            while self.lines < wanted:
                data = await reader.read(1 << 20)
                assert data, f"the stream ended after {self.lines} events"
                parser.feed_data(data)
                assert not self.ended, f"the server ended the watch after {self.lines} events"
        finally:
            writer.close()


async def fan_out(cluster: Cluster, config: RestConfig, watchers: int, writes: int) -> dict[str, float]:
    """Let many watchers follow many writes; return the events a second that they got together."""
    await cluster.uncached.create(Namespace(metadata=ObjectMeta(name="watched")))
    listed = await cluster.uncached.list(ConfigMap, namespace="watched")
    context = ssl.create_default_context(cadata=config.ca_data.decode())
    ready = asyncio.Semaphore(0)
    crowd = [Watcher(config, context, keep=number == 0) for number in range(watchers)]
    revision = listed.metadata.resource_version or "0"
    async with asyncio.TaskGroup() as following:
        for watcher in crowd:
            following.create_task(watcher.follow(revision, writes, ready))
        for _ in crowd:
            await ready.acquire()
        began = time.perf_counter()
        written = await _write(cluster, writes)
    seconds = time.perf_counter() - began
    _check(crowd, written)
    return {"events_per_second": watchers * writes / seconds}


async def _write(cluster: Cluster, writes: int) -> dict[str, list[int]]:
    """Write, and return the resource versions of each key in the order of its writes."""
    written: dict[str, list[int]] = {}

    async def write(number: int) -> None:
        name = f"k{number % KEYS}"
        form = cluster.uncached.create if number < KEYS else cluster.uncached.update
        answer = await form(config_map("watched", name, str(number)))
        written.setdefault(name, []).append(int(answer.metadata.resource_version or 0))

    for start in range(0, writes, KEYS):  # a key has one write under way, so that its order is known
        await asyncio.gather(*(write(n) for n in range(start, min(start + KEYS, writes))))
    return written


def _check(crowd: list[Watcher], written: dict[str, list[int]]) -> None:
    if len({watcher.digest.digest() for watcher in crowd}) != 1:
        raise CheckError("two watchers saw different streams")
    versions: dict[str, list[int]] = {}
    for line in b"".join(crowd[0].kept).splitlines():
        meta = json.loads(line)["object"]["metadata"]
        versions.setdefault(meta["name"], []).append(int(meta["resourceVersion"]))
    if versions != written:
        raise CheckError("an event was lost or is out of order")


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def environments(count: int) -> float:
    """Return the median of the seconds until an environment with sockets is ready; check that they leave nothing."""
    seconds = []
    files, tasks, threads = 0, len(asyncio.all_tasks()), 0
    for number in range(count):
        began = time.perf_counter()
        async with Environment() as env:
            await env.serve()
            seconds.append(time.perf_counter() - began)
        if number == 0:
            files, threads = _open_files(), threading.active_count()  # what the libraries keep once and for all
    await asyncio.sleep(0)
    # Fewer is not a leak: a connection of the watchers may have closed since.
    if _open_files() > files or len(asyncio.all_tasks()) > tasks or threading.active_count() > threads:
        raise CheckError("an environment left a socket, task or thread behind")
    return statistics.median(seconds[1:])


async def measure(_: World, run: Run) -> Outcome:
    """Measure a server of its own."""
    options = run.variant.options
    with tempfile.TemporaryDirectory() as folder:
        tokens = Path(folder) / "tokens"
        tokens.write_text(f'{TOKEN},admin,admin,"system:masters"\n')
        async with server_process("--token-auth-file", str(tokens)) as (kubeconfig, pid, ready_after):
            config = load_config(kubeconfig=kubeconfig)
            async with Cluster(config) as cluster:
                return Outcome(sample=await _sample(cluster, config, pid, ready_after, options))


async def _sample(
    cluster: Cluster, config: RestConfig, pid: int, ready_after: float, options: dict[str, int]
) -> Sample:
    began, count = time.perf_counter(), options["count"]
    values = {"ready": ready_after, "idle": resident(pid)}
    client = cluster.uncached
    loads = {
        "creates": await load(pid, count, lambda n: client.create(config_map("default", f"c{n}", "a"))),
        "updates": await load(pid, count // 5, lambda n: client.update(config_map("default", f"c{n}", "b"))),
        "gets": await load(pid, count // 5, lambda n: client.get(ConfigMap, f"c{n}", namespace="default")),
    }
    for name, each in loads.items():
        values |= {name: each.rate, f"{name}_server": each.server_cpu, f"{name}_client": each.client_cpu}
    before = resident(pid)
    values |= await fan_out(cluster, config, options["watchers"], options["writes"])
    values["watchers"] = resident(pid) - before
    values["environment"] = await environments(20)
    return Sample(wall=time.perf_counter() - began, cpu=0.0, count=count, values=values)


WORKLOAD = Workload(
    letter="k",
    title="The embedded server",
    note=(
        "`envtest serve` with TLS in a process of its own; the writers and all watchers are one other process, so the "
        "rates are those of both; the CPU columns separate the two. Every watcher gets every event, in order. The last "
        "column is an environment in this process, with sockets; 20 of them leave no file, task or thread."
    ),
    clients=("opsdk",),
    variants=lambda scale: [
        Variant(
            name=f"{watchers:,} watchers",
            options={"count": max(500, round(5000 * scale)), "watchers": watchers, "writes": 500},
        )
        for watchers in [max(20, round(1000 * scale))]
    ],
    metrics=(
        Metric(name="ready ms", value=named("ready", scale=1e3), digits=0),
        Metric(name="idle MB", value=named("idle"), digits=0),
        Metric(name="creates/s", value=named("creates"), lower_is_better=False, digits=0),
        Metric(name="updates/s", value=named("updates"), lower_is_better=False, digits=0),
        Metric(name="gets/s", value=named("gets"), lower_is_better=False, digits=0),
        *(
            Metric(name=f"{side} CPU us per {name}", value=named(f"{name}s_{side}", scale=1e6), digits=0)
            for name in ("create", "update", "get")
            for side in ("server", "client")
        ),
        Metric(name="MB for the watchers", value=named("watchers"), digits=0),
        Metric(name="events/s", value=named("events_per_second"), lower_is_better=False, digits=0),
        Metric(name="environment ms", value=named("environment", scale=1e3), digits=1),
    ),
    measure=measure,
    rounds=2,
)
