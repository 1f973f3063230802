"""The informer's laws: it ends up with what the server has, and tells every difference."""

from __future__ import annotations

import asyncio
import logging
import random
from itertools import pairwise

import msgspec
import pytest
from fake_server import FakeServer

from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.apimachinery.meta import ListMeta
from opsdk.cache.health import InformerState
from opsdk.cache.informer import Informer, InformerOptions
from opsdk.cache.list_watch import RawEvent
from opsdk.cache.store import Delta, DeltaType
from opsdk.errors import (
    ApiError,
    BadRequestError,
    CacheError,
    CacheSyncError,
    ConnectError,
    DeadlineError,
    ForbiddenError,
    InternalServerError,
    NotFoundError,
    ServiceUnavailableError,
    TooManyRequestsError,
)


class Mirror:
    """A handler that rebuilds the store from differences alone, and fails on an impossible one."""

    def __init__(self) -> None:
        self.state: dict[str, str] = {}
        self.deltas: list[Delta] = []

    def __call__(self, delta: Delta) -> None:
        name = delta.entry.key.name
        self.deltas.append(delta)
        if delta.change is DeltaType.ADDED:
            assert name not in self.state
        else:
            assert name in self.state
        if delta.change is DeltaType.DELETED:
            del self.state[name]
        else:
            self.state[name] = delta.entry.resource_version


def versions(server: FakeServer) -> dict[str, str]:
    """What the server has."""
    return {name: o["metadata"]["resourceVersion"] for name, o in server.objects.items()}


def stored(informer: Informer) -> dict[str, str]:
    """What the store has."""
    return {e.key.name: e.resource_version for e in informer.store.entries()}


@pytest.mark.behaviour(50, 56)
@pytest.mark.behaviour(49, better="Lists are sent without a resource version, so they never expire.")
@pytest.mark.parametrize("seed", range(40))
async def test_an_informer_converges_to_the_state_of_the_server(seed: int) -> None:
    """Faults, compactions, cut streams and expired pages: the store equals the server, and so do the differences."""
    rng = random.Random(seed)
    server = FakeServer(rng)
    server.fault_rate = 0.15
    for n in range(rng.randrange(12)):
        server.put(f"o{n}")
    mirror = Mirror()
    async with Informer(
        server, InformerOptions(page_size=rng.choice([1, 3, 500]), watch_list=rng.random() < 0.5)
    ) as informer:
        informer.add_handler(mirror)
        for step in range(120):
            name = f"o{rng.randrange(12)}"
            roll = rng.random()
            if roll < 0.25 and name in server.objects:
                server.delete(name)
            elif roll < 0.9:
                server.put(name, step=step)
            else:
                server.compact()
            await asyncio.sleep(rng.choice([0, 0, 0.01, 0.5, 4]))
            if rng.random() < 0.02:
                await asyncio.sleep(700)
        server.fault_rate = 0.0
        await asyncio.sleep(2000)
        assert stored(informer) == versions(server) == mirror.state
        assert informer.last_error is None


@pytest.mark.behaviour(57, 58)
async def test_a_late_handler_gets_existing_objects_first() -> None:
    """A handler added after the sync gets an initial ADDED for each object, then live events."""
    server = FakeServer()
    server.put("a")
    server.put("b")
    async with Informer(server) as informer:
        await informer.wait_synced()
        late = Mirror()
        registration = informer.add_handler(late)
        assert registration.has_synced
        assert sorted(late.state) == ["a", "b"]
        assert all(d.initial for d in late.deltas)
        server.put("c")
        await asyncio.sleep(1)
        assert sorted(late.state) == ["a", "b", "c"]
        registration.remove()
        registration.remove()
        server.put("d")
        await asyncio.sleep(1)
        assert "d" not in late.state


@pytest.mark.behaviour(54, 100)
@pytest.mark.behaviour(49, better="Lists are sent without a resource version, so they never expire.")
@pytest.mark.behaviour(55, better="Handlers always receive DELETED and then ADDED.")
async def test_a_deletion_during_a_watch_gap_is_delivered() -> None:
    """After a gap, a deletion has the last known state and final_state_unknown; a recreation is a delete and an add."""
    server = FakeServer()
    server.put("gone")
    server.put("again")
    mirror = Mirror()
    async with Informer(server) as informer:
        informer.add_handler(mirror)
        await informer.wait_synced()
        server.refuse = ConnectError("down")
        await asyncio.sleep(301)
        server.delete("gone")
        server.delete("again")
        server.put("again")
        server.compact()
        server.refuse = None
        await asyncio.sleep(100)
        deltas = [(d.change, d.entry.key.name, d.final_state_unknown) for d in mirror.deltas[2:]]
        assert deltas == [
            (DeltaType.DELETED, "again", True),
            (DeltaType.ADDED, "again", False),
            (DeltaType.DELETED, "gone", True),
        ]


