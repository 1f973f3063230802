"""The parameters of a list request."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace
from stevekit import entry

from opsdk.norman.collections.access_set import VisibleObjects
from opsdk.norman.collections.indexed_list import IndexedList, IndexedPage
from opsdk.norman.collections.query import ObjectQuery, SortKey
from opsdk.norman.errors import NormanError
from opsdk.norman.steve.parameters import MAX_CONDITIONS, ListParameters, ProjectsOrNamespaces, parse_parameters
from opsdk.norman.steve.raw_fields import raw_fields

ALL = VisibleObjects(everything=True)


def filled() -> IndexedList:
    """A list of ten objects ``o0``, ``o1`` ... in two namespaces."""
    objects = IndexedList(raw_fields(lambda tree: tree))
    for number in range(10):
        objects.put(entry(f"o{number}", "nm"[number % 2], number + 1, spec={"size": number % 3}))
    return objects


def page_of(objects: IndexedList, text: str) -> tuple[IndexedPage, ListParameters]:
    """The page that these parameters request."""
    parameters = parse_parameters(text)
    return objects.page(parameters.query(ALL)), parameters


def names(page: IndexedPage) -> list[str]:
    """The objects of a page."""
    return [str(item.key) for item in page.entries]


def test_a_continue_token_resumes_the_same_list() -> None:
    """Parts of a limit are one list; a page is counted from the token; the end has no token."""
    objects = filled()
    first, parameters = page_of(objects, "limit=4")
    token = parameters.next_token(first)
    objects.remove(entry("o9", "m", 50))
    second, _ = page_of(objects, f"limit=4&continue={token}")
    last, of_last = page_of(objects, f"limit=4&page=2&continue={token}")
    assert len({*names(first), *names(second), *names(last)}) == 10
    assert (first.count, of_last.next_token(last), last.revision) == (10, "", first.revision)
    assert len(page_of(objects, "limit=4&pagesize=3")[0].entries) == 3


def test_pages_are_counted() -> None:
    """Without a page size, the number of pages is absent."""
    for text, pages in (("pagesize=4", 3), ("pagesize=4&page=9", 3), ("limit=4", 0)):
        page, parameters = page_of(filled(), text)
        assert parameters.pages(page) == pages


@pytest.mark.parametrize("token", ["x", "e30", "W10", "WzEsLTEsMF0", "é"])
def test_a_foreign_continue_token_is_refused(token: str) -> None:
    """A text that no list gave, or a token of another filter, is a 400."""
    with pytest.raises(NormanError, match="'continue'") as caught:
        parse_parameters([("continue", token)]).query(ALL)
    assert caught.value.status == 400
    first, parameters = page_of(filled(), "limit=2")
    with pytest.raises(NormanError, match="another filter"):
        page_of(filled(), f"filter=id~o&continue={parameters.next_token(first)}")


def test_defaults_are_those_of_steve() -> None:
    """The default is 100,000 objects without pages; a negative limit means no limit."""
    query = parse_parameters("unknown=1")
    assert (query.limit, query.page, query.page_size, query.selection.revision) == (100_000, 1, 0, None)
    assert parse_parameters("limit=-1").limit == 0


def test_repeated_filters_are_kept_apart_and_commas_are_alternatives() -> None:
    """Repeated parameters must all hold, parts of one are alternatives."""
    query = parse_parameters("filter=a=1,b=2&filter=c%3E3")
    assert [len(item) for item in query.selection.filters] == [2, 1]


def test_a_sort_has_orders_labels_and_addresses() -> None:
    """A minus is descending, brackets hold labels, ip() sorts addresses."""
    text = "sort=-metadata.labels[kubernetes.io/arch],metadata.name,ip(status.podIP)"
    (arch, name, ip) = parse_parameters(text).selection.sort
    assert arch == SortKey(
        ("metadata", "labels", "kubernetes.io/arch"), descending=True, fold_case=True, absent_last=True
    )
    assert name == SortKey(("metadata", "name"), fold_case=True)
    assert ip == SortKey(("status", "podIP"), as_ip=True, fold_case=True)


def test_projects_or_namespaces_include_or_exclude() -> None:
    """``projectsornamespaces!=`` selects the others."""
    excluded = parse_parameters("projectsornamespaces!=p1,n1").projects_or_namespaces
    assert excluded == ProjectsOrNamespaces(frozenset({"p1", "n1"}), exclude=True)
    objects = IndexedList(raw_fields(lambda tree: tree))
    for name, labels in (("n1", {}), ("n2", {"project": "p1"}), ("n3", {"project": "p2"}), ("n4", {})):
        objects.put(entry(name, labels=labels))
    included = replace(excluded, exclude=False)
    for selected, namespaces in ((excluded, ["n3", "n4"]), (included, ["n1", "n2"])):
        assert names(objects.page(ObjectQuery(filters=selected.filters("project")))) == namespaces


@pytest.mark.parametrize(
    ("text", "parameter"),
    [
        ("page=0", "page"),
        ("page=x", "page"),
        ("pagesize=-1", "pagesize"),
        ("revision=abc", "revision"),
        ("limit=1.5", "limit"),
        ("sort=a,b[c", "sort"),
        ("summary=", "summary"),
        ("summaryonly=true", "summaryonly"),
        ("summary=a&summaryonly=perhaps", "summaryonly"),
        ("filter=a=", "filter"),
    ],
)
def test_a_malformed_parameter_is_refused_by_name(text: str, parameter: str) -> None:
    """The error is a 400 that names the parameter and the position."""
    with pytest.raises(NormanError, match=r"position \d+") as caught:
        parse_parameters(text)
    assert (caught.value.status, caught.value.field_name) == (400, parameter)


@pytest.mark.parametrize(
    ("parameter", "text"),
    [
        ("filter", "a=b," * 40_000 + "a=b"),
        ("filter", "a in (" + "b," * 40_000 + "b)"),
        ("filter", "a." * 200_000 + "a=1"),
        ("filter", "[a]" * 130_000 + "=1"),
        ("sort", "a," * 190_000),
        ("sort", "a." * 200_000 + "a"),
        ("summary", "a," * 190_000),
        ("page", "9" * 5000),
        ("limit", "-" * 400_000),
    ],
)
def test_a_parameter_has_a_budget(parameter: str, text: str) -> None:
    """Alternatives, values, names of a path, sort keys and digits are bounded, before they cost time."""
    started = time.process_time()
    with pytest.raises(NormanError) as raised:
        parse_parameters([(parameter, text)])
    assert (raised.value.status, raised.value.field_name) == (400, parameter)
    assert len(raised.value.message) < 1000
    assert time.process_time() - started < 1


def test_the_filters_of_a_request_share_their_budget() -> None:
    """Many parameters have no more conditions and values than one."""
    assert len(parse_parameters([("filter", "a=b")] * MAX_CONDITIONS).selection.filters) == MAX_CONDITIONS
    for text, count in (("a=b", MAX_CONDITIONS + 1), ("a in (" + ",".join(map(str, range(1000))) + ")", 11)):
        with pytest.raises(NormanError, match="too many"):
            parse_parameters([("filter", text)] * count)
