"""One collection of objects in a database, used inside the transactions of a `SqlStore`. Blocking.

Writers hold the lock of the collection's row, so each reads the result of the previous writer, also of another process.
Readers use one snapshot and do not wait.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from typing import Any, TypeAlias

import msgspec

from opsdk.base.extras import RequiredExtra
from opsdk.norman.codes import ErrorCode, not_found, revision_too_old
from opsdk.norman.collections.query import ObjectQuery
from opsdk.norman.model import Schema
from opsdk.norman.query import apply_query
from opsdk.norman.store_results import PageMarkers, ResourceEventType
from opsdk.norman.stores.sql_query import Anchor, SqlSelection, Statement
from opsdk.norman.stores.sql_tables import changes, collections, digests, fields, objects, order_keys
from opsdk.norman.stores.sql_values import MAX_ELEMENTS, count_elements, encode_text, field_values
from opsdk.structured_merge.value import JsonObject

with RequiredExtra("norman-sql", "a store on SQL"):
    from sqlalchemy import Connection, Row, delete, insert, select, text, update


_AnyRow: TypeAlias = Row[*tuple[Any, ...]]

# Changes that one read of the log returns.
_BATCH = 100
# Numbers in one query: SQLite takes 32,766 parameters.
_MAX_PARAMETERS = 1000
# Writes after which old changes are deleted.
_PRUNE_EVERY = 100


class WriteVerb(Enum):
    """The operation of a write."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


_GROWTH = {WriteVerb.CREATE: 1, WriteVerb.UPDATE: 0, WriteVerb.DELETE: -1}


class SqlObject(msgspec.Struct, frozen=True):
    """An object and the revision of its last write."""

    data: JsonObject
    revision: int


class SqlChange(msgspec.Struct, frozen=True):
    """A change of the log."""

    type: ResourceEventType
    data: JsonObject
    revision: int
    object_revision: int


class LogPosition(msgspec.Struct, frozen=True):
    """A position in the log of changes.

    Attributes:
        epoch: the identity of the log.
        revision: the last change before the position.
    """

    epoch: str
    revision: int

    @staticmethod
    def parse(since: str) -> LogPosition:
        """Parse the position that a client sent. Raises `NormanError` Gone for one of another store."""
        epoch, _, revision = since.rpartition("-")
        if not revision.isdecimal() or len(revision) > 18:
            raise revision_too_old()
        return LogPosition(epoch, int(revision))

    def __str__(self) -> str:
        return f"{self.epoch}-{self.revision}"


