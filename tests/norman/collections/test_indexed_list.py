"""Indexed lists against filtering and sorting all objects again."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from stevekit import entry, query_of

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.cache.entry import StoreEntry
from opsdk.norman.collections import list_order
from opsdk.norman.collections.access_set import VisibleObjects
from opsdk.norman.collections.field_path import cell_at, texts
from opsdk.norman.collections.filter import FilterCondition, FilterOperator, OrFilter
from opsdk.norman.collections.indexed_list import IndexedList, IndexedListOptions, IndexedPage
from opsdk.norman.collections.query import ID, ObjectQuery, SortKey
from opsdk.norman.errors import NormanError
from opsdk.norman.steve.raw_fields import raw_fields

ALL = VisibleObjects(everything=True)
NAMES = ("a", "b", "c", "d")
PLACES = ("", "n", "m")
STATE = ("spec", "state")


def plain(tree: Any) -> Any:
    """No virtual fields."""
    return tree


def names(page: IndexedPage) -> list[str]:
    """The objects of a page."""
    return [str(item.key) for item in page.entries]


def filled(count: int = 10, options: IndexedListOptions | None = None) -> IndexedList:
    """A list of objects ``o0``, ``o1`` ..., in two namespaces."""
    objects = IndexedList(raw_fields(plain), options)
    for number in range(count):
        objects.put(entry(f"o{number}", "nm"[number % 2], number + 1, spec={"size": number % 3}))
    return objects


# ------------------------------------------------------------------ the model
def naive(objects: dict[ObjectKey, StoreEntry], query: ObjectQuery) -> list[str]:
    """OrFilter and sort everything by decoded objects."""

    def cell(item: StoreEntry, path: tuple[str, ...]) -> Any:
        if path == ("id",):
            return str(item.key)
        return cell_at(msgspec.json.decode(item.data), path)

    rows = [item for item in objects.values() if query.visible.contains(*item.key)]
    for alternatives in query.filters:
        rows = [item for item in rows if any(c.test()(cell(item, c.path)) for c in alternatives)]
    rows.sort(key=lambda item: item.key)
    for key in reversed(query.sort):
        rows.sort(key=lambda item, key=key: key.order(cell(item, key.path)), reverse=key.descending)  # type: ignore[misc]
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
texts_of_queries = st.sampled_from(
    [
        "sort=spec.size",
        "sort=-spec.size,metadata.name",
        "sort=-metadata.labels[k.io/m],spec.size",
        "sort=-id",
        "filter=spec.size=1",
        "filter=spec.size>3&sort=-spec.size",
        "filter=metadata.name~a,metadata.namespace=n&filter=ports!=2",
        "filter=metadata.labels.l in (x)&sort=metadata.name",
        "filter=!metadata.labels[k.io/m]",
        "filter=ports",
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
    st.lists(
        st.one_of(puts, removals, st.tuples(st.just("query"), texts_of_queries, accesses, st.just({}))), max_size=30
    ),
    st.sampled_from((1 / 16, 1.0)),
)
def test_any_history_gives_the_list_that_its_end_gives(
    history: list[tuple[str, Any, Any, dict[str, Any]]], large_share: float
) -> None:
    """Columns, orders and views that follow events show what a new sort of everything shows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(list_order, "_LARGE_SHARE", large_share)  # both ways: in place, and anew
        _play(history)


def _play(history: list[tuple[str, Any, Any, dict[str, Any]]]) -> None:
    objects, model = IndexedList(raw_fields(plain), IndexedListOptions(columns=3, orders=2, views=3)), {}
    for revision, (what, first, second, parts) in enumerate([*history, ("query", "sort=spec.size", ALL, {})], 1):
        if what == "put":
            item = entry(second, first, revision, **parts)
            objects.put(item)
            model[item.key] = item
        elif what == "remove":
            objects.remove(entry(second, first, revision))
            model.pop(ObjectKey(first, second), None)
        else:
            query = query_of(first, second)
            assert names(objects.page(query)) == naive(model, query)
    assert len(objects) == len(model)
    counts = objects.counts(ALL, STATE)
    assert counts.count == len(model)
    assert counts.namespaces == Counter(key.namespace for key in model if key.namespace)


