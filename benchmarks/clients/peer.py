"""The workloads of clients that have no controllers, around what differs between these clients."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from benchmarks.clients.loop import ControlLoop, Follower
from benchmarks.objects import WARM_UP, name_of
from benchmarks.protocol import Heartbeat, Meter, Options, Sample, send

Put = Callable[[str, Any], None]
"""Gets the name and the newest state of an object."""
_WARM_UP_ROUNDS = 25


class Requests(Protocol):
    """The part of a client that sends single requests."""

    async def connect(self) -> None:
        """Open the connection."""
        ...

    async def close(self) -> None:
        """Close the connection."""
        ...

    async def create(self, number: int) -> None:
        """Create a ConfigMap."""
        ...

    async def get(self, name: str) -> None:
        """Read a ConfigMap."""
        ...

    async def patch(self, name: str, value: str) -> None:
        """Write ``data.value`` of a ConfigMap."""
        ...


class Peer(ABC):
    """What a client does, written as its documentation does it. Kinds: ``configmaps``, ``pods``, ``widgets``."""

    def __init__(self, options: Options) -> None:
        self.kubeconfig: str = options["kubeconfig"]
        self.namespace: str = options["namespace"]

    @abstractmethod
    async def connect(self) -> None:
        """Load the kubeconfig."""

    async def close(self) -> None:
        """Close the connections."""
        return

    @abstractmethod
    async def feed(self, kind: str, put: Put, forget: Callable[[str], None], synced: Callable[[], None]) -> None:
        """List, call `synced`, and watch until cancelled."""

    @abstractmethod
    def value_of(self, widget: Any) -> int:
        """Return ``spec.value``."""

    @abstractmethod
    def observed_of(self, widget: Any) -> int | None:
        """Return ``status.observed``."""

    def generation_of(self, widget: Any) -> int:
        """Return ``metadata.generation``, which most clients name so."""
        generation: int = widget.metadata.generation
        return generation

    def node_of(self, pod: Any) -> str:
        """Return ``spec.nodeName``, which most clients name so."""
        node: str = pod.spec.nodeName
        return node

    @abstractmethod
    async def write_status(self, widget: Any, value: int) -> None:
        """Write ``status.observed``."""

    @abstractmethod
    async def create(self, number: int) -> None:
        """Create a ConfigMap of `benchmarks.objects.config_map`."""

    @abstractmethod
    async def get(self, name: str) -> None:
        """Read a ConfigMap."""

    @abstractmethod
    async def patch(self, name: str, value: str) -> None:
        """Write ``data.value`` of a ConfigMap."""


def workloads(peer_type: type[Peer]) -> dict[str, Callable[[Options], Awaitable[Sample]]]:
    """Return the workloads of a client."""

    async def reconcile(options: Options) -> Sample:
        return await _reconcile(peer_type(options), options)

    async def sync(options: Options) -> Sample:
        return await _sync(peer_type(options), options)

    async def follow(options: Options) -> Sample:
        return await _follow(peer_type(options), options)

    async def requests(options: Options) -> Sample:
        return await run_requests(peer_type(options), options)

    return {"reconcile": reconcile, "sync": sync, "follow": follow, "requests": requests}


async def _reconcile(peer: Peer, options: Options) -> Sample:
    done = asyncio.Event()
    written = 0

    async def reconcile(widget: Any) -> None:
        nonlocal written
        value = peer.value_of(widget)
        if peer.observed_of(widget) == value:
            return
        await peer.write_status(widget, value)
        written += 1
        if written == options["count"]:
            done.set()

    meter = Meter()
    await peer.connect()
    loop: ControlLoop[Any] = ControlLoop(reconcile, workers=options["workers"])

    def put(name: str, widget: Any) -> None:
        loop.keep(name, widget)
        loop.enqueue(name)

    await loop.run(peer.feed("widgets", put, loop.forget, lambda: None), done)
    sample = meter.stop(written)
    await peer.close()
    return sample


async def _sync(peer: Peer, options: Options) -> Sample:
    cache: dict[str, Any] = {}
    by_node: dict[str, set[str]] = defaultdict(set)
    synced = asyncio.Event()

    def put(name: str, obj: Any) -> None:
        cache[name] = obj
        if options["kind"] == "pods":
            by_node[peer.node_of(obj)].add(name)
        if len(cache) == options["count"]:
            synced.set()

    meter = Meter()
    with Heartbeat(enabled=options.get("heartbeat", False)) as beat:
        await peer.connect()
        feeding = asyncio.ensure_future(peer.feed(options["kind"], put, lambda _: None, lambda: None))
        waiting = asyncio.ensure_future(synced.wait())
        await asyncio.wait([feeding, waiting], return_when=asyncio.FIRST_COMPLETED)
        if feeding.done():
            feeding.result()
    sample = meter.stop(len(cache))
    sample.values.update(beat.figures(), indexed=sum(map(len, by_node.values())))
    feeding.cancel()
    await asyncio.gather(feeding, return_exceptions=True)
    await peer.close()
    return sample


async def _follow(peer: Peer, options: Options) -> Sample:
    done = asyncio.Event()

    def finish() -> None:
        beat.stop()
        done.set()

    follower = Follower(options, finish)
    meter: Meter | None = None
    beat = Heartbeat(enabled=options.get("heartbeat", False))
    generations: dict[str, int] = {}

    async def reconcile(widget: tuple[str, Any]) -> None:
        follower.see(widget[0], peer.value_of(widget[1]))

    await peer.connect()
    loop: ControlLoop[tuple[str, Any]] = ControlLoop(reconcile, workers=options.get("workers", 1))

    def put(name: str, widget: Any) -> None:
        loop.keep(name, (name, widget))
        generation = peer.generation_of(widget)
        if generations.get(name) != generation:
            generations[name] = generation
            loop.enqueue(name)

    def begin() -> None:
        nonlocal meter
        meter = Meter()
        beat.start()
        send(ready=True)

    await loop.run(peer.feed("widgets", put, loop.forget, begin), done)
    assert meter is not None
    sample = meter.stop(options["events"])
    sample.values.update(beat.figures(), **follower.stamps)
    await peer.close()
    return sample


async def run_requests(peer: Requests, options: Options) -> Sample:
    """Send ``count`` requests of one verb, ``workers`` at a time."""
    verb, count = options["verb"], options["count"]
    await peer.connect()
    numbers = iter(range(count))

    async def lane() -> None:
        for number in numbers:
            if verb == "create":
                await peer.create(number)
            elif verb == "get":
                await peer.get(name_of(number))
            else:
                await peer.patch(name_of(number), "changed")

    # Opens the connections that the requests will use. Several rounds: a client may open fewer than one for each
    # request of the first burst, and would open the others while the meter runs.
    for _ in range(_WARM_UP_ROUNDS):
        await asyncio.gather(*(peer.get(WARM_UP) for _ in range(options["workers"])))
    meter = Meter()
    async with asyncio.TaskGroup() as group:
        for _ in range(options["workers"]):
            group.create_task(lane())
    sample = meter.stop(count)
    await peer.close()
    return sample
