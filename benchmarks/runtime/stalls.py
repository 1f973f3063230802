"""The longest stalls of the event loop while a cache works with 10,000 Pods of 5 kB."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import msgspec

from benchmarks import objects
from benchmarks.protocol import Heartbeat
from opsdk.aio.garbage import tune_garbage_collector
from opsdk.api.core.v1 import Pod
from opsdk.apimachinery.codec import split_list
from opsdk.apimachinery.gvk import GroupVersionResource, ObjectKey
from opsdk.apimachinery.kinds import kind_of
from opsdk.apimachinery.meta import ListMeta
from opsdk.apimachinery.rest_mapper import DiscoverySource, RestMapper, RestMapping, ServedResource
from opsdk.apimachinery.scheme import Scheme
from opsdk.cache.cache import Cache
from opsdk.cache.list_watch import ListerWatcher, RawEvent
from opsdk.cache.options import CacheOptions, CacheScope
from opsdk.cache.reader import CachedReader
from opsdk.client.client import Client
from opsdk.event.dispatcher import EventDispatcher
from opsdk.event.event import AnyEvent, event_of
from opsdk.event.handlers import EnqueueRequestsFromMapFunc
from opsdk.event.request import Request
from opsdk.queue.work_queue import WorkQueue

PODS = 10_000


def pod(number: int, version: int = 1) -> bytes:
    """Return a Pod of about 5 kB as a server sends it."""
    tree = objects.pod(f"ns-{number % 50}", number)
    tree["metadata"]["uid"] = f"00000000-0000-0000-0000-{number:012}"
    tree["metadata"]["resourceVersion"] = str(number + version * PODS)
    fields: objects.Tree = {f"f:field-{index}": {} for index in range(140)}
    tree["metadata"]["managedFields"] = [{"manager": "kubelet", "operation": "Update", "fieldsV1": fields}]
    return msgspec.json.encode(tree)


class Server:
    """Serves the pods in pages or as a streaming list, and ends the watch when told to."""

    def __init__(self) -> None:
        self.pods = [pod(number) for number in range(PODS)]
        self.version = 1
        self.ended = asyncio.Event()

    def change(self) -> None:
        """Change every pod."""
        self.version += 1
        self.pods = [pod(number, self.version) for number in range(PODS)]

    async def list_page(self, *, continue_token: str, limit: int) -> tuple[list[bytes], ListMeta]:
        """Return a page, out of one body as a transport has it."""
        start = int(continue_token or 0)
        page = self.pods[start : start + limit]
        more = str(start + limit) if start + limit < PODS else ""
        meta = msgspec.json.encode({"resourceVersion": str(PODS * (self.version + 1)), "continue": more})
        body = b'{"kind":"PodList","apiVersion":"v1","metadata":' + meta + b',"items":[' + b",".join(page) + b"]}"
        await asyncio.sleep(0)
        return split_list(body)

    @asynccontextmanager
    async def watch(
        self, *, resource_version: str, initial_events: bool = False
    ) -> AsyncIterator[AsyncIterator[RawEvent]]:
        """Stream the pods, if asked for; then nothing until `ended`."""
        yield self._events(initial_events=initial_events)

    async def _events(self, *, initial_events: bool) -> AsyncIterator[RawEvent]:
        if initial_events:
            for data in self.pods:
                yield RawEvent("ADDED", data)
            end = {
                "resourceVersion": str(PODS * (self.version + 1)),
                "annotations": {"k8s.io/initial-events-end": "true"},
            }
            yield RawEvent("BOOKMARK", msgspec.json.encode({"kind": "Pod", "metadata": end}))
        await self.ended.wait()
        self.ended.clear()
        yield RawEvent("ERROR", b'{"kind":"Status","code":410,"reason":"Expired","message":"too old"}')

    async def get(self, key: ObjectKey) -> bytes:
        """Return a pod."""
        return self.pods[int(key.name.rpartition("-")[2])]

    def describe(self) -> str:
        """Return the resource."""
        return "pods"


class Mapper(DiscoverySource):
    """Serves one kind."""

    async def fetch(self) -> ServedResource:
        """Return it."""
        resource = GroupVersionResource("", "v1", "pods")
        return ServedResource(mappings=[RestMapping(gvk=Pod.gvk, resource=resource, namespaced=True)])


async def _measure(name: str, work: Awaitable[object]) -> None:
    beat = Heartbeat(enabled=True)
    beat.start()
    began = time.perf_counter()
    result = await work
    seconds = time.perf_counter() - began
    beat.stop()
    del result  # frees the objects of a list, outside the measurement
    print(
        f"  {name:<34} longest stall {beat.longest * 1000:6.1f} ms, of it CPU {beat.longest_cpu * 1000:6.1f} ms   "
        f"total {seconds * 1000:7.0f} ms"
    )


async def stalls(*, watch_list: bool) -> None:
    """Print the longest stall of each kind of work."""
    print(f"{PODS} Pods of {len(pod(1))} bytes, {'streaming list' if watch_list else 'pages of 500'}:")
    server = Server()

    def source(_: RestMapping, scope: CacheScope) -> ListerWatcher:
        return server

    options = CacheOptions(watch_list=watch_list)
    cache = Cache(source, scheme=Scheme(), mapper=RestMapper(Mapper()), options=options)
    running = asyncio.create_task(cache.start())
    await asyncio.sleep(0)
    client = Client(CachedReader(cache))
    await _measure("sync", _sync(cache))
    await _measure("typed list of all", client.list(Pod))
    await _measure("typed list of all, again", client.list(Pod))
    cached = await cache.informer_for(Pod)
    cache.index_field(Pod, "spec.nodeName", lambda p: [p.spec.node_name or ""])
    await _measure("late index", client.list(Pod, field_selector={"spec.nodeName": "node-1"}))
    await _measure("late source with a map function", _late_source(cached))
    server.change()
    await _measure("relist after 410, all changed", _relist(server, cached))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def _sync(cache: Cache) -> None:
    await (await cache.informer_for(Pod)).wait_synced()


async def _late_source(cached: object) -> None:
    queue: WorkQueue[Request] = WorkQueue()
    handler = EnqueueRequestsFromMapFunc[Pod](lambda p: [Request(p.metadata.namespace, p.spec.node_name or "")])
    dispatcher = EventDispatcher("bench", handler, ())
    dispatcher.bind(queue)

    def dispatch(delta: object) -> None:
        event: AnyEvent = event_of(delta, kind_of(Pod))  # type: ignore[arg-type]
        dispatcher.dispatch(event)

    registration = cached.add_handler(dispatch)  # type: ignore[attr-defined]
    await registration.wait_synced()
    queue.shut_down()
    registration.remove()
    await dispatcher.aclose()


async def _relist(server: Server, cached: object) -> None:
    [informer] = cached.informers.values()  # type: ignore[attr-defined]
    lists = informer.counts["list"]
    server.ended.set()
    expected = str(server.version * PODS)
    while informer.counts["list"] == lists or min(e.resource_version for e in informer.store.entries()) < expected:
        await asyncio.sleep(0.05)


def main() -> None:
    """Run both ways to list, with the garbage collector of `Operator.run`."""
    tune_garbage_collector()
    for watch_list in (True, False):
        asyncio.run(stalls(watch_list=watch_list))


if __name__ == "__main__":
    main()