@pytest.mark.behaviour(51)
async def test_too_many_requests_does_not_list_again() -> None:
    """429 on a watch waits at least as long as asked, then resumes at the same revision."""
    server = FakeServer()
    server.put("a")
    async with Informer(server) as informer:
        await informer.wait_synced()
        server.refuse = TooManyRequestsError("slow down", retry_after=40)
        await asyncio.sleep(301)
        gaps = [later - earlier for earlier, later in pairwise(server.watch_times)]
        assert len(gaps) > 3
        assert min(gaps) >= 40
        server.refuse = None
        await asyncio.sleep(100)
        assert server.lists == 1
        assert set(server.watches) == {str(server.revision)}


class BlackHole(FakeServer):
    """A server whose answers to some requests are lost while it is silent; those requests are counted."""

    silent = ""
    lost = 0

    async def _lose(self, verb: str) -> None:
        if self.silent == verb:
            self.lost += 1
            await asyncio.get_running_loop().create_future()

    async def list_page(self, *, continue_token: str, limit: int) -> tuple[list[bytes], ListMeta]:
        await self._lose("list")
        return await super().list_page(continue_token=continue_token, limit=limit)

    async def get(self, key: ObjectKey) -> bytes:
        await self._lose("get")
        return await super().get(key)


@pytest.mark.parametrize("verb", ["list", "get"])
async def test_a_check_that_is_not_answered_ends_soon(verb: str) -> None:
    """A lost answer to the check after a cut watch ends it after ten seconds: it is tried again soon, without a list.

    So the informer sees the next object within 13 seconds of the first answer, however long there was none.
    """
    server = BlackHole()
    server.put("a")
    async with Informer(server) as informer:
        await informer.wait_synced()
        lists = server.lists
        server.refuse_watch, server.silent = ConnectError("refused"), verb
        await asyncio.sleep(301)
        server.refuse_watch = None
        server.put("b")
        await asyncio.sleep(600)
        assert server.lost > 50
        assert isinstance(informer.last_error, DeadlineError)
        assert "no resource version within 10 s" in str(informer.last_error)
        server.silent = ""
        await asyncio.sleep(13)  # the rest of a check, and the shortest backoff
        assert stored(informer) == versions(server)
        assert server.lists - lists <= server.lost + 1


async def test_an_expired_watch_does_not_warn(caplog: pytest.LogCaptureFixture) -> None:
    """A list replaces a watch whose resource version is too old, as after a change of a definition; a break warns."""
    server = FakeServer()
    async with Informer(server) as informer:
        await informer.wait_synced()
        with caplog.at_level(logging.INFO):
            server.revision += 1
            server.compact()
            await asyncio.sleep(400)
            assert informer.counts["error"] == 1
            assert {record.levelname for record in caplog.records} == {"INFO"}
            assert "cannot watch" in caplog.text
            server.refuse = ConnectError("refused")
            await asyncio.sleep(400)
        assert "WARNING" in {record.levelname for record in caplog.records}


@pytest.mark.behaviour(48, better="Health, readiness and the sync timeout include the server's message.")
async def test_the_sync_timeout_names_the_denial() -> None:
    """The sync error of an informer that may not list has the server's message."""
    server = FakeServer()
    server.refuse = ForbiddenError('things is forbidden: User "u" cannot list resource "things"')
    async with Informer(server) as informer:
        with pytest.raises(CacheSyncError, match="cannot list resource") as caught:
            await informer.wait_synced(30)
        assert isinstance(caught.value.__cause__, ForbiddenError)
        assert asyncio.get_running_loop().time() == pytest.approx(30)
        server.refuse = None
        await informer.wait_synced()


@pytest.mark.behaviour(50)
async def test_failures_are_retried_with_growing_delays() -> None:
    """An outage costs a few requests a minute, not a stream of them."""
    server = FakeServer()
    server.refuse = ConnectError("refused")
    async with Informer(server):
        await asyncio.sleep(600)
    assert 10 <= server.lists <= 40