# ------------------------------------------------------------------ pages
def test_pages_of_one_snapshot_are_one_list_whatever_happens_meanwhile() -> None:
    """Every object is on exactly one page of a snapshot, in the state of its start."""
    objects = filled()
    query = query_of("sort=-spec.size&pagesize=4")
    first = objects.page(query)
    objects.put(entry("new", "n", 99, spec={"size": 9}))
    objects.remove(entry("o0", "n", 100))
    rest = [objects.page(replace(query, first=start, revision=first.revision)) for start in (4, 8, 12)]
    rest += [objects.page(replace(query, first=start, snapshot=first.revision)) for start in (4, 8)]
    walked = [name for page in (first, *rest[:3]) for name in names(page)]
    assert sorted(walked) == sorted(f"{'nm'[n % 2]}/o{n}" for n in range(10))
    assert (first.count, names(rest[2]), [names(page) for page in rest[3:]]) == (10, [], [names(p) for p in rest[:2]])
    assert names(objects.page(query_of("sort=-spec.size&pagesize=1"))) == ["n/new"]


def test_a_revision_that_is_not_kept_is_the_least_one() -> None:
    """An old revision gets the newest list; an old snapshot is a 410, and a future revision is an error."""
    objects = filled(options=IndexedListOptions(snapshots=1))
    first = objects.page(ObjectQuery(limit=4))
    objects.put(entry("new", "n", 99))
    newest = objects.page(ObjectQuery())
    assert objects.page(ObjectQuery(revision=first.revision)) == newest
    with pytest.raises(NormanError, match="list again") as caught:
        objects.page(ObjectQuery(limit=4, first=4, snapshot=first.revision))
    assert caught.value.status == 410
    with pytest.raises(NormanError, match="unknown revision 100: the list is at 99"):
        objects.page(ObjectQuery(revision=100))


def test_another_user_does_not_get_the_pages_of_the_first() -> None:
    """A user with other permissions gets the newest list, not the revision that the first user has read."""
    objects = filled()
    first = objects.page(ObjectQuery(limit=4))
    objects.put(entry("new", "n", 99))
    page = objects.page(ObjectQuery(revision=first.revision, visible=VisibleObjects(namespaces=frozenset("n"))))
    assert page.revision == 99
    assert {each.key.namespace for each in page.entries} == {"n"}


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


def test_letter_case_does_not_matter_and_absent_labels_come_last() -> None:
    """Sorting ignores case, and absent labels come last, or first in descending order."""
    objects = IndexedList(raw_fields(plain))
    for name, label in (("a", "Beta"), ("b", "alpha"), ("c", None), ("d", "Alpha")):
        objects.put(entry(name, "", 1, labels={} if label is None else {"l": label}))
    assert names(objects.page(query_of("sort=metadata.labels.l"))) == ["b", "d", "a", "c"]
    assert names(objects.page(query_of("sort=-metadata.labels.l"))) == ["c", "a", "b", "d"]
    assert names(objects.page(ObjectQuery(sort=(SortKey(("metadata", "labels", "l")),)))) == ["c", "d", "a", "b"]


def test_a_marker_of_a_deleted_object_is_the_object_after_it() -> None:
    """In id order, a deleted marker means the next object; in another order, the list starts again."""
    objects = filled()
    objects.remove(entry("o2", "n", 50))
    assert names(objects.page(ObjectQuery(sort=(SortKey(ID),), limit=2, marker="n/o2"))) == ["n/o4", "n/o6"]
    by_size = (SortKey(("spec", "size")), SortKey(ID))
    assert objects.page(ObjectQuery(sort=by_size, limit=2, marker="n/o2")).first == 0


