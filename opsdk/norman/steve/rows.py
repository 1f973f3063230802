"""Objects of a page as JSON, encoded once for each version. Pure.

Upstream: github.com/rancher/apiserver/pkg/writer/encoding.go
"""

from __future__ import annotations

import msgspec
from cachetools import LRUCache

from opsdk.cache.entry import StoreEntry
from opsdk.norman.steve.column import Decorate
from opsdk.norman.steve.resources import ResourceLinks, own_fields


class EncodedRows:
    """The objects of the latest pages as JSON, without the fields that depend on the request.

    Args:
        decorate: adds the virtual fields to an object.
        limit: bytes of JSON that are kept.
    """

    def __init__(self, decorate: Decorate, limit: int) -> None:
        self._decorate = decorate
        self._encoded_rows: LRUCache[StoreEntry, bytes] = LRUCache(limit, getsizeof=len)

    def row(self, entry: StoreEntry, links: ResourceLinks) -> bytes:
        """Return an object as the API shows it, as JSON."""
        encoded = self._encoded_rows.get(entry)
        if encoded is None:
            encoded = msgspec.json.encode(own_fields(self._decorate(msgspec.json.decode(entry.data))))
            if len(encoded) <= self._encoded_rows.maxsize:
                self._encoded_rows[entry] = encoded
        return msgspec.json.encode(links.of(*entry.key))[:-1] + b"," + encoded[1:]

    def __repr__(self) -> str:
        return f"<EncodedRows: {len(self._encoded_rows)}>"
