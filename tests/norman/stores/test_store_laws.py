"""Laws of every store: each behaves like a dictionary of objects."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from normankit import V3, api_context

from envtest import Environment
from opsdk.api.core.v1 import ConfigMap
from opsdk.cluster.cluster import Cluster
from opsdk.errors import AlreadyExistsError
from opsdk.norman.codes import ErrorCode
from opsdk.norman.collections.filter import OrFilter
from opsdk.norman.collections.query import ObjectQuery, SortKey
from opsdk.norman.errors import NormanError
from opsdk.norman.model import ApiContext, Schema, SchemaLookup, Store
from opsdk.norman.query import condition, sort_by
from opsdk.norman.schema_parts import Field, Filter, Modifier, Scope
from opsdk.norman.store_results import ResourceEvents, ResourceEventType, ResourceList
from opsdk.norman.stores.aggregate import AggregateStore
from opsdk.norman.stores.cached import CachedStore
from opsdk.norman.stores.memory import MemoryStore
from opsdk.norman.stores.proxy import ProxyStore
from opsdk.norman.stores.transform import SubtypeStore, TransformStore
from opsdk.norman.stores.wrapper import StoreWrapper
from opsdk.structured_merge.value import JsonObject

EVERY = Filter(modifiers=tuple(Modifier))
BOOK = Schema(
    id="book",
    version=V3,
    resource_methods=("GET", "PUT", "DELETE"),
    collection_methods=("GET", "POST"),
    resource_fields={
        "name": Field(type="string"),
        "pages": Field(type="int"),
        "genre": Field(type="string"),
        "tags": Field(type="array[string]"),
        "kind": Field(type="string"),
        "clusterId": Field(type="string"),
    },
    collection_filters={"name": EVERY, "pages": EVERY, "genre": EVERY, "tags": EVERY, "id": EVERY},
)


@asynccontextmanager
async def memory() -> AsyncIterator[Store]:
    """The plainest store."""
    yield MemoryStore()


@asynccontextmanager
async def transformed() -> AsyncIterator[Store]:
    """A transformation that changes nothing."""
    yield TransformStore(MemoryStore(), lambda context, schema, data: data)


@asynccontextmanager
async def subtype() -> AsyncIterator[Store]:
    """One of two subtypes in a store; the other one has an object."""
    inner = MemoryStore()
    await SubtypeStore("kind", "film", inner).create(api_context(), BOOK, {"name": "other"})
    yield SubtypeStore("kind", "book", inner)


class _OneBackend(AggregateStore):
    """An aggregate of two stores that creates everything in one."""

    async def create(self, context: ApiContext, schema: Schema, data: JsonObject) -> JsonObject:
        return await super().create(context, schema, {**data, "clusterId": "c1"})


@asynccontextmanager
async def aggregate() -> AsyncIterator[Store]:
    """Two back ends."""
    yield _OneBackend({"c1": MemoryStore(), "c2": MemoryStore()})


@asynccontextmanager
async def proxy() -> AsyncIterator[Store]:
    """ConfigMaps of the embedded API server."""
    async with Environment() as environment, Cluster(environment.config) as cluster:
        yield ConfigMaps(ProxyStore(cluster.uncached, ConfigMap))


@asynccontextmanager
async def cached() -> AsyncIterator[Store]:
    """ConfigMaps of the embedded API server, read from an informer cache."""
    async with Environment() as environment, Cluster(environment.config) as cluster:
        running = asyncio.create_task(cluster.start())
        try:
            await cluster.wait_ready()
            async with CachedStore(cluster, ConfigMap) as store:
                yield ConfigMaps(store)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


class Delegating:
    """Delegates every method to a store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def by_id(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject:
        return await self.store.by_id(context, schema, object_id)

    async def list(self, context: ApiContext, schema: Schema, query: ObjectQuery) -> ResourceList:
        return await self.store.list(context, schema, query)

    async def create(self, context: ApiContext, schema: Schema, data: JsonObject) -> JsonObject:
        return await self.store.create(context, schema, data)

    async def update(self, context: ApiContext, schema: Schema, data: JsonObject, object_id: str) -> JsonObject:
        return await self.store.update(context, schema, data, object_id)

    async def delete(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject | None:
        return await self.store.delete(context, schema, object_id)

    def watch(self, context: ApiContext, schema: Schema, query: ObjectQuery) -> ResourceEvents:
        return self.store.watch(context, schema, query)


class ConfigMaps(Delegating):
    """The schema of a store whose objects are ConfigMaps of one namespace, with the names of the objects."""

    async def by_id(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject:
        return await super().by_id(context, _STORED, object_id)

    async def list(self, context: ApiContext, schema: Schema, query: ObjectQuery) -> ResourceList:
        own = condition("namespaceId", Modifier.EQ, "default")
        return await super().list(context, _STORED, replace(query, filters=(*query.filters, *own)))

    async def create(self, context: ApiContext, schema: Schema, data: JsonObject) -> JsonObject:
        try:
            return await super().create(context, _STORED, data)
        except AlreadyExistsError as error:  # the server of an API translates errors of Kubernetes
            raise ErrorCode.CONFLICT.error(str(error)) from error

    async def update(self, context: ApiContext, schema: Schema, data: JsonObject, object_id: str) -> JsonObject:
        return await super().update(context, _STORED, data, object_id)

    async def delete(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject | None:
        return await super().delete(context, _STORED, object_id)

    def watch(self, context: ApiContext, schema: Schema, query: ObjectQuery) -> ResourceEvents:
        return super().watch(context, _STORED, query)


class FieldsMapper:
    """Each field is an entry of the ConfigMap, as JSON."""

    def from_internal(self, data: JsonObject) -> None:
        metadata, entries = data.pop("metadata"), data.pop("data", None) or {}
        for name in ("apiVersion", "kind"):
            data.pop(name, None)
        data["name"], data["namespaceId"] = metadata["name"], metadata["namespace"]
        data |= {name: json.loads(text) for name, text in entries.items()}

    def to_internal(self, data: JsonObject) -> None:
        fields = {name: data.pop(name) for name in list(data)}
        data["metadata"] = {"name": fields.pop("name"), "namespace": "default"} if "name" in fields else {}
        data["data"] = {name: json.dumps(value) for name, value in fields.items()}

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """The schema is written by hand."""


_STORED = dataclasses.replace(BOOK, scope=Scope.NAMESPACE, mapper=FieldsMapper())

STORES: dict[str, Callable[[], AbstractAsyncContextManager[Store]]] = {
    "memory": memory,
    "transform": transformed,
    "subtype": subtype,
    "aggregate": aggregate,
    "proxy": proxy,
    "cached": cached,
}
_SLOW = ("proxy", "cached")
EACH_STORE = [pytest.param(name, marks=[pytest.mark.slow] if name in _SLOW else []) for name in STORES]

names = st.sampled_from("abcdefgh")
objects = st.fixed_dictionaries(
    {"name": names},
    optional={
        "pages": st.integers(-3, 120) | st.none(),
        "genre": st.sampled_from(["fable", "novel", "Zebra", "äther", ""]),
        "tags": st.lists(st.sampled_from(["x", "y", "z"]), max_size=3, unique=True),
    },
)
steps = st.lists(st.tuples(st.sampled_from(["create", "update", "delete"]), objects), min_size=1, max_size=25)
conditions = st.lists(
    st.builds(
        lambda field, modifier, values: condition(field, modifier, *values),
        st.sampled_from(["name", "pages", "genre", "tags"]),
        st.sampled_from(list(Modifier)),
        st.lists(st.sampled_from(["a", "b", "c", "3", "7", "fable", "x", ""]), min_size=1, max_size=3),
    ),
    max_size=2,
).map(lambda found: tuple(item for filters in found for item in filters))
sorts = st.builds(
    lambda field, descending: sort_by(field, descending=descending),
    st.sampled_from(["id", "name", "pages", "genre", "tags"]),
    st.booleans(),
)


async def play(store: Store, history: list[tuple[str, JsonObject]]) -> dict[str, JsonObject]:
    """Play a history on a store and on a dictionary; both must agree at each step. Returns the objects by id."""
    context, model, ids = api_context(), dict[str, JsonObject](), dict[str, str]()
    for verb, data in history:
        name = data["name"]
        object_id = ids.get(name, f"c1~{name}")
        if verb == "create":
            if name in ids:
                with pytest.raises(NormanError) as raised:
                    await store.create(context, BOOK, dict(data))
                assert raised.value.code in ("NotUnique", "Conflict")
                continue
            created = await store.create(context, BOOK, dict(data))
            ids[name] = created["id"]
            model[created["id"]] = created
            assert {key: created.get(key) for key in data} == data
        elif name not in ids:
            update, delete = store.update(context, BOOK, dict(data), object_id), store.delete(context, BOOK, object_id)
            attempt, other = (update, delete) if verb == "update" else (delete, update)
            other.close()  # type: ignore[attr-defined]
            with pytest.raises(NormanError) as raised:
                await attempt
            assert raised.value.status == 404
        elif verb == "update":
            model[object_id] = await store.update(context, BOOK, dict(data), object_id)
            assert {key: model[object_id].get(key) for key in data} == data
        else:
            await store.delete(context, BOOK, object_id)
            del model[ids.pop(name)]
    return model


@pytest.mark.parametrize("store", EACH_STORE)
@settings(deadline=None, max_examples=25)
@given(history=steps)
def test_a_store_is_a_dictionary(store: str, history: list[tuple[str, JsonObject]]) -> None:
    """After any history, reads by id and lists have what a dictionary has."""

    async def run() -> None:
        async with STORES[store]() as opened:
            model = await play(opened, history)
            context = api_context()
            for object_id, data in model.items():
                assert await opened.by_id(context, BOOK, object_id) == data
            listed = (await opened.list(context, BOOK, ObjectQuery())).items
            assert {item["id"]: item for item in listed} == model

    asyncio.run(run())


@pytest.mark.parametrize("store", EACH_STORE)
@settings(deadline=None, max_examples=25)
@given(history=steps, where=conditions, sort=sorts, limit=st.integers(1, 4))
def test_every_store_filters_sorts_and_pages_alike(
    store: str,
    history: list[tuple[str, JsonObject]],
    where: tuple[OrFilter, ...],
    sort: tuple[SortKey, ...],
    limit: int,
) -> None:
    """A walk over the pages of a store has the objects and the order of the memory store."""

    async def walk(made: Store, query: ObjectQuery) -> list[str]:
        wrapper, marker, ids = StoreWrapper(made), "", list[str]()
        for _ in range(50):
            page = await wrapper.list(api_context(), BOOK, replace(query, limit=limit, marker=marker))
            assert page.markers is not None
            ids += [item["name"] for item in page.items]
            if page.markers.next is None:
                assert page.markers.total == len(ids)
                return ids
            marker = page.markers.next
        raise AssertionError("the walk does not end")

    async def run() -> None:
        query = ObjectQuery(filters=where, sort=sort)
        async with STORES[store]() as opened, STORES["memory"]() as plain:
            await play(opened, history)
            await play(plain, history)
            assert await walk(opened, query) == await walk(plain, query)

    asyncio.run(run())


@pytest.mark.parametrize("store", EACH_STORE)
async def test_a_watch_sees_each_change_once(store: str) -> None:
    """Creates and updates are changes with the new object; a delete is a removal."""
    async with STORES[store]() as opened:
        context = api_context()
        async with aclosing(opened.watch(context, BOOK, ObjectQuery())) as events:
            reading = asyncio.create_task(_take(events, 3))
            await asyncio.sleep(1)
            created = await opened.create(context, BOOK, {"name": "a", "pages": 1})
            await opened.update(context, BOOK, {"pages": 2}, created["id"])
            await opened.delete(context, BOOK, created["id"])
            events_read = await asyncio.wait_for(reading, 60)
        change, remove = ResourceEventType.CHANGE, ResourceEventType.REMOVE
        assert [(e.type, e.data["id"], e.data["pages"]) for e in events_read] == [
            (change, created["id"], 1),
            (change, created["id"], 2),
            (remove, created["id"], 2),
        ]


@pytest.mark.parametrize("store", EACH_STORE)
async def test_callers_own_what_they_get(store: str) -> None:
    """Changing a result or an argument changes nothing in the store."""
    async with STORES[store]() as opened:
        context = api_context()
        data: dict[str, Any] = {"name": "a", "tags": ["x"]}
        created = await opened.create(context, BOOK, data)
        data["tags"].append("y")
        created["tags"].append("z")
        (await opened.by_id(context, BOOK, created["id"]))["tags"].append("z")
        (await opened.list(context, BOOK, ObjectQuery())).items[0]["tags"].append("z")
        assert (await opened.by_id(context, BOOK, created["id"]))["tags"] == ["x"]


async def _take(events: Any, count: int) -> list[Any]:
    return [await anext(events) for _ in range(count)]
