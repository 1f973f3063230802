"""Filters, order and pages of a collection. Pure.

Upstream: github.com/rancher/norman/parse/collection.go, api/handler/query.go
Deviates: numbers are ordered as numbers; a page whose first object was deleted starts at the object that follows it,
where the collection is in the order of its ids.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

from opsdk.http.server.request import Query
from opsdk.norman.codes import ErrorCode
from opsdk.norman.conversion import to_text
from opsdk.norman.model import (
    Modifier,
    Page,
    PageMarkers,
    QueryCondition,
    QueryOptions,
    ResourceList,
    Schema,
    Sort,
    SortOrder,
)
from opsdk.structured_merge.value import JsonObject, JsonValue

DEFAULT_LIMIT = 1000
MAX_LIMIT = 10_000
HTML_LIMIT = 100
MAX_CONDITIONS = 100
"""Filters in one request."""
MAX_VALUES = 1000
"""Values of all filters in one request; SQLite takes 32,766 parameters in a statement."""

_MODIFIERS = {modifier.value: modifier for modifier in Modifier}


def parse_query(schema: Schema, query: Query, *, default_limit: int = DEFAULT_LIMIT) -> QueryOptions:
    """Parse the query of a collection request. Filters and sort fields that the schema does not declare are ignored.

    Raises:
        NormanError: InvalidFormat; there are more than `MAX_CONDITIONS` filters, or `MAX_VALUES` values.

    >>> from opsdk.norman.model import ApiVersion, Filter
    >>> schema = Schema(id="book", version=ApiVersion(), collection_filters={"name": Filter()})
    >>> options = parse_query(schema, Query("name_in=a,b&other=1&limit=-1&sort=name"))
    >>> options.conditions[0].values, options.sort.name, options.page.limit
    (('a', 'b'), 'name', 10000)
    """
    sort = query.get("sort")
    order = SortOrder.DESC if query.get("order") == "desc" else SortOrder.ASC
    return QueryOptions(
        conditions=tuple(_conditions(schema, query)),
        sort=Sort(name=sort if sort in schema.collection_filters else "id", order=order),
        page=Page(limit=_limit(query.get("limit"), default_limit), marker=query.get("marker")),
    )


def apply_query(options: QueryOptions, items: Sequence[JsonObject]) -> ResourceList:
    """Filter, sort and page the objects of a store that does not do so itself."""
    holds = _test(options)
    matching = [item for item in items if holds(item)]
    if options.sort is not None:
        matching = sort_items(options.sort, matching)
    return page_items(options, matching)


def matches(options: QueryOptions, item: JsonObject) -> bool:
    """Whether an object meets the conditions and namespaces of `options`."""
    return _test(options)(item)


def _test(options: QueryOptions) -> Callable[[JsonObject], bool]:
    """Return the test of an object. The sets of values are built once."""
    tests = [condition_test(condition) for condition in options.conditions]
    namespaces = None if options.namespaces is None else frozenset(options.namespaces)

    def holds(item: JsonObject) -> bool:
        if namespaces is not None and namespace_of(item) not in namespaces:
            return False
        return all(test(item) for test in tests)

    return holds


def namespace_of(item: Mapping[str, JsonValue]) -> str:
    """Return the namespace of an object: a field, or the first part of its id.

    >>> namespace_of({"namespaceId": "a"}), namespace_of({"namespace": "b"}), namespace_of({"id": "c:x"})
    ('a', 'b', 'c')
    """
    own = to_text(item.get("namespaceId")) or to_text(item.get("namespace"))
    return own or split_id(to_text(item.get("id")))[0]


def split_id(object_id: str) -> tuple[str, str]:
    """Return namespace and name of the id of a namespaced object. A name may have colons, a namespace has none.

    >>> split_id("kube-system:system:controller:token-cleaner"), split_id("a")
    (('kube-system', 'system:controller:token-cleaner'), ('', 'a'))
    """
    namespace, colon, name = object_id.partition(":")
    return (namespace, name) if colon else ("", object_id)


def condition_test(condition: QueryCondition) -> Callable[[Mapping[str, JsonValue]], bool]:
    """Return whether objects meet a condition. A list meets EQ and IN if one of its values does."""
    modifier, names, values = condition.modifier, condition.field.split("."), frozenset(condition.values)

    def holds(item: Mapping[str, JsonValue]) -> bool:
        value: JsonValue = item
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        if modifier in (Modifier.NULL, Modifier.NOT_NULL):
            return (value is None) == (modifier is Modifier.NULL)
        texts = map(to_text, value) if isinstance(value, list) else (to_text(value),)
        return any(text in values for text in texts) == (modifier in (Modifier.EQ, Modifier.IN))

    return holds


def sort_items(sort: Sort, items: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the objects in order: numbers before texts, absent values first, equal ones by id."""
    reverse = sort.order is SortOrder.DESC
    by_id = sorted(items, key=lambda item: to_text(item.get("id")), reverse=reverse and sort.name == "id")
    if sort.name == "id":
        return by_id
    return sorted(by_id, key=lambda item: sort_key(item.get(sort.name)), reverse=reverse)


