"""Own writes: a cached read never goes back in time, and no deletion of an own object is missed."""

from __future__ import annotations

import asyncio
import random

import msgspec
import pytest
from fake_server import FakeServer

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.selectors import LabelRequirements
from opsdk.cache.entry import make_entry
from opsdk.cache.informer import Informer, InformerOptions
from opsdk.cache.own_writes import OwnWrites, revision_of
from opsdk.cache.store import Delta, DeltaType
from opsdk.errors import ConnectError, ForbiddenError


def key(name: str) -> ObjectKey:
    """The key of an object of the tests."""
    return ObjectKey("ns", name)


def body(server: FakeServer, name: str) -> bytes:
    """What the server answers to a write of the object."""
    return msgspec.json.encode(server.objects[name])


def version(informer: Informer, name: str) -> str:
    """The version that a read shows; empty for no object."""
    entry = informer.store.get(key(name))
    return entry.resource_version if entry is not None else ""


async def test_a_write_is_read_before_the_watch_shows_it() -> None:
    """The store has the written state at once; handlers get it when the watch shows it."""
    server = FakeServer()
    server.put("a")
    deltas: list[Delta] = []
    async with Informer(server) as informer:
        informer.add_handler(deltas.append)
        await informer.wait_synced()
        server.put("a", color="red")
        server.put("b")
        informer.own_writes.record(body(server, "a"))
        informer.own_writes.record(body(server, "b"))
        assert version(informer, "a") == "3"
        assert {entry.key.name for entry in informer.store.entries("ns")} == {"a", "b"}
        assert {entry.key.name for entry in informer.store.entries(own_writes=False)} == {"a"}
        assert len(deltas) == 1
        await asyncio.sleep(1)
        assert [d.change for d in deltas] == [DeltaType.ADDED, DeltaType.UPDATED, DeltaType.ADDED]
        assert not informer.store.own


async def test_indices_show_own_writes() -> None:
    """A list by index has the written object under its new value, and not under its old one."""
    server = FakeServer()
    server.put("a", color="red")
    async with Informer(server) as informer:
        informer.indices.add("color", lambda data: [msgspec.json.decode(data)["color"]])
        await informer.wait_synced()
        server.put("a", color="blue")
        informer.own_writes.record(body(server, "a"))
        assert [e.key.name for e in informer.store.by_index("color", "blue")] == ["a"]
        assert list(informer.store.by_index("color", "red")) == []


async def test_an_own_deletion_is_not_read_again() -> None:
    """Until the watch shows the deletion, the object is hidden; another object with its name is not."""
    server = FakeServer()
    server.put("a")
    async with Informer(server) as informer:
        await informer.wait_synced()
        uid = server.objects["a"]["metadata"]["uid"]
        server.delete("a")
        informer.store.write_deleted(key("a"), uid)
        assert version(informer, "a") == ""
        assert list(informer.store.entries()) == []
        server.put("a")
        await asyncio.sleep(1)
        assert version(informer, "a") == "4"


async def test_a_late_response_does_not_restore_a_deleted_object() -> None:
    """The watch shows the creation and the deletion before the response of the create arrives."""
    server = FakeServer()
    async with Informer(server) as informer:
        await informer.wait_synced()
        server.put("a")
        late = body(server, "a")
        server.delete("a")
        await asyncio.sleep(1)
        informer.own_writes.record(late)
        assert version(informer, "a") == ""


async def test_an_object_created_and_deleted_during_a_watch_gap_is_a_deletion() -> None:
    """Two lists show no difference; the own write in between does."""
    server = FakeServer()
    deltas: list[Delta] = []
    async with Informer(server) as informer:
        informer.add_handler(deltas.append)
        await informer.wait_synced()
        server.refuse = ConnectError("down")
        await asyncio.sleep(301)
        server.put("child")
        informer.own_writes.record(body(server, "child"))
        assert version(informer, "child")
        server.delete("child")
        server.compact()
        server.refuse = None
        await asyncio.sleep(60)
        assert version(informer, "child") == ""
        assert [(d.change, d.entry.key.name, d.final_state_unknown) for d in deltas] == [
            (DeltaType.DELETED, "child", True)
        ]


async def test_an_object_replaced_during_a_watch_gap_is_two_changes() -> None:
    """Our object was deleted, and another client created one with the same name."""
    server = FakeServer()
    deltas: list[Delta] = []
    async with Informer(server) as informer:
        informer.add_handler(deltas.append)
        await informer.wait_synced()
        server.refuse = ConnectError("down")
        await asyncio.sleep(301)
        server.put("child")
        informer.own_writes.record(body(server, "child"))
        server.delete("child")
        server.put("child")
        server.compact()
        server.refuse = None
        await asyncio.sleep(60)
        assert [d.change for d in deltas] == [DeltaType.DELETED, DeltaType.ADDED]


async def test_own_changes_are_distinguished_from_other_changes() -> None:
    """Only a change that is exactly our write is our own: not one that a list combined with others."""
    server = FakeServer()
    deltas: list[Delta] = []
    async with Informer(server) as informer:
        informer.add_handler(deltas.append)
        await informer.wait_synced()
        server.put("a")
        informer.own_writes.record(body(server, "a"), sole_change=True)
        await asyncio.sleep(1)
        server.put("a", foreign=True)
        await asyncio.sleep(1)
        server.refuse = ConnectError("down")
        await asyncio.sleep(301)
        server.put("a", foreign=2)
        server.put("a", own=True)
        informer.own_writes.record(body(server, "a"), sole_change=True)
        server.compact()
        server.refuse = None
        await asyncio.sleep(60)
    assert [d.own for d in deltas] == [True, False, False]


