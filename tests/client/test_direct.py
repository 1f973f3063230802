"""The executor that asks the server: answers into objects, errors, warnings, watches."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from client_fakes import MAPPINGS, FakeTransport, Site, site, tree
from container_sizes import container_sizes, growth
from hypothesis import given
from hypothesis import strategies as st

from opsdk.api.core.v1 import Pod
from opsdk.apimachinery.kinds import metadata_only, unstructured_kind
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import PartialObjectMetadata, Unstructured, deep_copy, to_dict
from opsdk.apimachinery.rest_mapper import StaticMapper
from opsdk.apimachinery.watch import WatchEventType
from opsdk.client.client import Client
from opsdk.client.direct import DirectClient, WarningLogger
from opsdk.client.patch import MergeFrom, merge_patch
from opsdk.client.scheme import default_scheme
from opsdk.errors import (
    AlreadyExistsError,
    ConflictError,
    ConnectionLostError,
    DecodeError,
    GoneError,
    InternalServerError,
    NoMatchError,
    NotFoundError,
)
from opsdk.rest.request import RestRequest
from opsdk.rest.response import RestResponse
from opsdk.structured_merge.value import JsonObject

UNSTRUCTURED = unstructured_kind("demo.opsdk.dev/v1", "Site")


def client_of(*answers: Any, chunks: list[bytes] | None = None, warned: list[str] | None = None) -> Client:
    """A client over a transport with these answers."""
    transport: Any = FakeTransport(*answers, chunks=chunks)
    taken = warned if warned is not None else []
    direct = DirectClient(
        transport,
        scheme=default_scheme(),
        mapper=StaticMapper(MAPPINGS),
        on_warning=lambda _, text: taken.append(text),
    )
    return Client(direct)


def failure(code: int, reason: str, message: str = "no", **rest: Any) -> RestResponse:
    """A Status that says no."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason}
    return RestResponse(
        code, {"content-type": "application/json"}, msgspec.json.encode({**status, "code": code, **rest})
    )


@pytest.mark.behaviour(1)
async def test_not_found_names_group_resource_and_name() -> None:
    """NotFoundError with group, resource and name."""
    details = {"name": "a", "group": "demo.opsdk.dev", "kind": "sites"}
    with pytest.raises(NotFoundError) as caught:
        await client_of(failure(404, "NotFound", details=details)).get(Site, "ns/a")
    d = caught.value.details
    assert (d.group, d.kind, d.name) == ("demo.opsdk.dev", "sites", "a")


@pytest.mark.behaviour(3, 4)
async def test_writes_update_the_object_to_the_servers_state() -> None:
    """The object handed in is changed in place, in every form, and keeps its kind."""
    answer = tree(metadata={"name": "a-x7", "namespace": "ns", "uid": "u", "resourceVersion": "9", "generation": 2})
    obj = site(name="", generate_name="a-")
    assert await client_of(answer).create(obj) is obj
    assert (obj.metadata.name, obj.metadata.uid, obj.metadata.resource_version) == ("a-x7", "u", "9")
    assert obj.spec.replicas == 3
    loose = Unstructured.from_tree({k: v for k, v in tree().items() if k != "spec"})
    meta = loose.metadata
    assert await client_of(answer).update(loose) is loose
    assert loose["spec"] == {"image": "nginx", "replicas": 3}
    assert meta.resource_version == "7"
    partial = PartialObjectMetadata("demo.opsdk.dev/v1", "Site", ObjectMeta(name="a", namespace="ns"))
    expected = {**answer, "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    await client_of(expected).patch(partial, merge_patch({}))
    assert (partial.api_version, partial.kind) == ("demo.opsdk.dev/v1", "Site")
    assert partial.metadata.generation == 2


@pytest.mark.behaviour(3)
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (failure(409, "AlreadyExists"), AlreadyExistsError),
        (failure(409, "Conflict"), ConflictError),
        (failure(500, "InternalError"), InternalServerError),
        (RestResponse(200, {}, b"not json"), DecodeError),
        (RestResponse(200, {}, msgspec.json.encode(tree(spec={"replicas": "many"}))), DecodeError),
        (RestResponse(200, {}, msgspec.json.encode({**tree(), "kind": "Other"})), DecodeError),
    ],
)
async def test_a_failed_write_leaves_the_object_unchanged(answer: RestResponse, error: type[Exception]) -> None:
    """A failed write leaves the object unchanged, also if the response cannot be decoded."""
    obj = site()
    before = copy.deepcopy(obj)
    for call in (
        lambda: client_of(answer).create(obj),
        lambda: client_of(answer).update(obj),
        lambda: client_of(answer).patch(obj, merge_patch({})),
        lambda: client_of(answer).apply(obj, field_owner="me"),
    ):
        with pytest.raises(error):
            await call()
        assert obj == before


