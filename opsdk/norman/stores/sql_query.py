"""Filters, order and pages as SQL, with the semantics of `opsdk.norman.query`. Pure.

A page is read in the order of an index, from its first object on. Filters are then tested for each object, until the
page is full. Where few objects meet the filters, these are found first, and sorted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from opsdk.base.extras import RequiredExtra
from opsdk.norman.model import Modifier, QueryCondition, QueryOptions, Sort, SortOrder
from opsdk.norman.stores.sql_tables import digests, objects, order_keys
from opsdk.norman.stores.sql_values import NULL_KEY, digest_of, encode_text

with RequiredExtra("norman-sql", "a store on SQL"):
    from sqlalchemy import ColumnElement, FromClause, Select, and_, exists, false, func, literal, select, true


Query: TypeAlias = Select[*tuple[Any, ...]]
Expression: TypeAlias = ColumnElement[Any]


class Anchor(msgspec.Struct, frozen=True):
    """The position of an object in an order.

    Attributes:
        id: of the object.
        key: its order key; empty in the order of the ids.
    """

    id: bytes
    key: bytes = b""


class SqlCondition(msgspec.Struct, frozen=True):
    """One condition.

    Attributes:
        table: has the values of the field; None for a condition on the id.
        values: selects the rows of the table that meet the condition, or that do not if it is negative.
        negative: no row of the object is selected.
        unique: an object has at most one such row.
    """

    table: FromClause | None
    values: ColumnElement[bool]
    negative: bool = False
    unique: bool = True

    def found(self) -> Query:
        """Select the numbers of the objects that have one of the values."""
        assert self.table is not None
        query = select(self.table.c.object).where(self.values)
        return query if self.unique else query.distinct()

    def test(self, number: Expression) -> ColumnElement[bool]:
        """Return whether the object with a number meets the condition, for one row of a query."""
        if self.table is None:
            return self.values
        row = exists().where(self.values, self.table.c.object == number)
        return ~row if self.negative else row


class SqlSelection:
    """The objects of a collection that a query selects, in its order.

    Args:
        collection: the number of the collection.
        options: the query.
        fields: the fields with order keys and digests, and their numbers.

    Attributes:
        rest: conditions and order that the database cannot evaluate, because no values of a field are stored.
    """

    def __init__(self, collection: int, options: QueryOptions, fields: Mapping[str, int]) -> None:
        self._collection = collection
        self._sort = options.sort or Sort()
        self._field = None if self._sort.name == "id" else fields.get(self._sort.name)
        self._descending = self._sort.order is SortOrder.DESC
        self._table = objects if self._field is None else order_keys
        self._number = objects.c.number if self._field is None else order_keys.c.object
        self._conditions: list[SqlCondition] = []
        undecided: list[QueryCondition] = []
        for condition in _all_conditions(options):
            clause = _condition(condition, fields, self._table.c.id)
            if clause is None:
                undecided.append(condition)
            else:
                self._conditions.append(clause)
        # A sort uses the whole name, a condition the nested field.
        sorts = self._sort.name == "id" or (self._field is not None and "." not in self._sort.name)
        complete = sorts and not undecided
        self.rest: QueryOptions | None = (
            None if complete else QueryOptions(conditions=tuple(undecided), sort=self._sort, page=options.page)
        )

    @property
    def by_ascending_id(self) -> bool:
        """Whether the order is that of the ids, in which also an id that does not exist has a place."""
        return self._sort == Sort()

    # ------------------------------------------------------------------ objects
    def count(self, size: int) -> Query:
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

    def rows(self, *, first: Anchor | None = None, few: bool = False) -> list[Query]:
        """Select number and id of objects, in order: each query goes on where the one before ended.

        Args:
            first: where to begin; None for the first object.
            few: find the objects that meet the conditions first.
        """
        query = self._select(few).order_by(*self._order(few=few, backwards=False))
        return [query.where(part) for part in self._parts(first, backwards=False)]

    def rows_before(self, anchor: Anchor | None, *, few: bool = False) -> list[Query]:
        """Select number and id of objects before a place, or before the end, in the reverse order; see `rows`."""
        query = self._select(few).order_by(*self._order(few=few, backwards=True))
        return [query.where(part) for part in self._parts(anchor, backwards=True)]

    def anchor(self, marker: str) -> Query:
        """Select id and order key of the object that a marker names; the id twice in the order of the ids."""
        place = (objects.c.collection == self._collection, objects.c.id == encode_text(marker))
        if self._field is None:
            return select(objects.c.id, objects.c.id).where(*place, self._tests())
        joined = objects.join(order_keys, order_keys.c.object == objects.c.number)
        return select(order_keys.c.id, order_keys.c.key).select_from(joined).where(*place, self._tests())

    def everything(self) -> Query:
        """Select the number and id of objects by the conditions that the database decides, in the order of the ids."""
        return select(self._number, self._table.c.id).where(self._tests()).order_by(self._table.c.id)

    # ------------------------------------------------------------------ helpers
    @property
    def _most_selective_condition(self) -> SqlCondition | None:
        """The first condition whose objects an index has."""
        return next((item for item in self._conditions if item.table is not None and not item.negative), None)

    def _tests(self) -> ColumnElement[bool]:
        return and_(self._in_collection, *(item.test(self._number) for item in self._conditions))

    @property
    def _in_collection(self) -> ColumnElement[bool]:
        if self._field is None:
            return objects.c.collection == self._collection
        return order_keys.c.field == self._field  # a field has one collection

    def _select(self, few: bool) -> Query:
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


def _all_conditions(options: QueryOptions) -> Sequence[QueryCondition]:
    if options.namespaces is None:
        return options.conditions
    own = QueryCondition(field="namespaceId", modifier=Modifier.IN, values=tuple(options.namespaces))
    return (*options.conditions, own)


def _condition(condition: QueryCondition, fields: Mapping[str, int], identity: Expression) -> SqlCondition | None:
    """Return a condition as SQL, or None if the database does not know the field."""
    modifier, negative = condition.modifier, condition.modifier in (Modifier.NE, Modifier.NOT_IN)
    if condition.field == "id":
        if modifier in (Modifier.NULL, Modifier.NOT_NULL):
            return SqlCondition(None, true() if modifier is Modifier.NOT_NULL else false())
        ids = [encode_text(value) for value in condition.values]
        return SqlCondition(None, identity.not_in(ids) if negative else identity.in_(ids))
    number = fields.get(condition.field)
    if number is None:
        return None
    if modifier in (Modifier.NULL, Modifier.NOT_NULL):
        keys = order_keys.alias()
        is_null = keys.c.key == NULL_KEY if modifier is Modifier.NULL else keys.c.key > NULL_KEY
        return SqlCondition(keys, and_(keys.c.field == number, is_null))
    texts = [digest_of(value) for value in condition.values]
    rows = digests.alias()
    return SqlCondition(rows, and_(rows.c.field == number, rows.c.digest.in_(texts)), negative, len(texts) == 1)