@pytest.mark.parametrize("watch_list", [False, True])
@pytest.mark.parametrize("seconds", [0.015, 1.0])
async def test_a_rollback_leads_to_a_list_at_any_time(watch_list: bool, seconds: float) -> None:
    """Also before the watch is open, and in a watch that began as a streaming list."""
    server = FakeServer()
    async with Informer(server, InformerOptions(watch_list=watch_list)) as informer:
        await asyncio.sleep(seconds)
        informer.on_rollback("1")
        await asyncio.sleep(10)
        assert informer.counts["synced"] == 2


async def test_a_write_outside_the_selectors_is_not_read() -> None:
    """An object that the informer does not select does not appear; one that leaves its selection disappears."""
    server = FakeServer()
    server.put("a")
    async with Informer(server, InformerOptions(label_selector=LabelRequirements.equal({"n": "a"}))) as informer:
        await informer.wait_synced()
        server.put("b")
        informer.own_writes.record(body(server, "b"))
        assert version(informer, "b") == ""
        changed = {
            **server.objects["a"],
            "metadata": {**server.objects["a"]["metadata"], "labels": {}, "resourceVersion": "9"},
        }
        informer.own_writes.record(msgspec.json.encode(changed))
        assert version(informer, "a") == ""


async def test_unknown_results_are_read_from_the_server() -> None:
    """After a write whose response is not the object, the next read goes to the server, once."""
    server = FakeServer()
    server.put("a")
    server.put("b")
    async with Informer(server) as informer:
        await informer.wait_synced()
        server.refuse_watch = ConnectError("down")
        server.put("a", scaled=True)
        server.delete("b")
        informer.store.own.record_unknown(key("a"))
        informer.store.own.record_unknown(key("b"))
        await informer.unknown_reads.read()
        await informer.unknown_reads.read()
        assert server.gets == 2
        assert version(informer, "a") == "4"
        assert version(informer, "b") == ""


async def test_an_object_written_during_its_read_is_read_again() -> None:
    """The response is older than the second write; a failed read is repeated."""
    server = FakeServer()
    server.put("a")
    async with Informer(server) as informer:
        await informer.wait_synced()
        server.refuse_watch = ConnectError("down")
        own = informer.store.own
        own.record_unknown(key("a"))
        asking = asyncio.create_task(informer.unknown_reads.read())
        await asyncio.sleep(0.001)
        own.record_unknown(key("a"))
        await asking
        assert key("a") in own.unknown
        server.refuse = ConnectError("down")
        with pytest.raises(ConnectError):
            await informer.unknown_reads.read()
        assert key("a") in own.unknown
        server.refuse = ForbiddenError("no get")
        await informer.unknown_reads.read()
        assert not own.unknown


@pytest.mark.parametrize("seed", range(60))
async def test_reads_never_go_back_in_time(seed: int) -> None:
    """Own and foreign writes, faults, compactions: a read is at least as new as the last own write and the last read.

    In the end the store equals the server, and the deltas alone rebuild it.
    """
    rng = random.Random(seed)
    server = FakeServer(rng)
    server.fault_rate = 0.2
    newest: dict[str, int] = {}
    state: dict[str, str] = {}
    deltas: list[Delta] = []

    def mirror(delta: Delta) -> None:
        deltas.append(delta)
        if delta.change is DeltaType.DELETED:
            state.pop(delta.entry.key.name, None)
        else:
            state[delta.entry.key.name] = delta.entry.resource_version

    def check(informer: Informer) -> None:
        for name in [f"o{n}" for n in range(6) if key(f"o{n}") not in informer.store.own.unknown]:
            read_version = version(informer, name)
            if read_version:
                assert int(read_version) >= newest.get(name, 0), name
                newest[name] = int(read_version)
            elif name in newest:
                # Gone: a later state must be newer than everything seen.
                assert (
                    name not in server.objects
                    or int(server.objects[name]["metadata"]["resourceVersion"]) > newest[name]
                )

    async with Informer(server, InformerOptions(watch_list=rng.random() < 0.5)) as informer:
        informer.add_handler(mirror)
        for step in range(150):
            name = f"o{rng.randrange(6)}"
            own = informer.has_synced and rng.random() < 0.6
            roll = rng.random()
            if roll < 0.25 and name in server.objects:
                uid = server.objects[name]["metadata"]["uid"]
                server.delete(name)
                if own:
                    informer.store.write_deleted(key(name), uid)
                    assert version(informer, name) == "" or key(name) in informer.store.own.unknown
            elif roll < 0.9:
                server.put(name, step=step)
                if own:
                    informer.own_writes.record(body(server, name), sole_change=True)
                    assert version(informer, name) == server.objects[name]["metadata"]["resourceVersion"]
            else:
                server.compact()
            check(informer)
            await asyncio.sleep(rng.choice([0, 0, 0.01, 0.5, 4]))
            check(informer)
        server.fault_rate = 0.0
        await asyncio.sleep(2000)
        expected = {name: o["metadata"]["resourceVersion"] for name, o in server.objects.items()}
        assert {e.key.name: e.resource_version for e in informer.store.entries()} == expected == state
        assert "0 pending" in repr(informer.store.own)


def test_writes_with_non_numeric_resource_versions_are_not_recorded() -> None:
    """Without an order of versions, an own write cannot be distinguished from a newer state."""
    own = OwnWrites()
    data = msgspec.json.encode({"metadata": {"name": "a", "resourceVersion": "x7", "uid": "u"}})
    own.record(make_entry(data)[0], revision_of("x7"), passed=0, in_scope=True)
    assert not own
