"""Own writes against a model of the server: the real client, recorder and informers, and every fault at any time.

Laws:

1. A read never shows a state older than a write of this process that the server acknowledged, unless the server was
   restored since. After a write whose outcome is not known, it shows what the server had then.
2. A read fails only if it has to ask the server, and the request fails.
3. At rest every cached read equals the server, handlers have seen its state, and no record of a write is left.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import Any

import pytest
from client_fakes import served
from hypothesis import example, given, settings
from hypothesis import strategies as st

from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import PartialObjectMetadata, Unstructured
from opsdk.apimachinery.rest_mapper import RestMapping, StaticMapper
from opsdk.cache.cache import Cache
from opsdk.cache.cached_kind import CachedKind
from opsdk.cache.list_watch import RestListerWatcher
from opsdk.cache.options import CacheOptions, CacheScope
from opsdk.cache.reader import CachedReader
from opsdk.cache.store import Delta, DeltaType
from opsdk.cache.write_recorder import WriteRecorder
from opsdk.client.client import Client
from opsdk.client.direct import DirectClient
from opsdk.client.patch import merge_patch
from opsdk.client.scheme import default_scheme
from opsdk.cluster.delegating import Delegating
from opsdk.errors import (
    AlreadyExistsError,
    ApiError,
    CacheError,
    ConflictError,
    ConnectError,
    DecodeError,
    InternalServerError,
    NotFoundError,
    OpsdkError,
    TransportError,
)
from opsdk.testing.loop import VirtualLoop
from tests.cache.model_server import NAMESPACE, Fault, ModelServer, serial_of

MAPPING = served("", "v1", "ConfigMap", "configmaps")
NAMES = ("a", "b", "c")


class Harness:
    """A client with a cache over a model server, and the laws for its reads."""

    def __init__(self, *, watch_list: bool) -> None:
        self.server = ModelServer(first_step=100**8)
        scheme, mapper = default_scheme(), StaticMapper([MAPPING])
        options = CacheOptions(page_size=2, watch_list=watch_list)
        self.cache = Cache(self._list_watch, scheme=scheme, mapper=mapper, options=options)
        direct = DirectClient(
            self.server,  # type: ignore[arg-type] # it has the two methods that the client calls
            scheme=scheme,
            mapper=mapper,
            observer=WriteRecorder(self.cache),
        )
        self.client = Client(Delegating(CachedReader(self.cache), direct))
        self.floors: dict[str, tuple[int, int]] = {}
        """The epoch and the serial number of the last acknowledged write of each name."""
        self.shown: dict[str, str] = {}
        self.tasks: list[asyncio.Task[None]] = []

    def _list_watch(self, mapping: RestMapping, scope: CacheScope) -> RestListerWatcher:
        return RestListerWatcher(self.server, mapping, Kind(scope.gvk, Unstructured))  # type: ignore[arg-type]

    def mirror(self, delta: Delta) -> None:
        """Keep what the handlers were given."""
        if delta.change is DeltaType.DELETED:
            self.shown.pop(delta.entry.key.name, None)
        else:
            self.shown[delta.entry.key.name] = delta.entry.resource_version

    # -------------------------------------------------------------- writes
    def acknowledged(self, name: str, serial: int) -> None:
        """Record a write that the server acknowledged in this epoch."""
        epoch, floor = self.floors.get(name, (self.server.epoch, 0))
        if epoch != self.server.epoch:
            floor = 0
        self.floors[name] = (self.server.epoch, max(floor, serial))

    async def write(self, call: Coroutine[Any, Any, Any], name: str, *, deletes: bool = False) -> None:
        """Await a write. Its acknowledgement is a floor for later reads, unless the server was restored meanwhile."""
        epoch = self.server.epoch
        try:
            result = await call
        except (ConnectError, ConflictError, AlreadyExistsError, NotFoundError):
            return
        except (ApiError, TransportError, DecodeError, asyncio.CancelledError) as error:
            # The outcome is not known: a read that begins now asks the server.
            for one in (name,) if name else tuple(self.server.objects):
                self.acknowledged(one, self.server.current_serial(one))
            if isinstance(error, asyncio.CancelledError):
                raise
            return
        if self.server.epoch != epoch:
            return
        if deletes:
            self.acknowledged(name, self.server.deleted_serials.get(name, 0))
        elif result is not None and result.metadata.annotations:
            self.acknowledged(result.metadata.name, serial_of(result))

    async def act(self, verb: str, name: str) -> None:
        """Carry out one operation of the client."""
        client, key = self.client, ObjectKey(NAMESPACE, name)
        meta = ObjectMeta(name=name, namespace=NAMESPACE)
        match verb:
            case "create":
                await self.write(client.create(ConfigMap(metadata=meta, data={"x": "1"})), name)
            case "generate":
                meta = ObjectMeta(generate_name=name, namespace=NAMESPACE)
                await self.write(client.create(ConfigMap(metadata=meta)), "")
            case "update":
                try:
                    obj = await client.get_or_none(ConfigMap, key)
                except TransportError:
                    return
                if obj is not None:
                    await self.write(client.update(obj), name)
            case "patch":
                await self.write(client.patch(ConfigMap(metadata=meta), merge_patch({"data": {"x": "2"}})), name)
            case "patch metadata":
                partial = PartialObjectMetadata(api_version="v1", kind="ConfigMap", metadata=meta)
                await self.write(client.patch(partial, merge_patch({"data": {"x": "3"}})), name)
            case "evict":
                eviction = Unstructured({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}})
                call = client.subresource("eviction").create(ConfigMap(metadata=meta), eviction)
                await self.write(call, name, deletes=True)
            case "delete":
                await self.write(client.delete(ConfigMap(metadata=meta)), name, deletes=True)
            case "delete all":
                await self.delete_all()
            case "get":
                await self.read(name)
            case "list":
                await self.read(None)

    async def delete_all(self) -> None:
        """Delete the collection: then each deletion is acknowledged."""
        epoch = self.server.epoch
        try:
            await self.client.delete_all_of(ConfigMap, namespace=NAMESPACE)
        except OpsdkError:
            return
        if self.server.epoch == epoch:
            for name, serial in self.server.deleted_serials.items():
                self.acknowledged(name, min(serial, self.server.serial))

    # -------------------------------------------------------------- reads
    async def read(self, name: str | None) -> None:
        """Read one object, or all, and check the laws of a read."""
        floors, failed = dict(self.floors), self.server.failed_reads
        try:
            if name is None:
                listed = await self.client.list(ConfigMap, namespace=NAMESPACE)
                states = {obj.metadata.name: serial_of(obj) for obj in listed}
                names = floors.keys() | states.keys()
            else:
                obj = await self.client.get_or_none(ConfigMap, ObjectKey(NAMESPACE, name))
                states = {} if obj is None else {name: serial_of(obj)}
                names = {name}
        except OpsdkError:
            if self.server.failed_reads == failed:
                raise  # it failed without a request that failed
            return
        for one in names:
            epoch, floor = floors.get(one, (0, 0))
            if epoch != self.server.epoch:
                continue
            serial = states.get(one, self.server.deleted_serials.get(one, 0))
            assert serial >= floor, f"{one}: read state {serial} after an acknowledged write of {floor}"

    # -------------------------------------------------------------- the end
    async def check_rest(self, cached: CachedKind) -> None:
        """Let the server be calm, and check the laws of rest."""
        server = self.server
        server.write_fault, server.failing_reads, server.refused, server.watch_delay = Fault.NONE, 0, False, 0.0
        await asyncio.gather(*self.tasks)
        await asyncio.sleep(1_000)
        await asyncio.gather(self.read(None), *(self.read(name) for name in NAMES))
        expected = {name: obj["metadata"]["resourceVersion"] for name, obj in server.objects.items()}
        listed = await self.client.list(ConfigMap, namespace=NAMESPACE)
        assert {obj.metadata.name: obj.metadata.resource_version for obj in listed} == expected
        assert {obj.metadata.name: serial_of(obj) for obj in listed} == {
            name: int(obj["metadata"]["annotations"]["serial"]) for name, obj in server.objects.items()
        }
        assert self.shown == expected
        for informer in cached.informers.values():
            assert len(informer.store.own) == 0, informer.store.own


async def play(steps: list[tuple[Any, ...]], *, watch_list: bool, watch_delay: float) -> None:
    """Play a schedule of steps and check the laws."""
    harness = Harness(watch_list=watch_list)
    server = harness.server
    server.watch_delay = watch_delay
    for name in NAMES[:2]:
        server.put(name)
    running = asyncio.create_task(harness.cache.start())
    await asyncio.sleep(0)
    cached = await harness.cache.informer_for(ConfigMap)
    cached.add_handler(harness.mirror)
    await cached.wait_synced()
    for verb, *arguments in steps:
        match verb:
            case "client":
                operation, name, fault, wait, cancel_after = arguments
                server.write_fault = fault
                task = asyncio.create_task(harness.act(operation, name))
                if cancel_after is not None:
                    asyncio.get_running_loop().call_later(cancel_after, task.cancel)
                    await asyncio.gather(task, return_exceptions=True)
                elif wait:
                    await task
                else:
                    harness.tasks.append(task)
            case "server":
                operation, name = arguments
                if operation == "put":
                    server.put(name)
                elif name in server.objects:
                    server.delete(name)
            case "restore":
                server.restore(arguments[0])
            case "set":
                setattr(server, arguments[0], arguments[1])
            case "sleep":
                await asyncio.sleep(arguments[0])
            case _:
                getattr(server, verb)()
    await harness.check_rest(cached)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


_DELAYS = (0.0, 0.5, 30.0)
_CLIENT = st.tuples(
    st.just("client"),
    st.sampled_from(
        ["create", "generate", "update", "patch", "patch metadata", "evict", "delete", "delete all", "get", "list"]
    ),
    st.sampled_from(NAMES),
    st.one_of(st.just(Fault.NONE), st.sampled_from(Fault)),
    st.booleans(),
    st.one_of(st.none(), st.none(), st.none(), st.sampled_from([0.005, 0.015, 0.025])),
)
_STEPS = st.one_of(
    _CLIENT,
    _CLIENT,
    st.tuples(st.just("server"), st.sampled_from(["put", "delete"]), st.sampled_from(NAMES)),
    st.tuples(st.just("restore"), st.integers(1, 8)),
    st.tuples(st.sampled_from(["compact", "break_watches"])),
    st.tuples(st.just("set"), st.just("watch_delay"), st.sampled_from(_DELAYS)),
    st.tuples(st.just("set"), st.just("failing_reads"), st.integers(0, 3)),
    st.tuples(st.just("set"), st.just("refused"), st.booleans()),
    st.tuples(st.just("sleep"), st.sampled_from([0.0, 0.005, 0.015, 0.5, 5.0, 70.0, 400.0])),
)


def run(steps: list[tuple[Any, ...]], *, watch_list: bool, watch_delay: float) -> None:
    """Play a schedule in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(play(steps, watch_list=watch_list, watch_delay=watch_delay))


