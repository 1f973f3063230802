"""Objects as bytes in etcd."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apiserver.storage.etcd.errors import EtcdError
from opsdk.apiserver.storage.etcd.values import decode, encode

_JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


class KeyValue(msgspec.Struct):
    """What etcd returns of a key."""

    value: bytes
    mod_revision: int = 7
    key: bytes = b"/registry/a/b/c"


@given(st.dictionaries(st.text(), _JSON, max_size=3), st.integers())
def test_an_object_returns_with_its_revision(data: dict[str, object], seed: int) -> None:
    """Decoding gives what was encoded, with the key's revision instead of the object's own."""
    value = {"metadata": {"name": "a", "uid": "u", "resourceVersion": "3"}, "data": data}
    stored = decode(KeyValue(encode(value, random.Random(seed))))
    assert stored.value == {"metadata": {"name": "a", "uid": "u", "resourceVersion": "7"}, "data": data}
    assert list(stored.value["metadata"]) == ["name", "uid", "resourceVersion"]


def test_equal_objects_of_two_writers_differ_in_their_bytes() -> None:
    """Two encodings of equal objects differ in bytes, so a writer recognises its own write, and decode equally."""
    rng = random.Random(1)
    one, other = (encode({"metadata": {}}, rng) for _ in range(2))
    assert one != other
    assert msgspec.json.decode(one) == msgspec.json.decode(other)


@pytest.mark.parametrize("data", [b"", b"k8s\0", b"[]", b"{"])
def test_foreign_bytes_are_named(data: bytes) -> None:
    """A value that is not a JSON object raises an error with its key."""
    with pytest.raises(EtcdError, match="/registry/a/b/c holds no JSON object"):
        decode(KeyValue(data))
