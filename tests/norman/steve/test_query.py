"""The parameters of a list request."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.errors import NormanError
from opsdk.norman.steve.filter import FilterCondition, FilterOperator, OrFilter
from opsdk.norman.steve.query import (
    MAX_CONDITIONS,
    ProjectsOrNamespaces,
    SortKey,
    SteveQuery,
    parse_query,
)

# Names in a comma-separated parameter have no comma, and a leading minus reverses the order.
names = st.text(st.characters(codec="utf-8", exclude_characters="[],"), min_size=1, max_size=6)
paths = st.lists(names, min_size=1, max_size=3).map(tuple)
plain = st.text("abcn-123", min_size=1, max_size=5)
queries = st.builds(
    SteveQuery,
    filters=st.lists(
        st.builds(
            lambda path, value: OrFilter([FilterCondition(path, FilterOperator.EQUALS, (value,))]),
            paths,
            st.text(max_size=5),
        ),
        max_size=2,
    ).map(tuple),
    sort=st.lists(st.builds(SortKey, paths, st.booleans(), st.booleans()), max_size=3).map(tuple),
    page=st.integers(1, 99),
    page_size=st.integers(0, 99),
    revision=st.one_of(st.none(), st.integers(0, 10**12)),
    limit=st.integers(0, 200_000),
    continue_token=plain,
    projects_or_namespaces=st.one_of(
        st.none(), st.builds(ProjectsOrNamespaces, st.frozensets(plain, min_size=1, max_size=3), st.booleans())
    ),
    summary=st.lists(paths, min_size=1, max_size=2).map(tuple),
    summary_only=st.booleans(),
)


@given(queries)
def test_a_query_is_what_its_text_is_read_as(query: SteveQuery) -> None:
    """Parsing is the inverse of formatting."""
    assert parse_query(str(query)) == query


def test_defaults_are_those_of_steve() -> None:
    """100,000 objects, the first page, no pages; a negative limit is no limit."""
    query = parse_query("unknown=1")
    assert (query.limit, query.page, query.page_size, query.revision) == (100_000, 1, 0, None)
    assert parse_query("limit=-1").limit == 0


def test_repeated_filters_are_kept_apart_and_commas_are_alternatives() -> None:
    """Repeated parameters must all hold, parts of one are alternatives."""
    query = parse_query("filter=a=1,b=2&filter=c%3E3")
    assert [len(item) for item in query.filters] == [2, 1]


def test_a_sort_has_orders_labels_and_addresses() -> None:
    """A minus is descending, brackets hold labels, ip() sorts addresses."""
    (arch, name, ip) = parse_query("sort=-metadata.labels[kubernetes.io/arch],metadata.name,ip(status.podIP)").sort
    assert arch == SortKey(("metadata", "labels", "kubernetes.io/arch"), descending=True)
    assert name == SortKey(("metadata", "name"))
    assert ip == SortKey(("status", "podIP"), as_ip=True)


def test_projects_or_namespaces_include_or_exclude() -> None:
    """``projectsornamespaces!=`` selects the others."""
    excluded = parse_query("projectsornamespaces!=p1,n1").projects_or_namespaces
    assert excluded == ProjectsOrNamespaces(frozenset({"p1", "n1"}), exclude=True)
    assert [excluded.selects(n, p) for n, p in (("n1", ""), ("n2", "p1"), ("n2", ""))] == [False, False, True]


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
        parse_query(text)
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
        parse_query([(parameter, text)])
    assert (raised.value.status, raised.value.field_name) == (400, parameter)
    assert len(raised.value.message) < 1000
    assert time.process_time() - started < 1


def test_the_filters_of_a_request_share_their_budget() -> None:
    """Many parameters have no more conditions and values than one."""
    assert len(parse_query([("filter", "a=b")] * MAX_CONDITIONS).filters) == MAX_CONDITIONS
    for text, count in (("a=b", MAX_CONDITIONS + 1), ("a in (" + ",".join(map(str, range(1000))) + ")", 11)):
        with pytest.raises(NormanError, match="too many"):
            parse_query([("filter", text)] * count)
