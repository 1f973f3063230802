"""The local API server under load, as a process of its own with sockets and TLS: writes, lists, many watchers.

Checks, and fails loudly if one does not hold: every watcher gets every event of every key, in order; what is listed is
what was written. Prints rates, and what the server's memory became.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httptools

from opsdk import Cluster, Config, ObjectMeta, Unstructured, load_config
from opsdk.api.core.v1 import ConfigMap

LISTED = 10_000
WRITES = 2000
KEYS = 50
AT_ONCE = 32
TOKEN = "watcher"
PATH = "/api/v1/namespaces/watched/configmaps"


@asynccontextmanager
async def server(*arguments: str) -> AsyncIterator[tuple[Config, int]]:
    """A server process: how to reach it, and its number."""
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        tokens = Path(folder) / "tokens"
        tokens.write_text(f'{TOKEN},admin,admin,"system:masters"\n')
        arguments = ("--token-auth-file", str(tokens), *arguments)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "envtest", "serve", "--port", "0", "--kubeconfig", str(kubeconfig), *arguments),
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            await process.stdout.readline()
            yield load_config(kubeconfig=kubeconfig), process.pid
        finally:
            process.terminate()
            await process.wait()


def resident(pid: int) -> float:
    """Resident memory in MB."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found.group(1)) / 1024


async def rate(count: int, one: Callable[[int], Awaitable[object]], lanes: int = AT_ONCE) -> float:
    """How many a second, with so many under way."""
    numbers = iter(range(count))

    async def lane() -> None:
        for number in numbers:
            await one(number)

    began = time.perf_counter()
    await asyncio.gather(*(lane() for _ in range(lanes)))
    return count / (time.perf_counter() - began)


def config_map(namespace: str, name: str, text: str) -> ConfigMap:
    """About half a kilobyte."""
    meta = ObjectMeta(name=name, namespace=namespace, labels={"app": "load"})
    return ConfigMap(metadata=meta, data={"text": text, "more": "x" * 300})


class Watcher:
    """One raw connection that follows a list: a digest of all that it got, and the events themselves if asked for."""

    def __init__(self, config: Config, context: ssl.SSLContext, *, keep: bool) -> None:
        self._config, self._context, self._keep = config, context, keep
        self.digest = hashlib.blake2b()
        self.lines = 0
        self.kept: list[bytes] = []
        self.ended = False
        self._rest = b""

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


async def fan_out(cluster: Cluster, config: Config, pid: int, watchers: int, writes: int) -> None:
    """So many watchers of so many writes."""
    await cluster.uncached.create(
        Unstructured.from_tree({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "watched"}})
    )
    begun = await cluster.uncached.list(ConfigMap, namespace="watched")
    context = ssl.create_default_context(cadata=config.ca_data.decode())
    ready = asyncio.Semaphore(0)
    crowd = [Watcher(config, context, keep=number == 0) for number in range(watchers)]
    began = time.perf_counter()
    revision = begun.metadata.resource_version or "0"
    async with asyncio.TaskGroup() as following:
        for watcher in crowd:
            following.create_task(watcher.follow(revision, writes, ready))
        for _ in crowd:
            await ready.acquire()
        opened = time.perf_counter() - began
        began = time.perf_counter()
        written = await _write(cluster, writes)
        wrote = time.perf_counter() - began
    took = time.perf_counter() - began
    _check(crowd, written)
    print(f"{watchers} watchers of {writes} writes: opened in {opened:.1f} s, written in {wrote:.1f} s")
    print(f"  all seen after {took:.1f} s: {watchers * writes / took:,.0f} events/s, none lost, none out of order")
    print(f"  the server has {resident(pid):.0f} MB")


async def _write(cluster: Cluster, writes: int) -> dict[str, list[int]]:
    """The revisions of each key in the order of its writes."""
    written: dict[str, list[int]] = {}

    async def write(number: int) -> None:
        name = f"k{number % KEYS}"
        form = cluster.uncached.create if number < KEYS else cluster.uncached.update
        done = await form(config_map("watched", name, str(number)))
        written.setdefault(name, []).append(int(done.metadata.resource_version or 0))

    for start in range(0, writes, KEYS):  # a key has one write under way, so that its order is known
        await asyncio.gather(*(write(n) for n in range(start, min(start + KEYS, writes))))
    return written


def _check(crowd: list[Watcher], written: dict[str, list[int]]) -> None:
    assert len({watcher.digest.digest() for watcher in crowd}) == 1, "two watchers saw different streams"
    seen: dict[str, list[int]] = {}
    for line in b"".join(crowd[0].kept).splitlines():
        meta = json.loads(line)["object"]["metadata"]
        seen.setdefault(meta["name"], []).append(int(meta["resourceVersion"]))
    assert seen == written, "an event was lost or is out of order"


async def run(watchers: int = 1000, writes: int = 1000) -> None:
    """Everything, on one server."""
    async with server() as (config, pid), Cluster(config) as cluster:
        idle = resident(pid)
        print(f"server: idle with {idle:.0f} MB")
        created = await rate(LISTED, lambda n: cluster.uncached.create(config_map("default", f"c{n}", "a")))
        print(f"  creates: {created:,.0f}/s; {LISTED} objects make it {resident(pid):.0f} MB")
        updated = await rate(WRITES, lambda n: cluster.uncached.update(config_map("default", f"c{n}", "b")))
        print(f"  updates: {updated:,.0f}/s")
        read = await rate(WRITES, lambda n: cluster.uncached.get(ConfigMap, f"c{n}", namespace="default"))
        print(f"  gets: {read:,.0f}/s")
        began = time.perf_counter()
        found = await cluster.uncached.list(ConfigMap, namespace="default")
        took = time.perf_counter() - began
        assert len([o for o in found if (o.metadata.name or "").startswith("c")]) == LISTED
        print(f"  a list of {LISTED}: {took * 1e3:.0f} ms with its decoding")
        await fan_out(cluster, config, pid, watchers, writes)
        print(f"  grown by {resident(pid) - idle:.0f} MB in all")


if __name__ == "__main__":
    asyncio.run(run(*(int(a) for a in sys.argv[1:3])))
