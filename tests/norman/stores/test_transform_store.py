"""Transformations, subtypes and aggregates, beyond the laws of all stores."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from normankit import V3, api_context

from opsdk.norman.collections.query import ObjectQuery
from opsdk.norman.errors import NormanError
from opsdk.norman.model import ApiContext, Schema
from opsdk.norman.query import sort_by
from opsdk.norman.store_results import ResourceList
from opsdk.norman.stores.aggregate import AggregateStore
from opsdk.norman.stores.empty import EmptyStore
from opsdk.norman.stores.memory import MemoryStore
from opsdk.norman.stores.transform import SubtypeStore, TransformStore
from opsdk.structured_merge.value import JsonObject

BOOK = Schema(id="book", version=V3)
FILM = Schema(id="film", version=V3)


def unless_hidden(context: ApiContext, schema: Schema, data: JsonObject) -> JsonObject | None:
    """Hide objects with the label hidden."""
    return None if data.get("labels", {}).get("hidden") else data


async def test_a_hidden_object_does_not_exist_for_clients() -> None:
    """It is in no list and no watch; reads, updates and deletes of it are 404."""
    inner, context = MemoryStore(), api_context()
    store = TransformStore(inner, unless_hidden)
    await inner.create(context, BOOK, {"name": "secret", "labels": {"hidden": "true"}})
    await store.create(context, BOOK, {"name": "a"})
    assert [item["id"] for item in (await store.list(context, BOOK, ObjectQuery())).items] == ["a"]
    for attempt in (
        store.by_id(context, BOOK, "secret"),
        store.update(context, BOOK, {"x": 1}, "secret"),
        store.delete(context, BOOK, "secret"),
    ):
        with pytest.raises(NormanError, match="failed to find secret"):
            await attempt
    assert (await inner.by_id(context, BOOK, "secret")).get("x") is None
    async with aclosing(store.watch(context, BOOK, ObjectQuery())) as events:
        reading = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.1)
        await inner.update(context, BOOK, {"x": 2}, "secret")
        await inner.update(context, BOOK, {"x": 2}, "a")
        assert (await reading).data["id"] == "a"


async def test_pages_stay_full_behind_a_transformation() -> None:
    """Hidden objects do not shorten a page."""
    inner, context = MemoryStore(), api_context()
    for number in range(20):
        await inner.create(context, BOOK, {"name": f"b{number:02}", "labels": {"hidden": number % 2 == 0}})
    query = ObjectQuery(limit=5, sort=sort_by("id"))
    page = await TransformStore(inner, unless_hidden).list(context, BOOK, query)
    assert page.markers is not None
    assert (len(page.items), page.markers.total, page.markers.next) == (5, 10, "b11")


async def test_each_subtype_lists_its_own() -> None:
    """Two schemas share a store: neither finds, changes or deletes objects of the other."""
    inner, context = MemoryStore(), api_context()
    books, films = SubtypeStore("kind", "book", inner), SubtypeStore("kind", "film", inner)
    await books.create(context, BOOK, {"name": "a"})
    await films.create(context, FILM, {"name": "b", "kind": "book"})
    assert [item["id"] for item in (await books.list(context, BOOK, ObjectQuery())).items] == ["a"]
    listed = (await films.list(context, FILM, ObjectQuery())).items
    assert [(item["id"], item["type"]) for item in listed] == [("b", "/v3/schemas/film")]
    with pytest.raises(NormanError):
        await books.update(context, BOOK, {"kind": "book"}, "b")
    await films.update(context, FILM, {"kind": "book", "x": 1}, "b")
    assert (await films.by_id(context, FILM, "b"))["x"] == 1


async def test_an_aggregate_keeps_order_and_paging() -> None:
    """Objects of two clusters with the same names are two objects, in one order, each on one page."""
    context = api_context()
    store = AggregateStore({"c1": MemoryStore(), "c2": MemoryStore()})
    for number in range(7):
        for cluster in ("c1", "c2"):
            await store.create(context, BOOK, {"name": f"n{number}", "clusterId": cluster, "rank": number})
    ids, marker = [], ""
    while marker is not None:
        query = ObjectQuery(sort=sort_by("rank"), limit=3, marker=marker)
        page = await store.list(context, BOOK, query)
        ids += [(item["rank"], item["id"]) for item in page.items]
        assert page.markers is not None
        marker = page.markers.next
    assert ids == sorted(ids)
    assert len(set(ids)) == 14


async def test_an_aggregate_creates_where_the_field_says() -> None:
    """Without a back end, a create is MissingRequired; an unknown one is InvalidReference."""
    context, first = api_context(), MemoryStore()
    store = AggregateStore({"c1": first})
    for data, code in (({"name": "a"}, "MissingRequired"), ({"name": "a", "clusterId": "c9"}, "InvalidReference")):
        with pytest.raises(NormanError) as raised:
            await store.create(context, BOOK, data)
        assert (raised.value.code, raised.value.field_name) == (code, "clusterId")
    assert (await store.create(context, BOOK, {"name": "a", "clusterId": "c1"}))["id"] == "c1~a"
    assert "clusterId" not in await first.by_id(context, BOOK, "a")
    for object_id in ("a", "c9~a", "c1~", "~a"):
        with pytest.raises(NormanError, match="failed to find"):
            await store.by_id(context, BOOK, object_id)


async def test_a_back_end_that_is_down() -> None:
    """A list fails if a back end is down, unless the aggregate is partial; reads of others work."""

    class Down(EmptyStore):
        async def list(self, context: ApiContext, schema: Schema, query: ObjectQuery) -> ResourceList:
            raise NormanError("down", status=503, code="ClusterUnavailable")

    context, up = api_context(), MemoryStore()
    await up.create(context, BOOK, {"name": "a"})
    with pytest.raises(NormanError, match="down"):
        await AggregateStore({"c1": up, "c2": Down()}).list(context, BOOK, ObjectQuery())
    partial = AggregateStore({"c1": up, "c2": Down()}, partial=True)
    assert [item["id"] for item in (await partial.list(context, BOOK, ObjectQuery())).items] == ["c1~a"]


async def test_a_watch_of_an_aggregate_ends_with_one_back_end() -> None:
    """A watch of an aggregate ends with that of any back end, so that no change is missed."""
    context = api_context()
    store = AggregateStore({"c1": MemoryStore(), "c2": EmptyStore()})
    events = [event async for event in store.watch(context, BOOK, ObjectQuery())]
    assert events == []
