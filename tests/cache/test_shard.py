"""Ranges of hashes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.cache.shard import HashRange, ShardField, fnv1a_64, split_ranges
from opsdk.errors import UsageError


@pytest.mark.parametrize(
    ("text", "hashed"),
    [("", 0xCBF29CE484222325), ("a", 0xAF63DC4C8601EC8C), ("foobar", 0x85944171F73967E8)],
)
def test_the_hash_is_the_servers(text: str, hashed: int) -> None:
    """FNV-1a of 64 bits, with the vectors of its authors."""
    assert fnv1a_64(text) == hashed


@given(st.integers(1, 40), st.sampled_from(ShardField), st.text(max_size=40), st.text(max_size=40))
def test_each_object_is_in_one_shard(count: int, field: ShardField, uid: str, namespace: str) -> None:
    """The ranges cover every hash, and do not overlap; JSON and metadata agree."""
    ranges = split_ranges(count, field)
    assert [shard.contains(uid=uid, namespace=namespace) for shard in ranges].count(True) == 1
    data = json.dumps({"metadata": {"uid": uid, "namespace": namespace}}).encode()
    assert all(shard.contains_json(data) == shard.contains(uid=uid, namespace=namespace) for shard in ranges)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"metadata": 1}', b'{"metadata": {"uid": 1}}'])
def test_objects_without_readable_metadata_are_in_every_shard(data: bytes) -> None:
    """The informer reports an object that does not decode; dropping it would hide it."""
    assert HashRange(field=ShardField.UID, start=0, end=1).contains_json(data)


@pytest.mark.parametrize(("start", "end"), [(0, 0), (5, 4), (-1, 5), (0, (1 << 64) + 1)])
def test_empty_and_overlong_ranges_are_refused(start: int, end: int) -> None:
    """Such a range would hold nothing, or more hashes than there are."""
    with pytest.raises(UsageError, match="range of hashes"):
        HashRange(field=ShardField.UID, start=start, end=end)


def test_no_shards_are_refused() -> None:
    """Objects cannot be split into nothing."""
    with pytest.raises(UsageError, match="0 shards"):
        split_ranges(0, ShardField.UID)