@pytest.mark.behaviour(2)
async def test_a_read_keeps_no_field_of_an_earlier_read() -> None:
    """Each read returns another object; a field that is gone from the server is in none of the later ones."""
    gone = tree(metadata={"name": "a", "namespace": "ns", "labels": {"x": "y"}}, status={"ready": 1})
    for kind in (Site, UNSTRUCTURED, metadata_only(Site)):
        client = client_of(gone, tree())
        first: Any = await client.get(kind, "ns/a")
        second: Any = await client.get(kind, "ns/a")
        assert first.metadata.labels == {"x": "y"}
        assert second.metadata.labels == {}
        assert "status" not in to_dict(second)


@pytest.mark.behaviour(6)
async def test_every_write_keeps_the_kind() -> None:
    """Typed, unstructured and metadata objects keep their kind through every write."""
    partial = PartialObjectMetadata("demo.opsdk.dev/v1", "Site", ObjectMeta(name="a", namespace="ns"))
    bare: JsonObject = {"metadata": {"name": "a", "namespace": "ns"}, "spec": {"image": "nginx"}}
    for obj in (site(), Unstructured.from_tree(tree()), partial):
        client = client_of(*[{**tree(), **bare}] * 6)
        await client.patch(obj, merge_patch({}))
        await client.status().patch(obj, merge_patch({}))
        if obj is not partial:
            await client.update(obj)
            await client.status().update(obj)
            await client.apply(obj, field_owner="me")
            await client.create(obj)
        assert (obj.api_version, obj.kind) == ("demo.opsdk.dev/v1", "Site")


@pytest.mark.behaviour(22)
async def test_a_status_response_leaves_the_object_unchanged() -> None:
    """Evictions and bindings return a Status, so the sent object is not updated."""
    ok = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    pod = Pod(metadata=ObjectMeta(name="p", namespace="ns"))
    eviction = Unstructured("policy/v1", "Eviction")
    assert await client_of(ok).subresource("eviction").create(pod, eviction) is eviction
    assert eviction.kind == "Eviction"


@pytest.mark.behaviour(22)
async def test_a_subresource_of_another_kind() -> None:
    """Read as its own kind; written through a body, which gets the answer; without one the parent is left alone."""
    scale = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {"name": "a", "namespace": "ns"},
        "spec": {"replicas": 9},
    }
    obj = site()
    result = await client_of(scale).subresource("scale").get(obj, unstructured_kind("autoscaling/v1", "Scale"))
    assert (result.kind, result["spec"]) == ("Scale", {"replicas": 9})
    body = Unstructured("autoscaling/v1", "Scale")
    await client_of(scale).subresource("scale").patch(obj, merge_patch({"spec": {"replicas": 9}}), body)
    assert body["spec"] == {"replicas": 9}
    before = deep_copy(obj)
    assert await client_of(scale).subresource("scale").patch(obj, merge_patch({})) is obj
    assert obj == before
    with pytest.raises(DecodeError, match="Kind=Scale"):
        await client_of(scale).subresource("scale").get(obj, Site)


async def test_delete_with_missing_ok_ignores_a_missing_object() -> None:
    """A delete with ``missing_ok`` ignores only a missing object."""
    await client_of(failure(404, "NotFound")).delete(site(), missing_ok=True)
    with pytest.raises(NotFoundError):
        await client_of(failure(404, "NotFound")).delete(site())
    with pytest.raises(ConflictError):
        await client_of(failure(409, "Conflict")).delete(site(), missing_ok=True)


