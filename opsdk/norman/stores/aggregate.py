"""Combines several stores, such as clusters, into one collection with one order and paging."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing

from msgspec.structs import replace

from opsdk.errors import OpsdkError
from opsdk.norman.codes import ErrorCode, not_found
from opsdk.norman.collections.query import ObjectQuery
from opsdk.norman.conversion import to_text
from opsdk.norman.model import ApiContext, Schema, Store
from opsdk.norman.query import apply_query
from opsdk.norman.store_results import ResourceEvent, ResourceEvents, ResourceList
from opsdk.norman.stores.fan_in import fan_in
from opsdk.structured_merge.value import JsonObject
from opsdk.telemetry.safe_logger import SafeLogger

__all__ = ["AggregateStore"]

log = SafeLogger(__name__)


class AggregateStore:
    """The objects of several stores, with ids ``backend~id``.

    A list reads all back ends at once. It fails if one of them fails. With `partial`, the objects of a failed back
    end are left out and the failure is logged, so that one cluster that is down does not hide the others.

    Args:
        backends: the stores by name. A name has no tilde.
        field: the field with the back end of an object; a create must set it. It is added to every object.
        partial: omit failed back ends.
    """

    def __init__(self, backends: Mapping[str, Store], *, field: str = "clusterId", partial: bool = False) -> None:
        self.backends = dict(backends)
        self._field = field
        self._partial = partial

    async def by_id(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject:
        """Return an object of the back end in its id."""
        name, store, own_id = self._backend(object_id)
        return self._add_backend(name, await store.by_id(context, schema, own_id))

    async def list(self, context: ApiContext, schema: Schema, query: ObjectQuery) -> ResourceList:
        """Return one page of the objects of all back ends, in one order."""
        names = list(self.backends)
        lists = await asyncio.gather(
            *(self.backends[name].list(context, schema, ObjectQuery()) for name in names), return_exceptions=True
        )
        items: list[JsonObject] = []
        for name, result in zip(names, lists, strict=True):
            if isinstance(result, OpsdkError) and self._partial:
                log.warning("omitting %s of the back end %s: %s", schema.plural_name, name, result)
            elif isinstance(result, BaseException):
                raise result
            else:
                items += [self._add_backend(name, item) for item in result.items]
        return apply_query(schema, query, items)

    async def create(self, context: ApiContext, schema: Schema, data: JsonObject) -> JsonObject:
        """Create an object in the back end that the field names. Raises `NormanError` for another value."""
        name = to_text(data.get(self._field))
        store = self.backends.get(name)
        if store is None:
            code = ErrorCode.INVALID_REFERENCE if name else ErrorCode.MISSING_REQUIRED
            raise code.error(f"one of {', '.join(self.backends)}", field_name=self._field)
        return self._add_backend(name, await store.create(context, schema, self._remove_backend_field(data)))

    async def update(self, context: ApiContext, schema: Schema, data: JsonObject, object_id: str) -> JsonObject:
        """Update an object; it stays in its back end."""
        name, store, own_id = self._backend(object_id)
        return self._add_backend(name, await store.update(context, schema, self._remove_backend_field(data), own_id))

    async def delete(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject | None:
        """Delete an object."""
        name, store, own_id = self._backend(object_id)
        data = await store.delete(context, schema, own_id)
        return None if data is None else self._add_backend(name, data)

    async def watch(self, context: ApiContext, schema: Schema, query: ObjectQuery) -> AsyncGenerator[ResourceEvent]:
        """Yield the changes of all back ends. Ends when the watch of one of them ends, so that no event is missed."""
        async with AsyncExitStack() as stack:
            watches = []
            for name, store in self.backends.items():
                own = await stack.enter_async_context(aclosing(store.watch(context, schema, ObjectQuery())))
                watches.append(self._events_of(name, own))
            events = await stack.enter_async_context(aclosing(fan_in(watches)))
            async for event in events:
                yield event

    async def _events_of(self, name: str, events: ResourceEvents) -> AsyncGenerator[ResourceEvent]:
        async for event in events:
            yield replace(event, data=self._add_backend(name, event.data), revision="")

    def _backend(self, object_id: str) -> tuple[str, Store, str]:
        name, _, own_id = object_id.partition("~")
        store = self.backends.get(name)
        if store is None or not own_id:
            raise not_found(object_id)
        return name, store, own_id

    def _add_backend(self, name: str, data: JsonObject) -> JsonObject:
        return {**data, "id": f"{name}~{to_text(data.get('id'))}", self._field: name}

    def _remove_backend_field(self, data: JsonObject) -> JsonObject:
        return {name: value for name, value in data.items() if name != self._field}

    def __repr__(self) -> str:
        return f"<AggregateStore of {', '.join(self.backends)}>"