_LOST_CREATE = ("client", "create", "c", Fault.LOST_RESPONSE, True, None)
_LIST = ("client", "list", "a", Fault.NONE, False, None)
_GENERATE = ("client", "generate", "a", Fault.NONE, False, None)

_PATCH_METADATA = ("client", "patch metadata", "a", Fault.NONE, True, None)
_GET = ("client", "get", "a", Fault.NONE, False, None)
_RESTORED_BETWEEN_PAGES: list[tuple[Any, ...]] = [
    ("client", "create", "c", Fault.NONE, False, None),
    ("client", "create", "a", Fault.NONE, True, None),
    ("client", "generate", "a", Fault.LOST_REQUEST, True, None),
    ("client", "update", "a", Fault.NONE, False, None),
    ("sleep", 0.015),
    ("restore", 1),
]


@example([("client", "get", "a", Fault.NONE, True, None), ("restore", 1), _PATCH_METADATA, _GET], False, 0.0)
@example([("restore", 1), _LOST_CREATE, _LIST], False, 0.0)
@example(_RESTORED_BETWEEN_PAGES, False, 0.0)
@example([_GENERATE, ("server", "put", "a"), ("compact",), ("sleep", 0.015), ("restore", 1)], False, 0.0)
@given(st.lists(_STEPS, max_size=25), st.booleans(), st.sampled_from(_DELAYS))
def test_reads_obey_the_laws_under_every_schedule(
    steps: list[tuple[Any, ...]], watch_list: bool, watch_delay: float
) -> None:
    """Restores, lost answers, failed reads, broken watches, compactions, re-creations, concurrent readers."""
    run(steps, watch_list=watch_list, watch_delay=watch_delay)