async def test_an_undecodable_item_is_left_out_of_its_list() -> None:
    """An undecodable item is logged with key and error and left out; null items are skipped."""
    bad = tree("bad", spec={"image": 5})
    listed = {"kind": "SiteList", "metadata": {"resourceVersion": "9", "continue": "t"}, "items": [tree(), bad]}
    result = await client_of(listed).list(Site)
    assert [o.metadata.name for o in result] == ["a"]
    assert (result.metadata.resource_version, result.metadata.continue_token) == ("9", "t")
    (aside,) = result.undecodable
    assert str(aside.key) == "ns/bad"
    assert "spec.image" in aside.error
    for empty in ({"kind": "SiteList", "items": None}, {"kind": "SiteList"}, {"items": []}):
        assert len(await client_of(empty).list(Site)) == 0


async def test_a_response_that_is_not_a_list_raises_decode_error() -> None:
    """A response to a list that is not a list raises DecodeError."""
    with pytest.raises(DecodeError, match="expected a list"):
        await client_of(tree()).list(Site)


@pytest.mark.behaviour(14)
async def test_metadata_lists_have_the_requested_kind() -> None:
    """The kind is not PartialObjectMetadata, which the items name."""
    item = {**tree(), "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    result = await client_of({"kind": "PartialObjectMetadataList", "items": [item]}).list(metadata_only(Site))
    assert result[0].gvk == Site.gvk


@pytest.mark.behaviour(26)
async def test_warnings_reach_the_handler() -> None:
    """Each of them, each time, on success and on failure."""
    warned: list[str] = []
    headers = {"warning": '299 - "old api", 299 - "and more"', "content-type": "application/json"}
    ok = RestResponse(200, headers, msgspec.json.encode(tree()))
    bad = RestResponse(404, headers, failure(404, "NotFound").body)
    client = client_of(ok, ok, bad, warned=warned)
    await client.get(Site, "ns/a")
    await client.get(Site, "ns/a")
    with pytest.raises(NotFoundError):
        await client.get(Site, "ns/a")
    assert warned == ["old api", "and more"] * 3


async def test_a_kind_that_is_not_served() -> None:
    """A kind that is not served raises NoMatchError, and nothing is sent."""
    with pytest.raises(NoMatchError, match="Kind=Nowhere"):
        await client_of().get(unstructured_kind("x.dev/v1", "Nowhere"), "ns/a")


# ------------------------------------------------------------------ watches
def event(kind: str, obj: JsonObject) -> bytes:
    """One frame."""
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"


BOOKMARK = {"kind": "Site", "apiVersion": "demo.opsdk.dev/v1", "metadata": {"resourceVersion": "50"}}
STREAM = [
    event("ADDED", tree("a")),
    event("MODIFIED", tree("b")),
    event("BOOKMARK", BOOKMARK),
    event("DELETED", tree()),
]


async def watched(chunks: list[bytes], kind: Any = Site) -> list[Any]:
    """Every event of a stream."""
    async with client_of(chunks=chunks).watch(kind) as events:
        return [event async for event in events]


@pytest.mark.behaviour(23)
async def test_events_are_typed() -> None:
    """A watch event has type and object in the requested form; a bookmark has only a resource version."""
    result = await watched(STREAM)
    assert [e.type for e in result] == [
        WatchEventType.ADDED,
        WatchEventType.MODIFIED,
        WatchEventType.BOOKMARK,
        WatchEventType.DELETED,
    ]
    assert isinstance(result[0].object, Site)
    assert result[1].object.metadata.name == "b"
    assert result[2].object.metadata.resource_version == "50"
    assert all(isinstance(e.object, Unstructured) for e in await watched([STREAM[0], STREAM[3]], UNSTRUCTURED))


@given(st.data())
def test_watch_events_do_not_depend_on_chunk_boundaries(data: st.DataObject) -> None:
    """Equal bytes give equal events, however they are split."""
    import asyncio

    whole = b"".join(STREAM)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1), max_size=8)))
    chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    result = asyncio.run(watched(chunks))
    assert [(e.type.value, e.object.metadata.name) for e in result] == [
        ("ADDED", "a"),
        ("MODIFIED", "b"),
        ("BOOKMARK", ""),
        ("DELETED", "a"),
    ]


