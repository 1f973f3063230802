"""A store in a SQL database: SQLite in a file, or PostgreSQL for several processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

from opsdk.aio.closing import Closing
from opsdk.aio.randomness import loop_random, loop_uuid4
from opsdk.aio.tasks import TaskOwner
from opsdk.base.options import Options
from opsdk.norman.codes import ErrorCode, not_found
from opsdk.norman.collections.query import ObjectQuery
from opsdk.norman.conversion import to_text
from opsdk.norman.errors import NormanError
from opsdk.norman.model import ApiContext, Schema
from opsdk.norman.store_results import ResourceEvent, ResourceList
from opsdk.norman.stores.sql_collection import LogPosition, SqlChange, SqlCollection, SqlObject, WriteVerb
from opsdk.norman.stores.sql_database import SqlDatabase, TransactionMode
from opsdk.norman.stores.sql_values import encode_text, indexed_fields
from opsdk.structured_merge.value import JsonObject
from opsdk.telemetry.safe_logger import SafeLogger

__all__ = ["SqlStore", "SqlStoreOptions"]

log = SafeLogger(__name__)

# PostgreSQL rejects index entries of more than 2,700 bytes.
_MAX_ID_BYTES: Final = 2_000

Change = Callable[[SqlObject | None], JsonObject]
"""Returns the new object; gets the stored one, or None."""


class SqlStoreOptions(Options, frozen=True, kw_only=True):
    """Options of a `SqlStore`.

    Attributes:
        id_field: the field with the id of an object; empty for random ids.
        revision_field: the field with the revision of an object. An update whose data has another revision than
            the stored object is a Conflict. Empty for no such field.
        poll_interval: seconds between polls for writes of other processes, while there are watches.
        keep_changes: number of logged changes from which a watch can resume.
    """

    id_field: str = "name"
    revision_field: str = "resourceVersion"
    poll_interval: float = 1.0
    keep_changes: int = 10_000


class SqlStore(Closing):
    """Objects in a database. Several processes can use one collection at once.

    Lists are filtered, sorted and paged in the database by the fields that `Schema.collection_filters` declares, by
    references and by the namespace; other fields are filtered in Python. Writes of a collection run one after the
    other, even from several processes; updates of different fields of one object all survive.

    Watches of all processes see each write once and in order; `ResourceEvent.revision` also resumes after a restart.

    >>> store = SqlStore(SqlDatabase("sqlite:///:memory:"), "books")

    Args:
        database: the database; its owner closes it, after the store.
        collection: the name of the collection. Stores with equal names share their objects.
        options: see `SqlStoreOptions`.
    """

    def __init__(self, database: SqlDatabase, collection: str, options: SqlStoreOptions | None = None) -> None:
        self._database = database
        self._name = collection
        self._options = options or SqlStoreOptions()
        self._collection: SqlCollection | None = None
        self._fields: frozenset[str] = frozenset()
        self._preparing = asyncio.Lock()
        self._watch_events: set[asyncio.Event] = set()
        self._closed = False
        self._tasks = TaskOwner("sql store", on_error=lambda name, error: log.error("%s failed: %s", name, error))
        self._polling: asyncio.Task[None] | None = None

    async def by_id(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject:
        """Return an object."""
        collection = await self._prepared(schema)
        stored = await self._database.run(
            TransactionMode.READ, lambda connection: collection.get(connection, object_id)
        )
        return self._complete(stored)

    async def list(self, context: ApiContext, schema: Schema, query: ObjectQuery) -> ResourceList:
        """Return one page of the objects that match, in order."""
        collection = await self._prepared(schema)
        items, markers = await self._database.run(
            TransactionMode.READ, lambda connection: collection.page(connection, schema, query, self._complete)
        )
        return ResourceList(items=items, markers=markers)

    async def create(self, context: ApiContext, schema: Schema, data: JsonObject) -> JsonObject:
        """Create an object. Raises `NormanError` NotUnique if its id is taken."""
        field = self._options.id_field
        object_id = (to_text(data.get(field)) if field else "") or loop_uuid4()
        if len(encode_text(object_id)) > _MAX_ID_BYTES:
            raise ErrorCode.MAX_LENGTH_EXCEEDED.error(f"at most {_MAX_ID_BYTES} bytes", field_name=field)

        def change(existing: SqlObject | None) -> JsonObject:
            if existing is not None:
                raise ErrorCode.NOT_UNIQUE.error(f"{schema.id} {object_id} already exists", field_name=field)
            return self._stored_form(data) | {"id": object_id, "type": schema.full_type}

        return await self._write(schema, WriteVerb.CREATE, object_id, change)

    async def update(self, context: ApiContext, schema: Schema, data: JsonObject, object_id: str) -> JsonObject:
        """Change the fields in `data`. Raises `NormanError` Conflict if they have the revision of an older object."""
        expected = to_text(data.get(self._options.revision_field)) if self._options.revision_field else ""

        def change(existing: SqlObject | None) -> JsonObject:
            current = _existing(existing, object_id)
            if expected and expected != str(current.revision):
                raise ErrorCode.CONFLICT.error(
                    f"{schema.id} {object_id} has the revision {current.revision}, not {expected}: read it again"
                )
            return {**current.data, **self._stored_form(data), "id": object_id, "type": schema.full_type}

        return await self._write(schema, WriteVerb.UPDATE, object_id, change)

    async def delete(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject | None:
        """Delete an object."""
        await self._write(schema, WriteVerb.DELETE, object_id, lambda existing: _existing(existing, object_id).data)
        return None

    async def watch(self, context: ApiContext, schema: Schema, query: ObjectQuery) -> AsyncGenerator[ResourceEvent]:
        """Yield the writes of all processes, from the database's log.

        A slow reader does not block others. A watch that falls behind the log by more than
        `SqlStoreOptions.keep_changes` ends. While the database cannot be reached, a running watch waits.

        Raises:
            NormanError: Gone; `ObjectQuery.since` is too old.
        """
        collection = await self._prepared(schema)
        position = await self._database.run(TransactionMode.READ, collection.position)
        if query.since:
            position = LogPosition.parse(query.since)
            # Raise here, not at the first change.
            await self._changes_after(collection, position)
        wake = self._add_watch(collection)
        try:
            while not self._closed:
                wake.clear()
                try:
                    batch = await self._changes_after(collection, position)
                except NormanError as error:
                    if error.status == ErrorCode.CLUSTER_UNAVAILABLE.status:
                        # The log keeps changes during this time.
                        await asyncio.sleep(self._options.poll_interval)
                        continue
                    if error.status != ErrorCode.GONE.status:
                        raise
                    log.warning("ending a watch of %s: its reader is too slow", schema.id)
                    return
                for change in batch:
                    position = LogPosition(position.epoch, change.revision)
                    data = self._complete(SqlObject(change.data, change.object_revision))
                    yield ResourceEvent(type=change.type, data=data, revision=str(position))
                if not batch:
                    await wake.wait()
        finally:
            self._remove_watch(wake)

    async def aclose(self) -> None:
        """End all watches. Idempotent."""
        self._closed = True
        self._wake_watches()
        await self._tasks.aclose()

    # ------------------------------------------------------------------ helpers
    async def _prepared(self, schema: Schema) -> SqlCollection:
        """Return the collection, and index the filter fields of a schema that it does not index yet."""
        names = indexed_fields(schema) - {self._options.revision_field}
        if self._collection is not None and names <= self._fields:
            return self._collection
        async with self._preparing:
            names |= self._fields
            epoch = f"{loop_random().getrandbits(48):012x}"
            self._collection = await self._database.run(
                TransactionMode.SETUP,
                lambda connection: SqlCollection.prepare(
                    connection, self._name, names, epoch, self._options.keep_changes
                ),
            )
            self._fields = names
        return self._collection

    async def _write(self, schema: Schema, verb: WriteVerb, object_id: str, change: Change) -> JsonObject:
        collection = await self._prepared(schema)
        stored = await self._database.run(
            TransactionMode.WRITE, lambda connection: collection.write(connection, verb, object_id, change)
        )
        self._wake_watches()
        return self._complete(stored)

    async def _changes_after(self, collection: SqlCollection, position: LogPosition) -> Sequence[SqlChange]:
        return await self._database.run(
            TransactionMode.READ, lambda connection: collection.changes_after(connection, position)
        )

    def _stored_form(self, data: JsonObject) -> JsonObject:
        return {name: value for name, value in data.items() if name != self._options.revision_field}

    def _complete(self, stored: SqlObject) -> JsonObject:
        field = self._options.revision_field
        return {**stored.data, field: str(stored.revision)} if field else stored.data

    # ------------------------------------------------------------------ watches
    def _add_watch(self, collection: SqlCollection) -> asyncio.Event:
        wake = asyncio.Event()
        self._watch_events.add(wake)
        if self._polling is None:
            self._polling = self._tasks.start(self._poll(collection), name=f"poll for changes of {self._name}")
        return wake

    def _remove_watch(self, wake: asyncio.Event) -> None:
        self._watch_events.discard(wake)
        if not self._watch_events and self._polling is not None:
            self._polling.cancel()
            self._polling = None

    def _wake_watches(self) -> None:
        for wake in self._watch_events:
            wake.set()

    async def _poll(self, collection: SqlCollection) -> None:
        """Notify the watches after a write of another process. One query serves all of them."""
        last_seen: LogPosition | None = None
        while True:
            await asyncio.sleep(self._options.poll_interval)
            try:
                position = await self._database.run(TransactionMode.READ, collection.position)
            except NormanError as error:
                # The log keeps changes during this time.
                log.warning("cannot poll for changes of %s: %s", self._name, error)
                continue
            if position != last_seen:
                last_seen = position
                self._wake_watches()

    def __repr__(self) -> str:
        return f"<SqlStore {self._name} in {self._database!r}>"


def _existing(existing: SqlObject | None, object_id: str) -> SqlObject:
    if existing is None:
        raise not_found(object_id)
    return existing