class SqlCollection:
    """A collection and its indexed fields.

    Args:
        number: of the collection.
        keep_changes: changes that the log holds at least.
    """

    def __init__(self, number: int, keep_changes: int) -> None:
        self._number = number
        self._keep_changes = keep_changes

    @classmethod
    def prepare(
        cls, connection: Connection, name: str, names: Collection[str], epoch: str, keep_changes: int
    ) -> SqlCollection:
        """Create the collection and its fields where they are missing. Runs in a transaction of `SETUP`.

        A field that is new gets the values of all objects. No field is removed: another process may use it.
        """
        number = connection.scalar(select(collections.c.number).where(collections.c.name == name))
        if number is None:
            row = {"name": name, "epoch": epoch, "revision": 0, "size": 0, "pruned": 0}
            number = connection.execute(insert(collections).returning(collections.c.number), row).scalar_one()
        collection = cls(number, keep_changes)
        missing = sorted(set(names) - set(collection._fields(connection)))
        if missing:
            # Take the lock, so that no writer adds an object without the new fields.
            connection.execute(
                update(collections).where(collections.c.number == number).values(revision=collections.c.revision)
            )
            connection.execute(insert(fields), [{"collection": number, "name": name} for name in missing])
            collection._index_all(connection, missing)
        return collection

    # ------------------------------------------------------------------ reads
    def get(self, connection: Connection, object_id: str) -> SqlObject:
        """Return an object. Raises `NormanError` NotFound."""
        row = self._row(connection, object_id)
        if row is None:
            raise not_found(object_id)
        return SqlObject(msgspec.json.decode(row.data), row.revision)

    def page(
        self, connection: Connection, schema: Schema, query: ObjectQuery, complete: Callable[[SqlObject], JsonObject]
    ) -> tuple[Sequence[JsonObject], PageMarkers | None]:
        """Return one page, and where the pages around it start. `complete` adds the fields that are not stored."""
        selection = SqlSelection(self._number, query, self._fields(connection))

        def read(rows: Sequence[_AnyRow]) -> list[JsonObject]:
            return [complete(item) for item in self._read(connection, [row[0] for row in rows])]

        if selection.rest is not None:
            result = apply_query(schema, selection.rest, read(connection.execute(selection.everything()).all()))
            return result.items, result.markers
        if not query.limit:
            items = read(_rows(connection, selection.rows()))
            return items, PageMarkers(total=len(items))
        limit = query.limit
        size = _number(connection, select(collections.c.size).where(collections.c.number == self._number))
        total = _number(connection, selection.count(size))
        # In the order of an index, a page is found after about `limit * size / total` objects.
        few = total * total < limit * size
        start = self._start(connection, selection, query.marker)
        rows = _rows(connection, selection.rows(first=start, few=few), limit + 1)
        before = [] if start is None else _rows(connection, selection.rows_before(start, few=few), limit)
        partial = before or len(rows) > limit
        end = _rows(connection, selection.rows_before(None, few=few), limit) if partial else []
        markers = PageMarkers(
            previous=_text(before[-1].id) if before else None,
            next=_text(rows[limit].id) if len(rows) > limit else None,
            last=_text(end[-1].id) if end else None,
            total=total,
        )
        return read(rows[:limit]), markers

    def _read(self, connection: Connection, numbers: Sequence[int]) -> list[SqlObject]:
        """Return the objects with these numbers, in their order."""
        stored: dict[int, SqlObject] = {}
        for start in range(0, len(numbers), _MAX_PARAMETERS):
            part = numbers[start : start + _MAX_PARAMETERS]
            query = select(objects.c.number, objects.c.data, objects.c.revision).where(objects.c.number.in_(part))
            for row in connection.execute(query):
                stored[row.number] = SqlObject(msgspec.json.decode(row.data), row.revision)
        return [stored[number] for number in numbers]

    def position(self, connection: Connection) -> LogPosition:
        """Return the end of the log."""
        row = connection.execute(
            select(collections.c.epoch, collections.c.revision).where(collections.c.number == self._number)
        ).one()
        return LogPosition(row.epoch, row.revision)

    def changes_after(self, connection: Connection, position: LogPosition) -> list[SqlChange]:
        """Return up to 100 changes after a position. Raises `NormanError` Gone if it has left the log."""
        collection = connection.execute(select(collections).where(collections.c.number == self._number)).one()
        if position.epoch != collection.epoch or not collection.pruned <= position.revision <= collection.revision:
            raise revision_too_old()
        rows = connection.execute(
            select(changes)
            .where(changes.c.collection == self._number, changes.c.revision > position.revision)
            .order_by(changes.c.revision)
            .limit(_BATCH)
        )
        return [
            SqlChange(ResourceEventType(row.type), msgspec.json.decode(row.data), row.revision, row.object_revision)
            for row in rows
        ]

    # ------------------------------------------------------------------ writes
    def write(
        self,
        connection: Connection,
        verb: WriteVerb,
        object_id: str,
        change: Callable[[SqlObject | None], JsonObject],
    ) -> SqlObject:
        """Write an object under the lock of the collection, and log the change. Returns the stored or deleted object.

        Args:
            connection: in a transaction of `TransactionMode.WRITE`.
            verb: the operation.
            object_id: of the object.
            change: returns the new object; gets the one that is stored, or None. Raises to store nothing.
        """
        revision = connection.execute(
            update(collections)
            .where(collections.c.number == self._number)
            .values(revision=collections.c.revision + 1, size=collections.c.size + _GROWTH[verb])
            .returning(collections.c.revision)
        ).scalar_one()
        row = self._row(connection, object_id)
        existing = SqlObject(msgspec.json.decode(row.data), row.revision) if row is not None else None
        data = change(existing)
        raw, log_revision = _encode(data), revision
        if verb is WriteVerb.DELETE:
            assert existing is not None
            log_revision = existing.revision
            connection.execute(delete(objects).where(objects.c.number == row.number))  # type: ignore[union-attr]
        elif row is None:
            values = {"collection": self._number, "id": encode_text(object_id), "revision": revision, "data": raw}
            number = connection.execute(insert(objects).returning(objects.c.number), values).scalar_one()
            self._index(connection, {number: data}, _indexable(data, self._fields(connection)))
        else:
            connection.execute(
                update(objects).where(objects.c.number == row.number).values(revision=revision, data=raw)
            )
            for table in (order_keys, digests):
                connection.execute(delete(table).where(table.c.object == row.number))
            self._index(connection, {row.number: data}, _indexable(data, self._fields(connection)))
        self._log(connection, verb, revision, log_revision, raw)
        return SqlObject(data, log_revision)

    def _log(self, connection: Connection, verb: WriteVerb, revision: int, object_revision: int, raw: bytes) -> None:
        """Append a change to the log. Every hundredth one deletes those that are older than the log keeps."""
        event = ResourceEventType.REMOVE if verb is WriteVerb.DELETE else ResourceEventType.CHANGE
        connection.execute(
            insert(changes),
            {
                "collection": self._number,
                "revision": revision,
                "object_revision": object_revision,
                "type": event.value,
                "data": raw,
            },
        )
        pruned = revision - self._keep_changes
        if pruned > 0 and revision % _PRUNE_EVERY == 0:
            connection.execute(
                delete(changes).where(changes.c.collection == self._number, changes.c.revision <= pruned)
            )
            connection.execute(update(collections).where(collections.c.number == self._number).values(pruned=pruned))

    # ------------------------------------------------------------------ fields
    def _fields(self, connection: Connection) -> Mapping[str, int]:
        rows = connection.execute(select(fields.c.name, fields.c.number).where(fields.c.collection == self._number))
        return {row.name: row.number for row in rows}

    def _index_all(self, connection: Connection, names: Collection[str]) -> None:
        own = {name: number for name, number in self._fields(connection).items() if name in names}
        rows = connection.execute(
            select(objects.c.number, objects.c.data).where(objects.c.collection == self._number)
        ).all()
        for start in range(0, len(rows), _BATCH):
            batch = {row.number: msgspec.json.decode(row.data) for row in rows[start : start + _BATCH]}
            self._index(connection, batch, own)
        if connection.dialect.name == "postgresql":
            # Without statistics, the planner assumes small tables, and sorts them instead of reading an index.
            connection.execute(text("ANALYZE norman_objects, norman_order_keys, norman_digests"))

    def _index(self, connection: Connection, data: Mapping[int, JsonObject], names: Mapping[str, int]) -> None:
        keys, texts = [], []
        for number, item in data.items():
            object_id = encode_text(item["id"])
            for name, field in names.items():
                values = field_values(item, name)
                keys.append({"field": field, "object": number, "key": values.key, "id": object_id})
                texts += [{"field": field, "object": number, "digest": digest} for digest in values.digests]
        if keys:
            connection.execute(insert(order_keys), keys)
        if texts:
            connection.execute(insert(digests), texts)

    def _row(self, connection: Connection, object_id: str) -> _AnyRow | None:
        return connection.execute(
            select(objects.c.number, objects.c.data, objects.c.revision).where(
                objects.c.collection == self._number, objects.c.id == encode_text(object_id)
            )
        ).one_or_none()

    @staticmethod
    def _start(connection: Connection, selection: SqlSelection, marker: str) -> Anchor | None:
        """Return the position of a marker; None for the start. In the order of ids, a missing id has a position too."""
        if not marker:
            return None
        row = connection.execute(selection.anchor(marker)).one_or_none()
        if row is not None:
            return Anchor(row[0], row[1])
        return Anchor(encode_text(marker)) if selection.by_ascending_id else None


def _indexable(data: JsonObject, names: Mapping[str, int]) -> Mapping[str, int]:
    """Return the fields. Raises `NormanError` InvalidFormat for a list that would have too many rows."""
    for name in names:
        if count_elements(data, name) > MAX_ELEMENTS:
            text = f"a list that filters use has at most {MAX_ELEMENTS} elements"
            raise ErrorCode.INVALID_FORMAT.error(text, field_name=name)
    return names


def _rows(connection: Connection, queries: Sequence[Statement], limit: int | None = None) -> list[_AnyRow]:
    """Return the rows of queries, one after the other, up to a limit."""
    rows: list[_AnyRow] = []
    for query in queries:
        rows += connection.execute(query if limit is None else query.limit(limit - len(rows)))
        if len(rows) == limit:
            break
    return rows


def _text(identity: bytes) -> str:
    return bytes(identity).decode()


def _number(connection: Connection, query: Statement) -> int:
    return int(connection.execute(query).scalar_one())


def _encode(data: JsonObject) -> bytes:
    try:
        return msgspec.json.encode(data)
    except (TypeError, ValueError, OverflowError) as error:
        raise ErrorCode.INVALID_BODY_CONTENT.error(f"a value cannot be stored as JSON: {error}") from error