@pytest.mark.slow
@pytest.mark.deep
@settings(max_examples=int(os.environ.get("OPSDK_OWN_WRITES_EXAMPLES", "2000")))
@given(st.lists(_STEPS, max_size=40), st.booleans(), st.sampled_from(_DELAYS))
def test_reads_obey_the_laws_under_many_schedules(
    steps: list[tuple[Any, ...]], watch_list: bool, watch_delay: float
) -> None:
    """The same laws, with longer schedules."""
    run(steps, watch_list=watch_list, watch_delay=watch_delay)


# ------------------------------------------------------------------ single laws, with the number of requests
async def started(server_objects: int = 0) -> tuple[Harness, asyncio.Task[None]]:
    """Return a harness with a synced informer over a server with some objects, whose watch shows nothing for 10 s."""
    harness = Harness(watch_list=False)
    for n in range(server_objects):
        harness.server.put(f"o{n}")
    running = asyncio.create_task(harness.cache.start())
    await asyncio.sleep(0)
    await (await harness.cache.informer_for(ConfigMap)).wait_synced()
    await asyncio.sleep(1)
    harness.server.watch_delay = 10.0
    harness.server.requests.clear()
    return harness, running


async def ended(running: asyncio.Task[None]) -> None:
    """Stop the cache."""
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_concurrent_readers_share_the_read_of_an_unknown_object() -> None:
    """After a patch of the metadata, ten concurrent gets return the new state with one request."""
    harness, running = await started(1)
    client = harness.client
    partial = PartialObjectMetadata(
        api_version="v1", kind="ConfigMap", metadata=ObjectMeta(name="o0", namespace=NAMESPACE)
    )
    await client.patch(partial, merge_patch({"data": {"x": "new"}}))
    read = await asyncio.gather(*(client.get(ConfigMap, f"{NAMESPACE}/o0") for _ in range(10)))
    assert [obj.data for obj in read] == [{"x": "new"}] * 10
    assert harness.server.requests == ["patch o0", "get o0"]
    await ended(running)


