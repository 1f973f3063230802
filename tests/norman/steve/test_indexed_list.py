"""Indexed lists against filtering and sorting all objects anew."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stevekit import entry

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.cache.entry import StoreEntry
from opsdk.errors import NormanError
from opsdk.norman.steve import list_order
from opsdk.norman.steve.access_set import VisibleObjects
from opsdk.norman.steve.field_path import cell_at, texts
from opsdk.norman.steve.indexed_list import IndexedList, IndexedListOptions, IndexedPage
from opsdk.norman.steve.query import SteveQuery, parse_query

ALL = VisibleObjects(everything=True)
NAMES = ("a", "b", "c", "d")
PLACES = ("", "n", "m")


def plain(tree: Any) -> Any:
    """No virtual fields."""
    return tree


def names(page: IndexedPage) -> list[str]:
    """The objects of a page."""
    return [str(item.key) for item in page.entries]


def filled(count: int = 10, options: IndexedListOptions | None = None) -> IndexedList:
    """A list of objects ``o0``, ``o1`` ..., in two namespaces."""
    objects = IndexedList(plain, options)
    for number in range(count):
        objects.put(entry(f"o{number}", "nm"[number % 2], number + 1, spec={"size": number % 3}))
    return objects


# ------------------------------------------------------------------ the model
def naive(objects: dict[ObjectKey, StoreEntry], query: SteveQuery, visible: VisibleObjects) -> list[str]:
    """OrFilter and sort everything by decoded objects."""

    def cell(item: StoreEntry, path: tuple[str, ...]) -> Any:
        if path == ("id",):
            return str(item.key)
        return cell_at(msgspec.json.decode(item.data), path)

    rows = [item for item in objects.values() if visible.contains(*item.key)]
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
    objects, model = IndexedList(plain, IndexedListOptions(columns=3, orders=2, views=3)), {}
    for revision, (what, first, second, parts) in enumerate([*history, ("query", "sort=spec.size", ALL, {})], 1):
        if what == "put":
            item = entry(second, first, revision, **parts)
            objects.put(item)
            model[item.key] = item
        elif what == "remove":
            objects.remove(entry(second, first, revision))
            model.pop(ObjectKey(first, second), None)
        else:
            query = parse_query(first)
            assert names(objects.page(query, second)) == naive(model, query, second)
    assert len(objects) == len(model)
    counts = objects.counts(ALL)
    assert counts.count == len(model)
    assert counts.namespaces == Counter(key.namespace for key in model if key.namespace)


# ------------------------------------------------------------------ pages
def test_pages_of_one_revision_are_one_list_whatever_happens_meanwhile() -> None:
    """Every object stands on exactly one page, as it was when the first page was read."""
    objects = filled()
    first = objects.page(parse_query("sort=-spec.size&pagesize=4"), ALL)
    objects.put(entry("new", "n", 99, spec={"size": 9}))
    objects.remove(entry("o0", "n", 100))
    rest = [
        objects.page(parse_query(f"sort=-spec.size&pagesize=4&page={page}&revision={first.revision}"), ALL)
        for page in (2, 3, 4)
    ]
    seen = [name for page in (first, *rest) for name in names(page)]
    assert sorted(seen) == sorted(f"{'nm'[n % 2]}/o{n}" for n in range(10))
    assert (first.count, first.pages, names(rest[-1])) == (10, 3, [])
    assert names(objects.page(parse_query("sort=-spec.size&pagesize=1"), ALL)) == ["n/new"]


def test_a_revision_that_is_not_kept_is_the_least_one() -> None:
    """The newest list is served, as by steve; a continue token of it is a 410, and a future revision is refused."""
    objects = filled(options=IndexedListOptions(snapshots=1))
    first = objects.page(parse_query("limit=4"), ALL)
    objects.put(entry("new", "n", 99))
    newest = objects.page(SteveQuery(), ALL)
    assert objects.page(parse_query(f"revision={first.revision}"), ALL) == newest
    with pytest.raises(NormanError, match="list again") as caught:
        objects.page(parse_query(f"limit=4&continue={first.continue_token}"), ALL)
    assert caught.value.status == 410
    with pytest.raises(NormanError, match="unknown revision 100: the list is at 99"):
        objects.page(parse_query("revision=100"), ALL)


def test_another_user_does_not_get_the_pages_of_the_first() -> None:
    """A revision that one user has read is no list of a user with other rights, who gets the newest list."""
    objects = filled()
    first = objects.page(parse_query("pagesize=4"), ALL)
    objects.put(entry("new", "n", 99))
    page = objects.page(parse_query(f"revision={first.revision}"), VisibleObjects(namespaces=frozenset("n")))
    assert page.revision == 99
    assert {each.key.namespace for each in page.entries} == {"n"}


def test_a_continue_token_resumes_the_same_list() -> None:
    """Chunks of a limit are one list; a page is counted from the token; the end has no token."""
    objects = filled()
    first = objects.page(parse_query("limit=4"), ALL)
    objects.remove(entry("o9", "m", 50))
    second = objects.page(parse_query(f"limit=4&continue={first.continue_token}"), ALL)
    last = objects.page(parse_query(f"limit=4&page=2&continue={first.continue_token}"), ALL)
    assert len({*names(first), *names(second), *names(last)}) == 10
    assert (first.count, last.continue_token, last.revision) == (10, "", first.revision)
    assert len(objects.page(parse_query("limit=4&pagesize=3"), ALL).entries) == 3


@pytest.mark.parametrize("token", ["x", "e30", "W10", "WzEsLTEsMF0", "é"])
def test_a_foreign_continue_token_is_refused(token: str) -> None:
    """A text that no list gave, or one of another filter, is a 400."""
    with pytest.raises(NormanError, match="'continue'") as caught:
        filled().page(SteveQuery(continue_token=token), ALL)
    assert caught.value.status == 400
    objects = filled()
    given_token = objects.page(parse_query("limit=2"), ALL).continue_token
    with pytest.raises(NormanError, match="another filter"):
        objects.page(parse_query(f"filter=id~o&continue={given_token}"), ALL)


# ------------------------------------------------------------------ selections
def test_a_namespace_and_projects_select_objects() -> None:
    """The request's namespace and projectsornamespaces are both applied; cluster-scoped objects have no project."""
    objects = filled(4)
    objects.put(entry("cluster", "", 9))
    projects = {"n": "p1"}.get
    page = objects.page(SteveQuery(), ALL, namespace="m")
    assert names(page) == ["m/o1", "m/o3"]
    included = objects.page(parse_query("projectsornamespaces=p1"), ALL, project_of=lambda name: projects(name, ""))
    assert names(included) == ["n/o0", "n/o2"]
    excluded = objects.page(parse_query("projectsornamespaces!=p1"), ALL, project_of=lambda name: projects(name, ""))
    assert names(excluded) == ["m/o1", "m/o3"]


