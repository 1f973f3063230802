"""Indexed lists against filtering and sorting all objects again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.cache.entry import StoreEntry
from opsdk.norman.collections import indexed_list, list_order
from opsdk.norman.collections.access_set import VisibleObjects
from opsdk.norman.collections.field_path import cell_at, order_text
from opsdk.norman.collections.filter import FilterCondition, FilterOperator
from opsdk.norman.collections.indexed_list import IndexedList, IndexedPage
from opsdk.norman.collections.query import ID, ObjectQuery, SortKey
from opsdk.norman.errors import NormanError
from tests.norman.collections.kit import entry, only, reader

ALL = VisibleObjects(everything=True)
NAMES = ("a", "b", "c", "d")
PLACES = ("", "n", "m")
SIZE = SortKey(("spec", "size"))
SIZE_DESCENDING = SortKey(("spec", "size"), descending=True)
EQUALS, NOT_EQUALS, IN = FilterOperator.EQUALS, FilterOperator.NOT_EQUALS, FilterOperator.IN


def names(page: IndexedPage) -> list[str]:
    """The objects of a page."""
    return [str(item.key) for item in page.entries]


def filled(count: int = 10) -> IndexedList:
    """A list of objects ``o0``, ``o1`` ..., in two namespaces."""
    objects = IndexedList(reader)
    for number in range(count):
        objects.put(entry(f"o{number}", "nm"[number % 2], number + 1, spec={"size": number % 3}))
    return objects


# ------------------------------------------------------------------ the model
def naive(objects: dict[ObjectKey, StoreEntry], query: ObjectQuery) -> list[str]:
    """Filter and sort everything by decoded objects."""

    def cell(item: StoreEntry, path: tuple[str, ...]) -> Any:
        if path == ("id",):
            return str(item.key)
        return cell_at(msgspec.json.decode(item.data), path)

    rows = [item for item in objects.values() if query.visible.contains(*item.key)]
    for alternatives in query.filters:
        rows = [item for item in rows if any(c.test()(cell(item, c.path)) for c in alternatives)]
    rows.sort(key=lambda item: item.key)
    for key in reversed(query.sort):
        rows.sort(key=lambda item, key=key: order_text(cell(item, key.path)), reverse=key.descending)  # type: ignore[misc]
    return [str(item.key) for item in rows]


puts = st.tuples(
    st.just("put"),
    st.sampled_from(PLACES),
    st.sampled_from(NAMES),
    st.fixed_dictionaries(
        {},
        optional={
            "spec": st.fixed_dictionaries({}, optional={"size": st.one_of(st.integers(0, 12), st.sampled_from("xy"))}),
            "labels": st.dictionaries(st.sampled_from(["l", "k.io/m"]), st.sampled_from("xy")),
            "ports": st.lists(st.integers(1, 3), max_size=2),
        },
    ),
)
removals = st.tuples(st.just("remove"), st.sampled_from(PLACES), st.sampled_from(NAMES), st.just({}))
LABEL = ("metadata", "labels", "k.io/m")
NO_LABEL = (FilterCondition(LABEL, FilterOperator.NOT_EXISTS),)
NAME_OR_NAMESPACE = (*only(EQUALS, "metadata.name", "a"), *only(EQUALS, "metadata.namespace", "n"))
queries = st.sampled_from(
    [
        ObjectQuery(sort=(SIZE,)),
        ObjectQuery(sort=(SIZE_DESCENDING, SortKey(("metadata", "name")))),
        ObjectQuery(sort=(SortKey(LABEL, descending=True), SIZE)),
        ObjectQuery(sort=(SortKey(ID, descending=True),)),
        ObjectQuery(filters=(only(EQUALS, "spec.size", "1"),)),
        ObjectQuery(filters=(only(FilterOperator.NOT_IN, "spec.size", "1", "x"),), sort=(SIZE_DESCENDING,)),
        ObjectQuery(filters=(NAME_OR_NAMESPACE, only(NOT_EQUALS, "ports", "2"))),
        ObjectQuery(filters=(only(IN, "metadata.labels.l", "x"),), sort=(SortKey(("metadata", "name")),)),
        ObjectQuery(filters=(NO_LABEL,)),
        ObjectQuery(filters=(only(FilterOperator.EXISTS, "ports"),)),
    ]
)
accesses = st.one_of(
    st.just(ALL),
    st.builds(
        VisibleObjects,
        namespaces=st.frozensets(st.sampled_from(["n", "m"])),
        names=st.dictionaries(
            st.one_of(st.none(), st.sampled_from(["n", "m"])), st.frozensets(st.sampled_from(NAMES)), max_size=2
        ),
    ),
)


@given(
    st.lists(st.one_of(puts, removals, st.tuples(st.just("query"), queries, accesses, st.just({}))), max_size=30),
    st.sampled_from((1 / 16, 1.0)),
)
def test_any_history_gives_the_list_that_its_end_gives(
    history: list[tuple[str, Any, Any, dict[str, Any]]], large_share: float
) -> None:
    """Columns, orders and views that follow events show what a new sort of everything shows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(list_order, "_LARGE_SHARE", large_share)  # both ways: in place, and anew
        for name, limit in (("_MAX_COLUMNS", 4), ("_MAX_ORDERS", 2), ("_MAX_VIEWS", 3)):
            patch.setattr(indexed_list, name, limit)
        _play(history)


