"""Shards of a cluster's objects: ranges of a hash. Pure.

A cache with a range holds the objects whose hash lies in it. The hash is that of the server, so a server with the
feature gate ShardedListAndWatch sends nothing else; with any other server, the client drops the rest as it arrives.

Upstream: k8s.io/apimachinery/pkg/sharding (v1.36, KEP-5866): FNV-1a, 64 bits, of the uid or the namespace
"""

from __future__ import annotations

from enum import Enum

import msgspec

from opsdk.base.options import Options
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JSON_ERRORS

_SIZE = 1 << 64
_OFFSET = 0xCBF29CE484222325
_PRIME = 0x100000001B3


class ShardField(Enum):
    """The field whose value is hashed."""

    UID = "object.metadata.uid"
    """Objects of all namespaces spread evenly. An object and those that it owns may lie in different shards."""
    NAMESPACE = "object.metadata.namespace"
    """All objects of a namespace lie in one shard; all cluster-scoped objects lie in one, too.

    Names that differ in their last characters only, such as ``team-1`` and ``team-2``, mostly lie in the same shard:
    these characters hardly reach the high bits of the hash.
    """


class HashRange(Options, frozen=True, kw_only=True):
    """The objects whose hash lies in a range.

    Attributes:
        field: the field whose value is hashed.
        start: the first hash.
        end: the first hash after the range, at most 2 to the power of 64.

    >>> HashRange(field=ShardField.UID, start=0, end=1 << 63).selector
    "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
    """

    field: ShardField
    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end <= _SIZE:
            raise UsageError(f"a range of hashes from {self.start} to {self.end} is empty, or exceeds 64 bits")

    @property
    def selector(self) -> str:
        """The range as the server's ``shardSelector``."""
        return f"shardRange({self.field.value}, '0x{self.start:016x}', '0x{self.end:016x}')"

    def contains(self, *, uid: str, namespace: str) -> bool:
        """Whether an object lies in the range."""
        return self.start <= fnv1a_64(uid if self.field is ShardField.UID else namespace) < self.end

    def contains_json(self, data: bytes) -> bool:
        """Whether an object in JSON lies in the range; True if its metadata is unreadable."""
        try:
            metadata = msgspec.json.decode(data, type=_Object).metadata
        except JSON_ERRORS:
            return True  # the informer reports it
        return self.contains(uid=metadata.uid, namespace=metadata.namespace)


class _Metadata(msgspec.Struct):
    uid: str = ""
    namespace: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata


def fnv1a_64(text: str) -> int:
    """Return the hash of a string.

    >>> hex(fnv1a_64("a"))
    '0xaf63dc4c8601ec8c'
    """
    value = _OFFSET
    for byte in text.encode():
        value = (value ^ byte) * _PRIME % _SIZE
    return value


def split_ranges(count: int, field: ShardField) -> list[HashRange]:
    """Return `count` ranges of equal size that cover every hash. Raises `UsageError` for less than one.

    >>> [hex(part.end) for part in split_ranges(2, ShardField.UID)]
    ['0x8000000000000000', '0x10000000000000000']
    """
    if count < 1:
        raise UsageError(f"objects cannot be split into {count} shards: pass at least 1")
    bounds = [_SIZE * number // count for number in range(count + 1)]
    return [HashRange(field=field, start=bounds[n], end=bounds[n + 1]) for n in range(count)]