def test_a_summary_counts_the_values_of_the_whole_list() -> None:
    """Pages and limits do not change it; filters and rights do."""
    objects = filled()
    page = objects.page(parse_query("summary=spec.size,metadata.namespace&pagesize=1"), ALL)
    assert [dict(item.counts) for item in page.summary] == [{"0": 4, "1": 3, "2": 3}, {"m": 5, "n": 5}]
    query = parse_query("summary=spec.size&summaryonly=true&filter=spec.size!=0")
    only = objects.page(query, VisibleObjects(namespaces=frozenset("n")))
    assert (names(only), only.count, dict(only.summary[0].counts)) == ([], 3, {"1": 1, "2": 2})


def test_counts_follow_rights_and_states() -> None:
    """Counts are by namespace, and of states that are not current."""
    objects = IndexedList(
        lambda tree: {**tree, "metadata": {**tree["metadata"], "state": {"name": tree["spec"]["state"]}}}
    )
    for name, state in (("a", "current"), ("b", "failed"), ("c", "failed")):
        objects.put(entry(name, "n", 1, spec={"state": state}))
    assert objects.counts(ALL).states == {"failed": 2}
    counts = objects.counts(VisibleObjects(names={"n": frozenset("ab")}))
    assert (counts.count, dict(counts.namespaces), dict(counts.states)) == (2, {"n": 2}, {"failed": 1})


def test_memory_is_bounded() -> None:
    """Columns, orders and rows of snapshots have limits; a request that needs more fields than these is refused."""
    objects = filled(options=IndexedListOptions(columns=3, orders=1, snapshots=9, snapshot_rows=15))
    for size in range(9):
        objects.page(parse_query(f"filter=spec.a{size}!=1&sort=spec.b{size}"), ALL)
    assert len(objects._columns) == 3
    assert sum(s.rows for s in objects._snapshots.values()) <= 15
    with pytest.raises(NormanError, match="4 fields: use at most 3"):
        objects.page(parse_query("filter=a=1,b=1,c=1,d=1"), ALL)


def test_fields_are_read_in_slices() -> None:
    """The first use of a field lets other tasks run; what changes meanwhile is in the list."""
    objects = filled(2000)
    steps = objects.prepare(parse_query("filter=spec.size=0"), ALL)
    next(steps)
    objects.put(entry("o0", "n", 9999, spec={"size": 1}))
    assert sum(1 for _ in steps) > 3
    assert "n/o0" not in names(objects.page(parse_query("filter=spec.size=0"), ALL))
    assert texts(None) == ()


@pytest.mark.parametrize("text", ["filter=spec.size!=2&sort=-spec.size", "sort=spec.size", "", "filter=spec.size=0"])
def test_requests_that_compute_at_once_have_all_changes(text: str) -> None:
    """Two requests take turns while objects come, change and go, and a third one is given up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(list_order, "_SLICE", 50)
        objects, model = IndexedList(plain), {}
        for number in range(2000):
            item = entry(f"o{number}", "nm"[number % 2], number + 1, spec={"size": number % 3})
            objects.put(item)
            model[item.key] = item
        query, users = parse_query(text), (ALL, VisibleObjects(namespaces=frozenset("n")))
        running = [objects.prepare(query, users[turn % 2]) for turn in range(3)]
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
        for user in users:
            assert names(objects.page(query, user)) == naive(model, query, user)


def test_an_object_is_found_by_its_key() -> None:
    """A key that is not there is None."""
    objects = filled(1)
    assert objects.get(ObjectKey("n", "o0")) is not None
    assert objects.get(ObjectKey("n", "x")) is None
    assert "1 objects" in repr(objects)
