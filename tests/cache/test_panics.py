"""Exceptions that are no ``Exception`` in user functions of an informer."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from fake_server import FakeServer

from opsdk.cache.informer import Informer, InformerOptions
from opsdk.cache.store import Delta, DeltaType
from opsdk.structured_merge.value import JsonObject


class NativePanic(BaseException):
    """Stands for the panic of a native library."""


PANICS = [NativePanic("native"), BaseExceptionGroup("group", [NativePanic("inner")]), GeneratorExit(), RecursionError()]


@pytest.mark.parametrize("panic", PANICS, ids=lambda panic: type(panic).__name__)
async def test_no_exception_of_a_user_function_stops_an_informer(panic: BaseException) -> None:
    """A transform, an index and a handler that raise for one object leave it readable, and other objects untouched."""
    server = FakeServer()
    server.put("bad")

    def fail_for_bad(name: str) -> None:
        if name == "bad":
            raise panic

    def transform(tree: JsonObject) -> JsonObject:
        fail_for_bad(tree["metadata"]["name"])
        return tree

    def index(data: bytes) -> list[str]:
        fail_for_bad(msgspec.json.decode(data)["metadata"]["name"])
        return ["x"]

    records: list[tuple[str, DeltaType]] = []

    def handle(delta: Delta) -> None:
        fail_for_bad(delta.entry.key.name)
        records.append((delta.entry.key.name, delta.change))

    async with Informer(server, InformerOptions(transform=transform)) as informer:
        informer.indices.add("all", index)
        informer.add_handler(handle)
        await informer.wait_synced()
        server.put("good")
        await asyncio.sleep(1)
        server.put("bad", color="red")
        server.delete("good")
        await asyncio.sleep(1)
        assert records == [("good", DeltaType.ADDED), ("good", DeltaType.DELETED)]
        assert [entry.key.name for entry in informer.store.entries()] == ["bad"]
        assert informer.counts["handler_error"] == 2
        assert server.lists <= 1


async def test_a_hostile_resource_version_does_not_stop_a_watch() -> None:
    """A version of 5,000 digits, and one with digits of another script, are no revisions."""
    server = FakeServer()
    server.put("a")
    async with Informer(server) as informer:
        await informer.wait_synced()
        for version in ("9" * 5_000, "٣"):
            hostile = {
                **server.objects["a"],
                "metadata": {**server.objects["a"]["metadata"], "resourceVersion": version},
            }
            informer.own_writes.record(msgspec.json.encode(hostile))
            server.record("MODIFIED", hostile)
        server.put("b")
        await asyncio.sleep(1)
        assert {entry.key.name for entry in informer.store.entries()} == {"a", "b"}
