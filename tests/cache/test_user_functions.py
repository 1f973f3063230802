"""User functions fail alone: whatever an index or transform function does, every object stays readable and current."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec
import pytest
from cache_world import THING, World
from fake_server import FakeServer

from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.apimachinery.kinds import metadata_only
from opsdk.cache.entry import Transform
from opsdk.cache.informer import Informer, InformerOptions
from opsdk.cache.reader import CachedReader
from opsdk.cache.store import Delta, DeltaType
from opsdk.client.client import Client
from opsdk.structured_merge.value import JsonObject


def raising(_: object) -> list[str]:
    """An index function that raises."""
    raise KeyError("owner")


def cancelling(_: object) -> list[str]:
    """An index function that raises what asyncio uses for cancellation."""
    raise asyncio.CancelledError


def wrong(_: object) -> Any:
    """An index function that returns no strings."""
    return [7]


@pytest.mark.parametrize("function", [raising, cancelling, wrong])
async def test_an_object_stays_readable_when_its_index_function_raises(function: Any) -> None:
    """The object is stored, updated and deleted as usual; only the index leaves it out; health names the function."""
    server = FakeServer()
    server.put("a")
    deltas: list[Delta] = []
    async with Informer(server) as informer:
        informer.add_handler(deltas.append)
        informer.indices.add("owner", function)
        await informer.wait_synced()
        assert informer.store.get(ObjectKey("ns", "a")) is not None
        server.put("a", color="red")
        await asyncio.sleep(1)
        entry = informer.store.get(ObjectKey("ns", "a"))
        assert entry is not None
        assert b"red" in entry.data
        server.compact()
        server.refuse = None
        await asyncio.sleep(700)
        assert [d.change for d in deltas] == [DeltaType.ADDED, DeltaType.UPDATED]
        assert list(informer.store.by_index("owner", "x")) == []
        assert informer.health().failing_functions == ("index 'owner' fails for 1 objects",)
        server.delete("a")
        await asyncio.sleep(1)
        assert informer.health().failing_functions == ()


async def test_an_index_recovers_with_the_object() -> None:
    """The next state that the function accepts is in the index."""
    server = FakeServer()
    server.put("a")
    async with Informer(server) as informer:
        informer.indices.add("color", lambda data: [msgspec.json.decode(data)["color"]])
        await informer.wait_synced()
        server.put("a", color="red")
        await asyncio.sleep(1)
        assert informer.health().failing_functions == ()


def fails(tree: JsonObject) -> JsonObject:
    """A transform that raises for one object."""
    if tree["metadata"]["name"] == "bad":
        raise ValueError("mine")
    return {**tree, "small": True}


def loses_the_name(tree: JsonObject) -> JsonObject:
    """A transform that breaks an object's identity."""
    return {**tree, "metadata": {**tree["metadata"], "name": "other"}} if tree["metadata"]["name"] == "bad" else tree


def returns_nothing(tree: JsonObject) -> Any:
    """A transform without a result."""
    return None if tree["metadata"]["name"] == "bad" else tree


@pytest.mark.parametrize("transform", [fails, loses_the_name, returns_nothing])
async def test_a_transform_that_fails_changes_nothing(transform: Transform) -> None:
    """The object is stored as the server sent it, and later objects are seen."""
    server = FakeServer()
    server.put("bad")
    async with Informer(server, InformerOptions(transform=transform)) as informer:
        await informer.wait_synced()
        server.put("bad", color="red")
        server.put("good")
        await asyncio.sleep(1)
        assert {entry.key.name for entry in informer.store.entries()} == {"bad", "good"}
        assert informer.health().failing_functions == ("transform fails for 1 objects",)


async def test_failures_do_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Two thousand failures are logged as one traceback, then one line a minute with their number."""
    server = FakeServer()
    for n in range(2000):
        server.put(f"o{n}")
    async with Informer(server) as informer:
        informer.indices.add("owner", raising)
        with caplog.at_level(logging.ERROR):
            await informer.wait_synced()
            await asyncio.sleep(61)
            server.put("o1", again=True)
            await asyncio.sleep(1)
        assert len(caplog.records) == 2
        assert "1999 more failures" in caplog.text
        assert informer.counts["function_error"] == 2001


async def test_a_typed_index_does_not_empty_a_metadata_informer() -> None:
    """Metadata informers have no whole objects to index; they hold every object all the same."""
    world = World(THING)
    world.server(THING).kind = GroupVersionKind("meta.k8s.io", "v1", "PartialObjectMetadata")
    world.server(THING).put("a")
    world.cache.index_field(THING, "color", lambda thing: [thing["color"]])
    running = asyncio.create_task(world.cache.start())
    await world.cache.wait_ready()
    client = Client(CachedReader(world.cache))
    listed = await client.list(metadata_only(THING.gvk))
    assert [item.metadata.name for item in listed] == ["a"]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_an_unexpected_error_does_not_end_the_informer(caplog: pytest.LogCaptureFixture) -> None:
    """A defect in the loop is logged and shown; the informer lists again and goes on."""
    server = FakeServer()
    server.put("a")
    async with Informer(server) as informer:
        await informer.wait_synced()
        original = informer.reflector.on_event
        broken = True

        def on_event(*args: Any, **kwargs: Any) -> Any:
            if broken:
                raise RuntimeError("a defect")
            return original(*args, **kwargs)

        informer.reflector.on_event = on_event  # type: ignore[method-assign]
        server.put("b")
        await asyncio.sleep(5)
        assert {entry.key.name for entry in informer.store.entries()} == {"a", "b"}
        assert "a defect" in caplog.text
        broken = False
        await asyncio.sleep(60)
        server.put("c")
        await asyncio.sleep(40)
        assert "c" in {entry.key.name for entry in informer.store.entries()}
        assert informer.health().ready


@pytest.mark.realtime
async def test_many_objects_do_not_block_the_event_loop() -> None:
    """Other tasks run between slices of a list, of a late index and of a late handler."""
    server = FakeServer()
    for n in range(3000):
        server.put(f"o{n}", text="x" * 200)
    turns = 0

    async def ticker() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def turns_during(work: Any) -> int:
        nonlocal turns
        task = asyncio.ensure_future(ticker())
        turns = 0
        await work
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return turns

    async with Informer(server, InformerOptions(page_size=0)) as informer:
        deltas: list[Delta] = []
        first = informer.add_handler(deltas.append)

        async def sync() -> None:
            await informer.wait_synced()
            await first.wait_synced()

        assert await turns_during(sync()) > 20
        assert len(deltas) == 3000
        informer.indices.add("n", lambda data: ["x"])
        assert await turns_during(informer.indices.wait("n")) > 10
        assert len(list(informer.store.by_index("n", "x"))) == 3000
        late = informer.add_handler(deltas.append)
        assert await turns_during(late.wait_synced()) > 10
        assert len(deltas) == 6000