async def test_concurrent_lists_after_a_delete_all_of_are_equal() -> None:
    """Two lists that begin together after an own deletion of the collection share one request, and both are empty."""
    harness, running = await started(5)
    await harness.client.delete_all_of(ConfigMap, namespace=NAMESPACE)
    lists = await asyncio.gather(*(harness.client.list(ConfigMap, namespace=NAMESPACE) for _ in range(2)))
    assert [len(one.items) for one in lists] == [0, 0]
    assert harness.server.requests.count("list ") == 1
    await ended(running)


async def test_a_cancelled_reader_does_not_end_the_read_of_others() -> None:
    """Two readers share a request; the one that began it is cancelled, and the other gets the object."""
    harness, running = await started(1)
    client = harness.client
    harness.server.write_fault = Fault.LOST_RESPONSE
    obj = ConfigMap(metadata=ObjectMeta(name="o0", namespace=NAMESPACE))
    with pytest.raises(TransportError):
        await client.patch(obj, merge_patch({"data": {"x": "new"}}))
    first = asyncio.create_task(client.get(ConfigMap, f"{NAMESPACE}/o0"))
    second = asyncio.create_task(client.get(ConfigMap, f"{NAMESPACE}/o0"))
    await asyncio.sleep(0.001)
    first.cancel()
    assert (await second).data == {"x": "new"}
    assert first.cancelled()
    await ended(running)