async def test_an_undecodable_object_is_skipped() -> None:
    """An object without readable metadata is counted and skipped; other objects are stored."""
    server = FakeServer()
    server.put("good")
    server.objects["bad"] = {"kind": "Thing", "metadata": {"name": 5}}
    async with Informer(server) as informer:
        await informer.wait_synced()
        assert stored(informer) == {"good": "2"}
        assert informer.counts["undecodable"] == 1
        server.raw_garbage.append(RawEvent("ADDED", msgspec.json.encode({"metadata": {"labels": 7}})))
        server.raw_garbage.append(RawEvent("STRANGE", msgspec.json.encode(server.objects["good"])))
        server.put("next")
        await asyncio.sleep(1)
        assert "next" in stored(informer)
        assert informer.counts["undecodable"] == 3


@pytest.mark.behaviour(59)
async def test_a_raising_handler_stops_neither_handlers_nor_the_watch() -> None:
    """Other handlers and the watch go on; the error is counted."""
    server = FakeServer()
    mirror = Mirror()

    def broken(_: Delta) -> None:
        raise RuntimeError("mine")

    async with Informer(server) as informer:
        informer.add_handler(broken)
        informer.add_handler(mirror)
        await informer.wait_synced()
        server.put("a")
        await asyncio.sleep(1)
        assert mirror.state == {"a": "2"}
        assert informer.counts["handler_error"] == 1


@pytest.mark.behaviour(47)
async def test_only_handlers_with_resync_get_resyncs() -> None:
    """Every resync period, give or take a tenth, an update with the same object."""
    server = FakeServer()
    server.put("a")
    resynced, quiet = [], []
    async with Informer(server, InformerOptions(resync=100)) as informer:
        informer.add_handler(resynced.append, resync=True)
        informer.add_handler(quiet.append)
        await asyncio.sleep(250)
    assert [d.resync for d in resynced] == [False, True, True]
    assert len(quiet) == 1
    assert resynced[1].old is resynced[1].new


async def test_short_watches_lead_to_a_new_list() -> None:
    """If the server keeps ending watches at once without an error, the informer lists again."""

    class Ending(FakeServer):
        async def _events(self, after: int):  # type: ignore[no-untyped-def]  # noqa: ANN202
            return
            yield

    server = Ending()
    async with Informer(server):
        await asyncio.sleep(200)
    assert 2 <= server.lists <= 6
    assert len(server.watches) < 30


async def test_indices_follow_changes() -> None:
    """An index returns the stored objects; one added later covers existing objects."""
    server = FakeServer()
    server.put("a", color="red")
    server.put("b", color="blue")

    def color(data: bytes) -> list[str]:
        return [msgspec.json.decode(data)["color"]]

    async with Informer(server) as informer:
        await informer.wait_synced()
        informer.indices.add("color", color)
        assert [e.key for e in informer.store.by_index("color", "red")] == [ObjectKey("ns", "a")]
        server.put("a", color="blue")
        await asyncio.sleep(1)
        assert {e.key.name for e in informer.store.by_index("color", "blue", "ns")} == {"a", "b"}
        assert list(informer.store.by_index("color", "red")) == []


DENIALS = [
    InternalServerError("broken"),
    BadRequestError("bad"),
    NotFoundError("gone"),
    ForbiddenError("no"),
    ServiceUnavailableError("later"),
]