def sort_key(value: JsonValue) -> tuple[int, float, str]:
    """Return a key that orders values of any type."""
    if value is None:
        return (0, 0, "")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (1, value, "")
    return (2, 0, to_text(value))


def page_items(options: QueryOptions, items: Sequence[JsonObject]) -> ResourceList:
    """Return one page of sorted objects, and where the pages around it start."""
    page = options.page
    if page is None:
        return ResourceList(items=items, markers=PageMarkers(total=len(items)))
    ids = [to_text(item.get("id")) for item in items]
    start = _start(options, ids, page.marker)
    end = min(start + page.limit, len(ids))
    last = max(len(ids) - page.limit, 0)
    partial = start > 0 or end < len(ids)
    markers = PageMarkers(
        previous=ids[max(start - page.limit, 0)] if start else None,
        next=ids[end] if start < end < len(ids) else None,
        last=ids[last] if partial and last < len(ids) else None,
        total=len(ids),
    )
    return ResourceList(items=items[start:end], markers=markers)


def _start(options: QueryOptions, ids: Sequence[str], marker: str) -> int:
    if not marker:
        return 0
    if marker in ids:
        return ids.index(marker)
    by_id = options.sort is None or options.sort == Sort()
    return bisect_left(ids, marker) if by_id else 0


def _limit(text: str, default: int) -> int:
    try:
        limit = int(text[:20])
    except ValueError:
        return default
    if limit == -1:
        return MAX_LIMIT
    return min(limit, MAX_LIMIT) if limit > 0 else default


def _conditions(schema: Schema, query: Query) -> list[QueryCondition]:
    conditions: list[QueryCondition] = []
    count = 0
    for parameter in query.names():
        name, modifier = _parameter(schema, parameter)
        declared = schema.collection_filters.get(name)
        if declared is None or modifier not in declared.modifiers:
            continue
        texts = query.all(parameter)
        if modifier in (Modifier.IN, Modifier.NOT_IN):
            texts = [part for text in texts for part in text.split(",")]
        elif modifier in (Modifier.NULL, Modifier.NOT_NULL):
            texts = []
        count += len(texts)
        if count > MAX_VALUES or len(conditions) >= MAX_CONDITIONS:
            text = f"the filters of a request have at most {MAX_VALUES} values and {MAX_CONDITIONS} fields"
            raise ErrorCode.INVALID_FORMAT.error(text, field_name=parameter)
        conditions.append(QueryCondition(field=name, modifier=modifier, values=tuple(texts)))
    return conditions


def _parameter(schema: Schema, parameter: str) -> tuple[str, Modifier | None]:
    """Return the field and the modifier of a parameter such as ``name_ne``; a field's own name counts first."""
    if parameter in schema.collection_filters:
        return parameter, Modifier.EQ
    name, _, modifier = parameter.rpartition("_")
    return name, _MODIFIERS.get(modifier)
