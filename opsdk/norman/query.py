"""The parameters of a collection of ``/v3``, and queries over objects that a store does not filter itself. Pure.

Upstream: github.com/rancher/norman/parse/collection.go, api/handler/query.go
Deviates: numbers are ordered as numbers; a page whose first object was deleted starts at the object that follows it,
where the collection is in the order of its ids.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

from opsdk.http.server.request import Query
from opsdk.norman.codes import ErrorCode
from opsdk.norman.collections.filter import FilterCondition, FilterOperator, OrFilter
from opsdk.norman.collections.query import ID, ObjectQuery, SortKey
from opsdk.norman.conversion import to_text
from opsdk.norman.model import Schema
from opsdk.norman.schema_parts import Modifier, Scope
from opsdk.norman.store_results import PageMarkers, ResourceList
from opsdk.structured_merge.value import JsonObject, JsonValue

DEFAULT_LIMIT = 1000
_MAX_LIMIT = 10_000
HTML_LIMIT = 100
MAX_CONDITIONS = 100
"""Filters in one request."""
MAX_VALUES = 1000
"""Values of all filters in one request."""

_MODIFIERS = {modifier.value: modifier for modifier in Modifier}
_SPELLINGS = {
    FilterOperator.EQUALS: Modifier.EQ,
    FilterOperator.NOT_EQUALS: Modifier.NE,
    FilterOperator.IN: Modifier.IN,
    FilterOperator.NOT_IN: Modifier.NOT_IN,
    FilterOperator.NOT_EXISTS: Modifier.NULL,
    FilterOperator.EXISTS: Modifier.NOT_NULL,
}
_OPERATORS = {modifier: operator for operator, modifier in _SPELLINGS.items()}


def parse_query(schema: Schema, query: Query, *, default_limit: int = DEFAULT_LIMIT) -> ObjectQuery:
    """Parse the query of a collection request. Filters and sort fields that the schema does not declare are ignored.

    Raises:
        NormanError: InvalidFormat; there are more than `MAX_CONDITIONS` filters, or `MAX_VALUES` values.

    >>> from opsdk.norman.schema_parts import ApiVersion, Filter
    >>> schema = Schema(id="book", version=ApiVersion(), collection_filters={"name": Filter()})
    >>> parsed = parse_query(schema, Query("name_in=a,b&other=1&limit=-1&sort=name"))
    >>> parsed.filters[0][0].values, str(parsed.sort[0]), parsed.limit
    (('a', 'b'), 'name', 10000)
    """
    sort = query.get("sort")
    return ObjectQuery(
        filters=_filters(schema, query),
        sort=sort_by(sort if sort in schema.collection_filters else "id", descending=query.get("order") == "desc"),
        limit=_limit(query.get("limit"), default_limit),
        marker=query.get("marker"),
    )


def sort_by(field: str, *, descending: bool = False) -> tuple[SortKey, ...]:
    """Return the order of a field; a dot separates the names of nested ones. Equal objects are in the order of ids.

    >>> [str(key) for key in sort_by("name", descending=True)]
    ['-name', 'id']
    """
    key = SortKey(tuple(field.split(".")), descending)
    return (key,) if key.path == ID else (key, SortKey(ID))


def condition(field: str, modifier: Modifier, *values: str) -> tuple[OrFilter, ...]:
    """Return a condition as filters. An absent field has the empty text, and a list has each of its values.

    >>> [[(each.operator.value, each.values) for each in item] for item in condition("name", Modifier.EQ, "")]
    [[('=', ('',)), ('!', ())]]
    """
    path, operator = tuple(field.split(".")), _OPERATORS[modifier]
    absent = FilterCondition(path, FilterOperator.NOT_EXISTS)
    if modifier in (Modifier.NULL, Modifier.NOT_NULL):
        return ((FilterCondition(path, operator),),)
    if len(values) != 1:
        operator = FilterOperator.IN if modifier in (Modifier.EQ, Modifier.IN) else FilterOperator.NOT_IN
    own = FilterCondition(path, operator, tuple(sorted(set(values))))
    if "" not in values:
        return ((own,),)
    if modifier in (Modifier.EQ, Modifier.IN):
        return ((own, absent),)
    return ((own,), (FilterCondition(path, FilterOperator.EXISTS),))


def describe_filter(item: OrFilter) -> tuple[str, Modifier, tuple[str, ...]]:
    """Return field, modifier and values of a filter that `condition` made."""
    first = item[0]
    return ".".join(first.path), _SPELLINGS[first.operator], first.values


def apply_query(schema: Schema, query: ObjectQuery, items: Sequence[JsonObject]) -> ResourceList:
    """Filter, sort and page the objects of a store that does not do so itself."""
    holds = matcher(schema, query)
    return _page(query, query.sorted([item for item in items if holds(item)]))


def matcher(schema: Schema, query: ObjectQuery) -> Callable[[JsonObject], bool]:
    """Return the function that tells whether a query selects an object."""
    holds = query.holds()
    return lambda item: query.visible.contains(*key_of(schema, item)) and holds(item)


def key_of(schema: Schema, item: Mapping[str, JsonValue]) -> tuple[str, str]:
    """Return namespace and name of an object: those of its id, and a field for the namespace.

    >>> from opsdk.norman.schema_parts import ApiVersion
    >>> book = Schema(id="book", version=ApiVersion(), scope=Scope.NAMESPACE)
    >>> key_of(book, {"id": "c:x"}), key_of(book, {"id": "x", "namespaceId": "a"})
    (('c', 'x'), ('a', 'x'))
    """
    object_id = to_text(item.get("id"))
    namespace = to_text(item.get("namespaceId")) or to_text(item.get("namespace"))
    if schema.scope is not Scope.NAMESPACE:
        return namespace, object_id
    own, name = split_id(object_id)
    return namespace or own, name


def split_id(object_id: str) -> tuple[str, str]:
    """Return namespace and name of the id of a namespaced object. A name may have colons, a namespace has none.

    >>> split_id("kube-system:system:controller:token-cleaner"), split_id("a")
    (('kube-system', 'system:controller:token-cleaner'), ('', 'a'))
    """
    namespace, colon, name = object_id.partition(":")
    return (namespace, name) if colon else ("", object_id)


def format_id(namespace: str, name: str) -> str:
    """Return the id of an object, which `split_id` reads."""
    return f"{namespace}:{name}" if namespace else name


def _page(query: ObjectQuery, items: Sequence[JsonObject]) -> ResourceList:
    """Return one page of sorted objects, and where the pages around it start."""
    if not query.limit:
        return ResourceList(items=items, markers=PageMarkers(total=len(items)))
    ids = [to_text(item.get("id")) for item in items]
    start = _start(query, ids)
    end = min(start + query.limit, len(ids))
    last = max(len(ids) - query.limit, 0)
    partial = start > 0 or end < len(ids)
    markers = PageMarkers(
        previous=ids[max(start - query.limit, 0)] if start else None,
        next=ids[end] if start < end < len(ids) else None,
        last=ids[last] if partial and last < len(ids) else None,
        total=len(ids),
    )
    return ResourceList(items=items[start:end], markers=markers)


def _start(query: ObjectQuery, ids: Sequence[str]) -> int:
    if not query.marker:
        return 0
    if query.marker in ids:
        return ids.index(query.marker)
    return bisect_left(ids, query.marker) if query.sort in ((), (SortKey(ID),)) else 0


def _limit(text: str, default: int) -> int:
    try:
        limit = int(text[:20])
    except ValueError:
        return default
    if limit == -1:
        return _MAX_LIMIT
    return min(limit, _MAX_LIMIT) if limit > 0 else default


def _filters(schema: Schema, query: Query) -> tuple[OrFilter, ...]:
    """Return the declared filters of a query. Raises `NormanError` InvalidFormat above the limits of `parse_query`."""
    filters: list[OrFilter] = []
    fields = count = 0
    for parameter in query.names():
        name, modifier = _parameter(schema, parameter)
        declared = schema.collection_filters.get(name)
        if declared is None or modifier is None or modifier not in declared.modifiers:
            continue
        values = query.all(parameter)
        if modifier in (Modifier.IN, Modifier.NOT_IN):
            values = [part for text in values for part in text.split(",")]
        elif modifier in (Modifier.NULL, Modifier.NOT_NULL):
            values = []
        fields, count = fields + 1, count + len(values)
        if count > MAX_VALUES or fields > MAX_CONDITIONS:
            text = f"the filters of a request have at most {MAX_VALUES} values and {MAX_CONDITIONS} fields"
            raise ErrorCode.INVALID_FORMAT.error(text, field_name=parameter)
        filters += condition(name, modifier, *values)
    return tuple(filters)


def _parameter(schema: Schema, parameter: str) -> tuple[str, Modifier | None]:
    """Return the field and the modifier of a parameter such as ``name_ne``; a field's own name counts first."""
    if parameter in schema.collection_filters:
        return parameter, Modifier.EQ
    name, _, modifier = parameter.rpartition("_")
    return name, _MODIFIERS.get(modifier)