async def test_a_read_of_a_closed_informer_says_so() -> None:
    """An unknown object cannot be read any more: the error is a CacheError, and no coroutine is left."""
    harness, running = await started(1)
    harness.server.write_fault = Fault.LOST_RESPONSE
    with pytest.raises(TransportError):
        await harness.client.delete(ConfigMap(metadata=ObjectMeta(name="o0", namespace=NAMESPACE)))
    [informer] = harness.cache.kinds()[0].informers.values()
    await ended(running)
    with pytest.raises(CacheError, match="is closed"):
        await informer.unknown_reads.read()


async def test_the_watch_ends_what_is_unknown() -> None:
    """600 patches of metadata and ten minutes later, a list sends no request, even where reads would fail."""
    harness, running = await started(600)
    client = harness.client
    for n in range(600):
        meta = ObjectMeta(name=f"o{n}", namespace=NAMESPACE)
        partial = PartialObjectMetadata(api_version="v1", kind="ConfigMap", metadata=meta)
        await client.patch(partial, merge_patch({"data": {"x": "new"}}))
    await asyncio.sleep(600)
    harness.server.requests.clear()
    harness.server.failing_reads = 1000
    assert len((await client.list(ConfigMap, namespace=NAMESPACE)).items) == 600
    assert [r for r in harness.server.requests if not r.startswith("watch")] == []
    await ended(running)


async def test_many_unknown_objects_are_read_by_one_list() -> None:
    """A list after 40 lost responses sends pages, not a request for each object."""
    harness, running = await started(40)
    for n in range(40):
        harness.server.write_fault = Fault.LOST_RESPONSE
        with pytest.raises(TransportError):
            await harness.client.delete(ConfigMap(metadata=ObjectMeta(name=f"o{n}", namespace=NAMESPACE)))
    harness.server.requests.clear()
    assert (await harness.client.list(ConfigMap, namespace=NAMESPACE)).items == []
    assert harness.server.requests == ["list "]
    await ended(running)


@pytest.mark.parametrize("fault", [Fault.LOST_RESPONSE, Fault.TIMEOUT, Fault.INTERNAL_ERROR, Fault.UNREADABLE_RESPONSE])
@pytest.mark.parametrize("generated", [False, True])
async def test_a_create_whose_response_is_lost_is_in_the_next_list(fault: Fault, generated: bool) -> None:
    """The next cached list asks the server, so a reconciler does not create the child a second time."""
    harness, running = await started()
    harness.server.write_fault = fault
    meta = ObjectMeta(namespace=NAMESPACE, **({"generate_name": "child-"} if generated else {"name": "child"}))
    with pytest.raises((ApiError, TransportError, DecodeError)):
        await harness.client.create(ConfigMap(metadata=meta))
    assert len((await harness.client.list(ConfigMap, namespace=NAMESPACE)).items) == 1
    await ended(running)


async def test_a_cancelled_create_is_in_the_next_read() -> None:
    """The server carried it out before the caller was cancelled."""
    harness, running = await started()
    task = asyncio.create_task(harness.client.create(ConfigMap(metadata=ObjectMeta(name="child", namespace=NAMESPACE))))
    await asyncio.sleep(0.015)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (await harness.client.get(ConfigMap, f"{NAMESPACE}/child")).metadata.name == "child"
    await ended(running)


