"""The values by which lists of a cache are filtered and sorted, kept for each cached object. Pure.

Decoding and mapping an object takes a hundred times longer than comparing a value. So each state of an object is mapped
once for its values, and again only when it is on the page that a client gets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.cache.cached_kind import CachedKind
from opsdk.cache.entry import StoreEntry
from opsdk.norman.model import QueryOptions, Schema
from opsdk.norman.stores.proxy import external_form
from opsdk.norman.stores.sql_values import indexed_fields
from opsdk.structured_merge.value import JsonObject


class Projections:
    """The values of the objects of one schema.

    Args:
        schema: the fields of its filters, its references and the namespace are kept from the start.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._names = {name.partition(".")[0] for name in indexed_fields(schema)} | {"id"}
        self._values: dict[ObjectKey, tuple[StoreEntry, JsonObject]] = {}

    def need(self, options: QueryOptions) -> None:
        """Keep the fields of a query too. A new field drops all values, so the next list maps each object."""
        names = {condition.field.partition(".")[0] for condition in options.conditions}
        if options.sort is not None:
            names.add(options.sort.name)
        if not names <= self._names:
            self._names |= names
            self._values.clear()

    def rows(self, entries: Iterable[StoreEntry]) -> Iterator[tuple[JsonObject, bool]]:
        """Yield the values of objects, and whether the object was mapped for them.

        The values of an object have its id. They belong to this class: do not change them.
        """
        for entry in entries:
            state, values = self._values.get(entry.key, (None, {}))
            if state is entry:
                yield values, False
                continue
            mapped = external_form(self._schema, msgspec.json.decode(entry.data))
            values = {name: mapped[name] for name in self._names if name in mapped}
            self._values[entry.key] = (entry, values)
            yield values, True

    def retain(self, cached: CachedKind) -> None:
        """Drop the values of objects that have left the cache, when there are many."""
        stores = [informer.store for informer in cached.informers.values()]
        if len(self._values) > 2 * sum(map(len, stores)) + 100:
            self._values = {
                key: (state, values)
                for key, (state, values) in self._values.items()
                if any(store.get(key) is state for store in stores)
            }
