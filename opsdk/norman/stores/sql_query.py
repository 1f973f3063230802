"""Filters, order and pages as SQL. Pure.

A page is read in the order of an index, from its first object on. Filters are then tested for each object, until the
page is full. Where few objects meet the filters, these are found first, and sorted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from opsdk.base.extras import RequiredExtra
from opsdk.norman.collections.filter import FilterCondition, FilterOperator, OrFilter
from opsdk.norman.collections.query import ID, ObjectQuery, SortKey
from opsdk.norman.stores.sql_tables import digests, objects, order_keys
from opsdk.norman.stores.sql_values import NULL_KEY, digest_of, encode_text

with RequiredExtra("norman-sql", "a store on SQL"):
    from sqlalchemy import ColumnElement, FromClause, Select, and_, exists, false, func, literal, or_, select, true


Statement: TypeAlias = Select[*tuple[Any, ...]]
Expression: TypeAlias = ColumnElement[Any]


class Anchor(msgspec.Struct, frozen=True):
    """The position of an object in an order.

    Attributes:
        id: of the object.
        key: its order key; empty in the order of the ids.
    """

    id: bytes
    key: bytes = b""


class _SqlCondition(msgspec.Struct, frozen=True):
    """One condition.

    Attributes:
        table: has the values of the field; None for a condition on the id, and for alternatives.
        values: selects the rows of the table that meet the condition, or that do not if it is negative.
        alternatives: one of them holds, instead of `values`.
        negative: no row of the object is selected.
        unique: an object has at most one such row.
    """

    table: FromClause | None
    values: ColumnElement[bool]
    negative: bool = False
    unique: bool = True
    alternatives: tuple[_SqlCondition, ...] = ()

    def found(self) -> Statement:
        """Select the numbers of the objects that have one of the values."""
        assert self.table is not None
        query = select(self.table.c.object).where(self.values)
        return query if self.unique else query.distinct()

    def test(self, number: Expression) -> ColumnElement[bool]:
        """Return whether the object with a number meets the condition, for one row of a query."""
        if self.alternatives:
            return or_(*(item.test(number) for item in self.alternatives))
        if self.table is None:
            return self.values
        row = exists().where(self.values, self.table.c.object == number)
        return ~row if self.negative else row


class SqlSelection:
    """The objects of a collection that a query selects, in its order.

    Args:
        collection: the number of the collection.
        query: of the client.
        fields: the fields with order keys and digests, and their numbers.

    Attributes:
        rest: the query without what the database decides; None if nothing is left, and the page is that of `rows`.
    """

    def __init__(self, collection: int, query: ObjectQuery, fields: Mapping[str, int]) -> None:
        self._collection = collection
        key = query.sort[0] if query.sort else SortKey(ID)
        self._field = None if key.path == ID else fields.get(".".join(key.path))
        self._descending = key.descending
        self._table = objects if self._field is None else order_keys
        self._number = objects.c.number if self._field is None else order_keys.c.object
        self._conditions: list[_SqlCondition] = []
        undecided: list[OrFilter] = []
        for item in query.filters:
            decided = _condition(item, fields, self._table.c.id)
            if decided is None:
                undecided.append(item)
            else:
                self._conditions.append(decided)
        sorts = query.sort in ((), (key,)) if key.path == ID else query.sort == (key, SortKey(ID))
        decides_order = sorts and not key.as_ip and (key.path == ID or self._field is not None)
        complete = decides_order and not undecided and query.visible.everything
        self.rest: ObjectQuery | None = None if complete else replace(query, filters=tuple(undecided))
        self.by_ascending_id = key == SortKey(ID)
        """Whether the order is that of the ids, in which also an id that does not exist has a place."""

    # ------------------------------------------------------------------ objects
    def count(self, size: int) -> Statement:
        """Count the objects, of `size` in the collection."""
        if not self._conditions:
            return select(literal(size))
        if len(self._conditions) == 1 and self._conditions[0].negative and self._conditions[0].table is not None:
            return select(literal(size) - func.count()).select_from(self._conditions[0].found().subquery())
        first = self._most_selective_condition
        others = [item for item in self._conditions if item is not first]
        if first is None or any(item.table is None for item in others):
            return select(func.count()).select_from(self._table).where(self._tests())
        numbers = first.found().subquery()
        return select(func.count()).select_from(numbers).where(*(item.test(numbers.c.object) for item in others))

    def rows(self, *, first: Anchor | None = None, few: bool = False) -> list[Statement]:
        """Select number and id of objects, in order: each query continues where the one before ended.

        Args:
            first: where to begin; None for the first object.
            few: find the objects that meet the conditions first.
        """
        query = self._select(few).order_by(*self._order(few=few, backwards=False))
        return [query.where(part) for part in self._parts(first, backwards=False)]

    def rows_before(self, anchor: Anchor | None, *, few: bool = False) -> list[Statement]:
        """Select number and id of objects before a place, or before the end, in the reverse order; see `rows`."""
        query = self._select(few).order_by(*self._order(few=few, backwards=True))
        return [query.where(part) for part in self._parts(anchor, backwards=True)]

    def anchor(self, marker: str) -> Statement:
        """Select id and order key of the object that a marker names; the id twice in the order of the ids."""
        place = (objects.c.collection == self._collection, objects.c.id == encode_text(marker))
        if self._field is None:
            return select(objects.c.id, objects.c.id).where(*place, self._tests())
        joined = objects.join(order_keys, order_keys.c.object == objects.c.number)
        return select(order_keys.c.id, order_keys.c.key).select_from(joined).where(*place, self._tests())

    def everything(self) -> Statement:
        """Select the number and id of objects by the conditions that the database decides, in the order of the ids."""
        return select(self._number, self._table.c.id).where(self._tests()).order_by(self._table.c.id)

    # ------------------------------------------------------------------ helpers
    @property
    def _most_selective_condition(self) -> _SqlCondition | None:
        """The first condition whose objects an index has."""
        return next((item for item in self._conditions if item.table is not None and not item.negative), None)

    def _tests(self) -> ColumnElement[bool]:
        return and_(self._in_collection, *(item.test(self._number) for item in self._conditions))

    @property
    def _in_collection(self) -> ColumnElement[bool]:
        if self._field is None:
            return objects.c.collection == self._collection
        return order_keys.c.field == self._field  # a field has one collection

    def _select(self, few: bool) -> Statement:
        query = select(self._number, self._table.c.id)
        first = self._most_selective_condition if few else None
        if first is None:
            return query.where(self._tests())
        numbers = first.found().subquery()
        others = [item.test(self._number) for item in self._conditions if item is not first]
        # Without the collection, whose index of ids SQLite would read: the objects that are found have it.
        table = () if self._field is None else (self._in_collection,)
        return query.select_from(numbers.join(self._table, self._number == numbers.c.object)).where(*table, *others)

    def _order(self, *, few: bool, backwards: bool) -> Sequence[Expression]:
        """Objects with equal values are in the ascending order of their ids, also in a descending order."""
        table, descending = self._table, self._descending != backwards
        if self._field is None:
            return [table.c.id.desc() if descending else table.c.id]
        # An expression is in no index: SQLite would read all objects in the order of one, to look for the few.
        key = func.coalesce(table.c.key, NULL_KEY) if few else table.c.key
        return [
            key.desc() if descending else key,
            table.c.id.desc() if backwards else table.c.id,
        ]

    def _parts(self, anchor: Anchor | None, *, backwards: bool) -> Sequence[ColumnElement[bool]]:
        """Return conditions on a place: from it on, or before it. Each is one range of an index."""
        if anchor is None:
            return [true()]
        identity, key = self._table.c.id, order_keys.c.key
        if self._field is None:
            if self._descending:
                return [identity > anchor.id if backwards else identity <= anchor.id]
            return [identity < anchor.id if backwards else identity >= anchor.id]
        same = and_(key == anchor.key, identity < anchor.id if backwards else identity >= anchor.id)
        return [same, key < anchor.key if self._descending != backwards else key > anchor.key]


def _condition(item: OrFilter, fields: Mapping[str, int], identity: Expression) -> _SqlCondition | None:
    """Return a filter as SQL, or None if the database cannot decide it."""
    alternatives = [_of_field(each, fields, identity) for each in item]
    decided = tuple(each for each in alternatives if each is not None)
    if len(decided) < len(alternatives):
        return None
    return decided[0] if len(decided) == 1 else _SqlCondition(None, true(), alternatives=decided)


def _of_field(condition: FilterCondition, fields: Mapping[str, int], identity: Expression) -> _SqlCondition | None:
    """Return a condition on one field as SQL; None for another operator, and for a field without index."""
    positive = condition.positive()
    negative, exists_value = positive is not condition, positive.operator is FilterOperator.EXISTS
    if not exists_value and positive.operator not in (FilterOperator.EQUALS, FilterOperator.IN):
        return None
    if condition.path == ID:
        if exists_value:
            return _SqlCondition(None, false() if negative else true())
        ids = [encode_text(value) for value in condition.values]
        return _SqlCondition(None, identity.not_in(ids) if negative else identity.in_(ids))
    number = fields.get(".".join(condition.path))
    if number is None:
        return None
    if exists_value:
        keys = order_keys.alias()
        has_value = keys.c.key == NULL_KEY if negative else keys.c.key > NULL_KEY
        return _SqlCondition(keys, and_(keys.c.field == number, has_value))
    digests_of_values = [digest_of(value) for value in condition.values]
    rows = digests.alias()
    selected = and_(rows.c.field == number, rows.c.digest.in_(digests_of_values))
    return _SqlCondition(rows, selected, negative, len(digests_of_values) == 1)