def _play(history: list[tuple[str, Any, Any, dict[str, Any]]]) -> None:
    objects, model = IndexedList(reader), {}
    for revision, (what, first, second, parts) in enumerate(
        [*history, ("query", ObjectQuery(sort=(SIZE,)), ALL, {})], 1
    ):
        if what == "put":
            item = entry(second, first, revision, **parts)
            objects.put(item)
            model[item.key] = item
        elif what == "remove":
            objects.remove(entry(second, first, revision))
            model.pop(ObjectKey(first, second), None)
        else:
            query = replace(first, visible=second)
            assert names(objects.page(query)) == naive(model, query)
    assert len(objects) == len(model)


# ------------------------------------------------------------------ pages
def test_each_user_gets_the_objects_that_the_user_may_see() -> None:
    """Two users with the same parameters have lists of their own, which follow changes."""
    objects = filled()
    everything, some = ObjectQuery(), ObjectQuery(visible=VisibleObjects(namespaces=frozenset("n")))
    assert (objects.page(everything).count, objects.page(some).count) == (10, 5)
    objects.put(entry("new", "n", 99))
    objects.put(entry("new", "m", 100))
    assert (objects.page(everything).count, objects.page(some).count) == (12, 6)
    assert {each.key.namespace for each in objects.page(some).entries} == {"n"}


@pytest.mark.parametrize("sort", [(SortKey(ID),), (SortKey(("spec", "size")), SortKey(ID)), (SortKey(ID, True),)])
def test_a_walk_by_markers_sees_each_object_once(sort: tuple[SortKey, ...]) -> None:
    """Each page has the markers of the adjacent pages."""
    objects = filled()
    everything = names(objects.page(ObjectQuery(sort=sort)))
    marker, walked, previous = "", list[str](), list[str | None]()
    while True:
        page = objects.page(ObjectQuery(sort=sort, limit=3, marker=marker))
        walked += names(page)
        previous.append(page.previous and str(page.previous.key))
        assert page.last is not None
        assert str(page.last.key) == everything[-3]
        if page.next is None:
            break
        marker = str(page.next.key)
    assert (walked, previous) == (everything, [None, *everything[:7:3]])


