"""Objects of a page in the form of a schema as JSON, encoded once for each version.

Upstream: github.com/rancher/apiserver/pkg/writer/encoding.go
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from cachetools import LRUCache

from opsdk.aio.large_work import compute
from opsdk.cache.entry import StoreEntry
from opsdk.structured_merge.value import JsonObject


class EncodedObjects:
    """The objects of the latest pages as JSON, without what depends on the request.

    Args:
        form: returns the form of an object that clients see. It may change its argument, and run in a thread.
        limit: bytes of JSON that are kept.
    """

    def __init__(self, form: Callable[[JsonObject], JsonObject], limit: int) -> None:
        self._form = form
        self._encoded: LRUCache[StoreEntry, bytes] = LRUCache(limit, getsizeof=len)

    async def get(self, entry: StoreEntry) -> bytes:
        """Return an object as JSON. A large one is encoded outside the event loop."""
        encoded = self._encoded.get(entry)
        if encoded is None:
            encoded = await compute(entry.size, self._encode, entry)
            if len(encoded) <= self._encoded.maxsize:
                self._encoded[entry] = encoded
        return encoded

    def _encode(self, entry: StoreEntry) -> bytes:
        return msgspec.json.encode(self._form(msgspec.json.decode(entry.data)))

    def __repr__(self) -> str:
        return f"<EncodedObjects: {len(self._encoded)}>"
