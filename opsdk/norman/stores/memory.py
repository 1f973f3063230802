"""A store in the memory of the process: for tests, and for objects that need not outlive the process."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec
from msgspec.structs import replace

from opsdk.aio.randomness import loop_random, loop_uuid4
from opsdk.norman.codes import ErrorCode, not_found
from opsdk.norman.collections.broadcast import Broadcaster
from opsdk.norman.collections.query import ObjectQuery
from opsdk.norman.conversion import to_text
from opsdk.norman.model import ApiContext, Schema
from opsdk.norman.store_results import ResourceEvent, ResourceEventType, ResourceList
from opsdk.structured_merge.value import JsonObject

__all__ = ["MemoryStore"]

# Events that wait for a subscriber; each holds an object.
_QUEUE_SIZE = 100


class MemoryStore:
    """Objects by id.

    The id of a new object is the field `id_field`, or a random one if the object lacks it.

    Args:
        id_field: the field with the id of an object; empty for random ids.
    """

    def __init__(self, id_field: str = "name") -> None:
        self._id_field = id_field
        # Objects are stored encoded: callers own their copies, and decoding is five times faster than a deep copy.
        self._objects: dict[str, bytes] = {}
        self._changes: Broadcaster[ResourceEvent] = Broadcaster(
            f"{loop_random().getrandbits(48):012x}", queue_size=_QUEUE_SIZE
        )

    async def by_id(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject:
        """Return an object."""
        return self._existing(object_id)

    async def list(self, context: ApiContext, schema: Schema, query: ObjectQuery) -> ResourceList:
        """Return all objects."""
        return ResourceList(items=[msgspec.json.decode(data) for data in self._objects.values()])

    async def create(self, context: ApiContext, schema: Schema, data: JsonObject) -> JsonObject:
        """Create an object. Raises `NormanError` NotUnique if its id is taken."""
        object_id = to_text(data.get(self._id_field)) if self._id_field else ""
        object_id = object_id or loop_uuid4()
        if object_id in self._objects:
            raise ErrorCode.NOT_UNIQUE.error(f"{schema.id} {object_id} already exists", field_name=self._id_field)
        return self._save(schema, object_id, data)

    async def update(self, context: ApiContext, schema: Schema, data: JsonObject, object_id: str) -> JsonObject:
        """Change the fields in `data`."""
        return self._save(schema, object_id, {**self._existing(object_id), **data})

    async def delete(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject | None:
        """Delete an object."""
        data = self._existing(object_id)
        del self._objects[object_id]
        self._changes.publish(ResourceEvent(type=ResourceEventType.REMOVE, data=data))
        return None

    async def watch(self, context: ApiContext, schema: Schema, query: ObjectQuery) -> AsyncGenerator[ResourceEvent]:
        """Yield changes. Raises `NormanError` Gone for a revision that is too old."""
        changes = self._changes
        async with aclosing(changes.subscribe(changes.parse_revision(query.since))) as events:
            async for revision, event in events:
                yield replace(event, revision=changes.format_revision(revision))

    def _existing(self, object_id: str) -> JsonObject:
        if (data := self._objects.get(object_id)) is None:
            raise not_found(object_id)
        stored: JsonObject = msgspec.json.decode(data)
        return stored

    def _save(self, schema: Schema, object_id: str, data: JsonObject) -> JsonObject:
        encoded = msgspec.json.encode(data | {"id": object_id, "type": schema.full_type})
        self._objects[object_id] = encoded
        self._changes.publish(ResourceEvent(type=ResourceEventType.CHANGE, data=msgspec.json.decode(encoded)))
        return self._existing(object_id)