# ------------------------------------------------------------------ selections
def test_namespaces_select_objects() -> None:
    """Only objects of the given namespaces are listed, no cluster-scoped ones."""
    objects = filled(4)
    objects.put(entry("cluster", "", 9))
    for namespaces, listed in ((("m",), ["m/o1", "m/o3"]), ((), [])):
        condition = FilterCondition(("metadata", "namespace"), FilterOperator.IN, namespaces)
        assert names(objects.page(ObjectQuery(filters=(OrFilter([condition]),)))) == listed


def test_a_summary_counts_the_values_of_the_whole_list() -> None:
    """Pages and limits do not change it; filters and permissions do."""
    objects = filled()
    page = objects.page(query_of("summary=spec.size,metadata.namespace&pagesize=1"))
    assert [dict(item.counts) for item in page.summary] == [{"0": 4, "1": 3, "2": 3}, {"m": 5, "n": 5}]
    only = objects.page(query_of("summary=spec.size&filter=spec.size!=0", VisibleObjects(namespaces=frozenset("n"))))
    assert (only.count, dict(only.summary[0].counts)) == (3, {"1": 1, "2": 2})


def test_counts_follow_permissions_and_states() -> None:
    """Counts are by namespace, and by state."""
    objects = IndexedList(raw_fields(plain))
    for name, state in (("a", "current"), ("b", "failed"), ("c", "failed")):
        objects.put(entry(name, "n", 1, spec={"state": state}))
    assert objects.counts(ALL, STATE).states == {"current": 1, "failed": 2}
    counts = objects.counts(VisibleObjects(names={"n": frozenset("ab")}), STATE)
    assert (counts.count, dict(counts.namespaces), dict(counts.states)) == (2, {"n": 2}, {"current": 1, "failed": 1})


def test_memory_is_bounded() -> None:
    """Columns, orders and snapshots are limited; a request that needs more fields is an error."""
    objects = filled(options=IndexedListOptions(columns=3, orders=1, snapshots=9, snapshot_rows=15))
    for size in range(9):
        objects.page(query_of(f"filter=spec.a{size}!=1&sort=spec.b{size}"))
    assert len(objects._columns) == 3
    assert sum(s.rows for s in objects._snapshots.values()) <= 15
    with pytest.raises(NormanError, match="4 fields: use at most 3"):
        objects.page(query_of("filter=a=1,b=1,c=1,d=1"))


def test_fields_are_read_in_slices() -> None:
    """The first use of a field lets other tasks run, and includes changes made during it."""
    objects = filled(2000)
    steps = objects.prepare(query_of("filter=spec.size=0"))
    next(steps)
    objects.put(entry("o0", "n", 9999, spec={"size": 1}))
    assert sum(1 for _ in steps) > 3
    assert "n/o0" not in names(objects.page(query_of("filter=spec.size=0")))
    assert texts(None) == ()


@pytest.mark.parametrize("text", ["filter=spec.size!=2&sort=-spec.size", "sort=spec.size", "", "filter=spec.size=0"])
def test_requests_that_compute_at_once_have_all_changes(text: str) -> None:
    """Concurrent requests see all changes, even if one of them is cancelled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(list_order, "_SLICE", 50)
        objects, model = IndexedList(raw_fields(plain)), {}
        for number in range(2000):
            item = entry(f"o{number}", "nm"[number % 2], number + 1, spec={"size": number % 3})
            objects.put(item)
            model[item.key] = item
        queries = [query_of(text, visible) for visible in (ALL, VisibleObjects(namespaces=frozenset("n")))]
        running = [objects.prepare(queries[turn % 2]) for turn in range(3)]
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
        for query in queries:
            assert names(objects.page(query)) == naive(model, query)


def test_an_object_is_found_by_its_key() -> None:
    """A key without an object is None."""
    objects = filled(1)
    assert objects.get(ObjectKey("n", "o0")) is not None
    assert objects.get(ObjectKey("n", "x")) is None
    assert "1 objects" in repr(objects)