def test_a_marker_of_a_deleted_object_is_the_object_after_it() -> None:
    """In id order, a deleted marker means the next object; in another order, the list starts again."""
    objects = filled()
    objects.remove(entry("o2", "n", 50))
    assert names(objects.page(ObjectQuery(sort=(SortKey(ID),), limit=2, marker="n/o2"))) == ["n/o4", "n/o6"]
    by_size = ObjectQuery(sort=(SIZE, SortKey(ID)), limit=2)
    assert names(objects.page(replace(by_size, marker="n/o2"))) == names(objects.page(by_size))


# ------------------------------------------------------------------ selections
def test_namespaces_select_objects() -> None:
    """Only objects of the given namespaces are listed, no cluster-scoped ones."""
    objects = filled(4)
    objects.put(entry("cluster", "", 9))
    for namespaces, listed in ((("m",), ["m/o1", "m/o3"]), ((), [])):
        query = ObjectQuery(filters=(only(IN, "metadata.namespace", *namespaces),))
        assert names(objects.page(query)) == listed


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns and orders are limited; a request that needs more fields is an error."""
    monkeypatch.setattr(indexed_list, "_MAX_COLUMNS", 3)
    monkeypatch.setattr(indexed_list, "_MAX_ORDERS", 1)
    objects = filled()
    for size in range(9):
        sort = (SortKey(("spec", f"b{size}")),)
        objects.page(ObjectQuery(filters=(only(NOT_EQUALS, f"spec.a{size}", "1"),), sort=sort))
    assert repr(objects).endswith(", 3 columns, 1 orders>")
    three = tuple(condition for field in "abc" for condition in only(EQUALS, field, "1"))
    with pytest.raises(NormanError, match="4 fields: use at most 3") as caught:  # the id too
        objects.page(ObjectQuery(filters=(three,)))
    assert (caught.value.status, caught.value.code) == (400, "InvalidFormat")


def test_fields_are_read_in_slices() -> None:
    """The first use of a field lets other tasks run, and includes changes made during it."""
    objects = filled(2000)
    query = ObjectQuery(filters=(only(EQUALS, "spec.size", "0"),))
    steps = objects.prepare(query)
    next(steps)
    objects.put(entry("o0", "n", 9999, spec={"size": 1}))
    assert sum(1 for _ in steps) > 3
    assert "n/o0" not in names(objects.page(query))


@pytest.mark.parametrize(
    "query",
    [
        ObjectQuery(filters=(only(NOT_EQUALS, "spec.size", "2"),), sort=(SIZE_DESCENDING,)),
        ObjectQuery(sort=(SIZE,)),
        ObjectQuery(),
        ObjectQuery(filters=(only(EQUALS, "spec.size", "0"),)),
    ],
)
def test_requests_that_compute_at_once_have_all_changes(query: ObjectQuery) -> None:
    """Concurrent requests see all changes, even if one of them is cancelled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(list_order, "_SLICE", 50)
        objects, model = IndexedList(reader), {}
        for number in range(2000):
            item = entry(f"o{number}", "nm"[number % 2], number + 1, spec={"size": number % 3})
            objects.put(item)
            model[item.key] = item
        of_users = [query, replace(query, visible=VisibleObjects(namespaces=frozenset("n")))]
        running = [objects.prepare(of_users[turn % 2]) for turn in range(3)]
        step, given_up = 0, running[2]
        while running:
            step += 1
            for steps in list(running):
                if next(steps, steps) is steps or (steps is given_up and step == 9):
                    running.remove(steps)
            item = entry(f"o{step * 7 % 2003}", "nm"[step * 7 % 2], 3000 + step, spec={"size": step % 4})
            if step % 3:
                objects.put(item)
                model[item.key] = item
            else:
                objects.remove(item)
                model.pop(item.key, None)
        assert step > 10
        for each in of_users:
            assert names(objects.page(each)) == naive(model, each)


def test_an_object_is_found_by_its_key() -> None:
    """A key without an object is None."""
    objects = filled(1)
    assert objects.get(ObjectKey("n", "o0")) is not None
    assert objects.get(ObjectKey("n", "x")) is None
    assert "1 objects" in repr(objects)