async def test_a_rejected_write_costs_no_read() -> None:
    """A 422, a refused connection and a 404 of an unknown object leave cached reads in the cache."""
    harness, running = await started(1)
    client, server = harness.client, harness.server
    with pytest.raises(NotFoundError):
        await client.delete(ConfigMap(metadata=ObjectMeta(name="missing", namespace=NAMESPACE)))
    server.refused = True
    with pytest.raises(TransportError):
        await client.delete(ConfigMap(metadata=ObjectMeta(name="o0", namespace=NAMESPACE)))
    assert len((await client.list(ConfigMap, namespace=NAMESPACE)).items) == 1
    assert [request for request in server.requests if request.startswith(("get", "list"))] == []
    await ended(running)


async def test_a_conflict_makes_the_next_read_current() -> None:
    """The watch is late: the second attempt of a read-modify-write succeeds."""
    harness, running = await started(1)
    client, server = harness.client, harness.server
    server.put("o0")
    obj = await client.get(ConfigMap, f"{NAMESPACE}/o0")
    with pytest.raises(ConflictError):
        await client.update(obj)
    await client.update(await client.get(ConfigMap, f"{NAMESPACE}/o0"))
    assert server.requests.count("get o0") == 1
    await ended(running)


async def test_a_failed_status_with_http_200_raises() -> None:
    """A write is not carried out; its error is the typed one, and cached reads stay as they are."""
    harness, running = await started(1)
    harness.server.write_fault = Fault.STATUS_FAILURE
    obj = await harness.client.get(ConfigMap, f"{NAMESPACE}/o0")
    obj.data = {"x": "1"}
    with pytest.raises(InternalServerError, match="the backend failed"):
        await harness.client.update(obj)
    assert (await harness.client.get(ConfigMap, f"{NAMESPACE}/o0")).data == {}
    await ended(running)


async def test_a_silent_watch_of_a_restored_server_is_noticed_by_an_own_write() -> None:
    """The response has an older version than the cache: the informer lists at once, not after the watch's timeout."""
    harness, running = await started(8)
    server = harness.server
    server.watch_delay = 0.0
    server.restore(4)
    await asyncio.sleep(0.001)
    await harness.client.create(ConfigMap(metadata=ObjectMeta(name="new", namespace=NAMESPACE)))
    await asyncio.sleep(5)
    listed = await harness.client.list(ConfigMap, namespace=NAMESPACE)
    assert {obj.metadata.name for obj in listed} == {"o0", "o1", "o2", "o3", "new"}
    assert harness.cache.health()[0].rollbacks == 1
    await ended(running)


async def test_a_restored_server_that_caught_up_is_noticed_by_the_newest_object() -> None:
    """The server gives its old revisions out again; the newest cached object is not there, so the informer lists."""
    harness, running = await started(4)
    server = harness.server
    server.first_step, server.watch_delay = 1, 0.0
    for n in range(3):
        server.put(f"late{n}")
    await asyncio.sleep(1)
    server.restore(3)
    for n in range(6):
        server.put(f"new{n}")
    await asyncio.sleep(30)
    listed = await harness.client.list(ConfigMap, namespace=NAMESPACE)
    assert {obj.metadata.name for obj in listed} == set(server.objects)
    await ended(running)


async def test_a_server_that_is_restored_while_it_is_down_is_noticed_at_once() -> None:
    """The first request after the refused connections shows it: no read waits for the timeout of a silent watch."""
    harness, running = await started(8)
    server = harness.server
    server.refused = True
    server.restore(4)
    await asyncio.sleep(3)
    server.refused = False
    await asyncio.sleep(10)
    listed = await harness.client.list(ConfigMap, namespace=NAMESPACE)
    assert {obj.metadata.name for obj in listed} == {"o0", "o1", "o2", "o3"}
    assert harness.cache.health()[0].rollbacks == 1
    await ended(running)