async def _all(events: AsyncIterator[Any], into: list[Any]) -> None:
    async for event in events:
        into.append(event)  # noqa: PERF401 - what came before an error must be kept


async def test_an_error_event_is_raised_as_its_type() -> None:
    """An ERROR event is raised as its exception after the earlier events, also if it cannot be decoded."""
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    records: list[Any] = []
    async with client_of(chunks=[STREAM[0], event("ERROR", gone)]).watch(Site) as events:
        with pytest.raises(GoneError, match="too old"):
            await _all(events, records)
    assert len(records) == 1
    with pytest.raises(InternalServerError, match="unreadable"):
        await watched([b'{"type":"ERROR","object":[1]}\n'])


@pytest.mark.parametrize(
    ("chunks", "error"),
    [
        ([STREAM[0][:-20]], ConnectionLostError),
        ([event("STRANGE", tree())], DecodeError),
        ([b"nonsense\n"], DecodeError),
        ([event("ADDED", tree(spec={"image": 5}))], DecodeError),
    ],
)
async def test_an_invalid_frame_ends_the_watch_with_an_error(chunks: list[bytes], error: type[Exception]) -> None:
    """A truncated frame is a ConnectionLostError; an invalid one is a DecodeError."""
    with pytest.raises(error):
        await watched(chunks)


@pytest.mark.behaviour(23)
async def test_leaving_the_block_closes_the_stream() -> None:
    """Leaving the block closes the stream, also early and by an error."""
    transport = FakeTransport(chunks=STREAM)
    created: Any = transport
    client = Client(DirectClient(created, scheme=default_scheme(), mapper=StaticMapper(MAPPINGS)))
    async with client.watch(Site) as events:
        await anext(events)
    with pytest.raises(KeyError):
        async with client.watch(Site):
            raise KeyError
    assert transport.closed == 2


# ------------------------------------------------------------------ read, modify, write
async def test_a_read_modify_write_loses_nothing() -> None:
    """Fields that the type does not know are in the update, and not in the patch."""
    answer = tree(spec={"image": "nginx", "future": {"x": [1]}}, extra="kept")
    client = client_of(answer, answer, answer)
    obj = await client.get(Site, "ns/a")
    base = deep_copy(obj)
    obj.spec.replicas = 7
    await client.patch(deep_copy(obj), MergeFrom(base))
    await client.update(obj)
    executor: Any = client.executor
    sent = [msgspec.json.decode(r.body) for r in executor.transport.seen[1:]]
    assert sent[0] == {"spec": {"replicas": 7}}
    assert sent[1] == {**answer, "spec": {"image": "nginx", "future": {"x": [1]}, "replicas": 7}}
    assert to_dict(obj) == answer


async def test_a_warning_is_logged_once_for_each_resource(caplog: pytest.LogCaptureFixture) -> None:
    """Repetitions are of the level DEBUG, also for other objects. A logger remembers a bounded number of warnings."""
    warn = WarningLogger()
    caplog.set_level("DEBUG", "opsdk.client.direct")
    warnings = (("a", "sites", "old"), ("b", "sites", "old"), ("a", "pages", "old"), ("a", "sites", "x"))
    for name, resource, text in warnings:
        warn(RestRequest("PUT", "/", verb="update", group="demo.opsdk.dev", resource=resource, name=name), text)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "update sites.demo.opsdk.dev a: old"),
        ("DEBUG", "update sites.demo.opsdk.dev b: old"),
        ("WARNING", "update pages.demo.opsdk.dev a: old"),
        ("WARNING", "update sites.demo.opsdk.dev a: x"),
    ]
    caplog.set_level("ERROR", "opsdk.client.direct")
    before = container_sizes(warn)
    for number in range(5000):
        warn(RestRequest("PUT", "/", resource="sites"), str(number))
    assert growth(before, container_sizes(warn), above=1000) == {}
