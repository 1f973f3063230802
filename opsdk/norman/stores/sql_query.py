"""Filters, order and pages as SQL, with the semantics of `opsdk.norman.query`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from sqlalchemy import ColumnElement, Select, and_, false, func, or_, select, true

from opsdk.norman.model import Modifier, QueryCondition, QueryOptions, Sort, SortOrder
from opsdk.norman.stores.sql_tables import digests, objects, order_keys
from opsdk.norman.stores.sql_values import NULL_KEY, digest_of, encode_text

Query: TypeAlias = Select[*tuple[Any, ...]]


class Anchor(msgspec.Struct, frozen=True):
    """The place of an object in an order.

    Attributes:
        id: of the object.
        key: its order key; empty in the order of the ids.
    """

    id: bytes
    key: bytes = b""


class SqlSelection:
    """The objects of a collection that a query selects, in its order.

    Args:
        collection: the number of the collection.
        options: the query.
        fields: the fields with order keys and digests, and their numbers.

    Attributes:
        rest: what the database cannot decide, because no values of a field are stored: conditions, and the order.
    """

    def __init__(self, collection: int, options: QueryOptions, fields: Mapping[str, int]) -> None:
        self._options = options
        self._sort = options.sort or Sort()
        self._field = None if self._sort.name == "id" else fields.get(self._sort.name)
        where: list[ColumnElement[bool]] = [objects.c.collection == collection]
        undecided: list[QueryCondition] = []
        for condition in _all_conditions(options):
            clause = _clause(condition, fields)
            if clause is None:
                undecided.append(condition)
            else:
                where.append(clause)
        # A sort looks up the whole name, a condition the nested field.
        sorts = self._sort.name == "id" or (self._field is not None and "." not in self._sort.name)
        complete = sorts and not undecided
        self.rest: QueryOptions | None = (
            None if complete else QueryOptions(conditions=tuple(undecided), sort=self._sort, page=options.page)
        )
        self._where = and_(*where)

    @property
    def descending(self) -> bool:
        """Whether the order is from the greatest to the least."""
        return self._sort.order is SortOrder.DESC

    @property
    def by_ascending_id(self) -> bool:
        """Whether the order is that of the ids, in which also an id that does not exist has a place."""
        return self._sort == Sort()

    def rows(self, *, limit: int | None = None, offset: int = 0) -> Query:
        """Select data, revision and id, in order."""
        query = self._sorted(select(objects.c.data, objects.c.revision, objects.c.id))
        return query.limit(limit).offset(offset) if limit is not None else query

    def everything(self) -> Query:
        """Select data, revision and id by the conditions that the database decides, in the order of the ids."""
        return select(objects.c.data, objects.c.revision, objects.c.id).where(self._where).order_by(objects.c.id)

    def id_at(self, offset: int) -> Query:
        """Select the id of one place in the order."""
        return self._sorted(select(objects.c.id)).limit(1).offset(offset)

    def count(self) -> Query:
        """Count the objects."""
        return select(func.count()).select_from(objects).where(self._where)

    def anchor(self, marker: str) -> Query:
        """Select id and order key of the object that a marker names; the id twice in the order of the ids."""
        key = objects.c.id if self._field is None else order_keys.c.key
        return self._joined(select(objects.c.id, key)).where(self._where, objects.c.id == encode_text(marker))

    def count_before(self, anchor: Anchor) -> Query:
        """Count the objects before a place."""
        if self._field is None:
            before = objects.c.id > anchor.id if self.descending else objects.c.id < anchor.id
        else:
            key = order_keys.c.key
            # Objects with equal values are in the ascending order of their ids, also in a descending order.
            before = or_(
                key > anchor.key if self.descending else key < anchor.key,
                and_(key == anchor.key, order_keys.c.id < anchor.id),
            )
        return self._joined(select(func.count()).select_from(objects)).where(self._where, before)

    def _sorted(self, query: Query) -> Query:
        query = self._joined(query).where(self._where)
        if self._field is None:
            return query.order_by(objects.c.id.desc() if self.descending else objects.c.id)
        key = order_keys.c.key
        return query.order_by(key.desc() if self.descending else key, order_keys.c.id)

    def _joined(self, query: Query) -> Query:
        if self._field is None:
            return query
        return query.join(order_keys, (order_keys.c.object == objects.c.number) & (order_keys.c.field == self._field))


def _all_conditions(options: QueryOptions) -> Sequence[QueryCondition]:
    if options.namespaces is None:
        return options.conditions
    own = QueryCondition(field="namespaceId", modifier=Modifier.IN, values=tuple(options.namespaces))
    return (*options.conditions, own)


def _clause(condition: QueryCondition, fields: Mapping[str, int]) -> ColumnElement[bool] | None:
    """Return a condition as SQL, or None if the database does not know the field."""
    modifier, negative = condition.modifier, condition.modifier in (Modifier.NE, Modifier.NOT_IN)
    if condition.field == "id":
        if modifier in (Modifier.NULL, Modifier.NOT_NULL):
            return true() if modifier is Modifier.NOT_NULL else false()
        ids = [encode_text(value) for value in condition.values]
        return objects.c.id.not_in(ids) if negative else objects.c.id.in_(ids)
    number = fields.get(condition.field)
    if number is None:
        return None
    if modifier in (Modifier.NULL, Modifier.NOT_NULL):
        is_null = order_keys.c.key == NULL_KEY if modifier is Modifier.NULL else order_keys.c.key != NULL_KEY
        return objects.c.number.in_(select(order_keys.c.object).where(order_keys.c.field == number, is_null))
    texts = [digest_of(value) for value in condition.values]
    holders = select(digests.c.object).where(digests.c.field == number, digests.c.digest.in_(texts))
    return objects.c.number.not_in(holders) if negative else objects.c.number.in_(holders)