@pytest.mark.parametrize("error", DENIALS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("in_stream", [False, True])
async def test_a_watch_that_is_refused_lists_again(error: ApiError, in_stream: bool) -> None:
    """If watches fail and lists work, the store follows the server, and health has the error."""
    server = FakeServer()
    server.put("a")
    async with Informer(server) as informer:
        await informer.wait_synced()
        assert informer.health().ready
        if in_stream:
            server.stream_error = error
        else:
            server.refuse_watch = error
        await asyncio.sleep(600)
        server.put("b")
        await asyncio.sleep(70)
        assert "b" in stored(informer)
        assert server.lists > 5
        assert len(server.watches) < 60
        assert informer.health().state is InformerState.STALE
        assert str(error.message) in str(informer.health())
        server.refuse_watch = server.stream_error = None
        await asyncio.sleep(70)
        assert informer.health().ready


async def test_watches_that_only_carry_a_bookmark_are_failures() -> None:
    """A server that ends each watch after a bookmark does not get thousands of requests."""

    class Bookmarking(FakeServer):
        async def _events(self, after: int):  # type: ignore[no-untyped-def]  # noqa: ANN202
            yield RawEvent("BOOKMARK", b'{"kind":"Thing","metadata":{"resourceVersion":"9"}}')

    server = Bookmarking()
    async with Informer(server):
        await asyncio.sleep(600)
    assert len(server.watches) < 60


@pytest.mark.behaviour(60)
async def test_an_object_of_another_kind_is_skipped() -> None:
    """A Status or a foreign object in a watch is counted; it is not stored, and the resource version does not move."""
    server = FakeServer()
    server.put("a")
    options = InformerOptions(expected=GroupVersionKind("", "v1", "Thing"))
    async with Informer(server, options) as informer:
        await informer.wait_synced()
        stranger = {**server.objects["a"], "kind": "Other", "metadata": {"name": "x", "resourceVersion": "99"}}
        server.raw_garbage.append(RawEvent("ADDED", msgspec.json.encode(stranger)))
        server.put("b")
        await asyncio.sleep(1)
        assert set(stored(informer)) == {"a", "b"}
        assert informer.reflector.resource_version == "3"
        assert informer.counts["undecodable"] == 1


async def test_an_undecodable_object_in_a_list_keeps_its_last_state() -> None:
    """An object that a list cannot decode keeps its last state, because the server still has it."""
    server = FakeServer()
    server.put("a")
    deltas: list[Delta] = []
    async with Informer(server) as informer:
        informer.add_handler(deltas.append)
        await informer.wait_synced()
        server.objects["a"] = {"metadata": {"name": "a", "namespace": "ns", "labels": 7}}
        server.compact()
        server.refuse_watch = InternalServerError("list again")
        await asyncio.sleep(700)
        assert "a" in stored(informer)
        assert len(deltas) == 1


@pytest.mark.behaviour(56)
@pytest.mark.behaviour(53, better="Without the final bookmark the informer lists in pages instead of waiting forever.")
@pytest.mark.parametrize("support", [True, False, "endless"])
async def test_streaming_lists_fall_back_to_pages(support: bool | str) -> None:
    """With support the list is one watch; without it, or without the final bookmark, pages follow soon."""
    server = FakeServer()
    server.watch_list = support
    for n in range(7):
        server.put(f"o{n}")
    mirror = Mirror()
    async with Informer(server, InformerOptions(watch_list=True, page_size=3)) as informer:
        informer.add_handler(mirror)
        await informer.wait_synced(30)
        assert server.lists == (0 if support is True else 3)
        assert all(delta.initial for delta in mirror.deltas)
        server.put("late")
        await asyncio.sleep(1)
        assert stored(informer) == versions(server) == mirror.state


async def test_closing_ends_every_wait() -> None:
    """Readers that wait for the first list of an informer that is closed get an error, not silence."""
    server = FakeServer()
    server.refuse = ConnectError("down")
    informer = Informer(server)
    informer.start()
    waiting = asyncio.create_task(informer.wait_synced())
    await asyncio.sleep(10)
    await informer.aclose()
    with pytest.raises(CacheError, match="was closed"):
        await waiting


async def test_a_denied_list_can_fail_fast() -> None:
    """With `fail_fast`, the first 403 response is raised."""
    server = FakeServer()
    server.refuse = ForbiddenError("no")
    async with Informer(server) as informer:
        with pytest.raises(CacheSyncError) as caught:
            await informer.wait_synced(60, fail_fast=True)
        assert isinstance(caught.value.__cause__, ForbiddenError)
        assert asyncio.get_running_loop().time() < 1


@pytest.mark.behaviour(52)
async def test_a_bookmark_moves_the_resource_version_only() -> None:
    """No handler is called, and the next watch starts there."""
    server = FakeServer()
    server.put("a")
    deltas: list[Delta] = []
    async with Informer(server, InformerOptions(watch_list=False)) as informer:
        informer.add_handler(deltas.append)
        await informer.wait_synced()
        await asyncio.sleep(1)
        server.raw_garbage.append(RawEvent("BOOKMARK", b'{"kind":"Thing","metadata":{"resourceVersion":"9"}}'))
        changed, server.changed = server.changed, asyncio.Event()
        changed.set()
        await asyncio.sleep(400)
        assert informer.reflector.resource_version == "9"
        assert server.watches == ["2", "9"]
        assert len(deltas) == 1
