"""Laws of `opsdk.cache.head`."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apimachinery.codec import decode_partial
from opsdk.cache.head import decode_head
from opsdk.errors import DecodeError

NAMES = st.text(max_size=5)
OWNERS = st.fixed_dictionaries(
    {"apiVersion": NAMES, "kind": NAMES, "name": NAMES, "uid": NAMES},
    optional={"controller": st.none() | st.booleans(), "blockOwnerDeletion": st.booleans()},
)
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "name": st.none() | NAMES,
        "namespace": NAMES,
        "uid": st.none() | NAMES,
        "resourceVersion": NAMES,
        "generation": st.none() | st.integers(0, 9),
        "creationTimestamp": st.none() | st.just("2026-01-01T00:00:00Z"),
        "deletionTimestamp": st.none() | st.just("2026-01-01T00:00:00Z"),
        "labels": st.none() | st.dictionaries(NAMES, NAMES, max_size=2),
        "annotations": st.none() | st.dictionaries(NAMES, NAMES, max_size=2),
        "finalizers": st.none() | st.lists(NAMES, max_size=2),
        "ownerReferences": st.none() | st.lists(OWNERS, max_size=2),
        "managedFields": st.none() | st.just([{"manager": "m", "fieldsV1": {"f:spec": {}}}]),
    },
)
OBJECTS = st.fixed_dictionaries(
    {}, optional={"kind": st.none() | NAMES, "apiVersion": NAMES, "metadata": st.none() | METADATA, "spec": NAMES}
)


@given(OBJECTS)
def test_the_head_agrees_with_the_full_metadata(tree: dict[str, Any]) -> None:
    """Nulls included, each field equals that of the whole metadata."""
    data = msgspec.json.encode(tree)
    head, partial = decode_head(data), decode_partial(data)
    meta, whole = head.metadata, partial.metadata
    assert (head.kind, head.api_version) == (partial.kind, partial.api_version)
    for field in ("name", "namespace", "uid", "resource_version", "generation"):
        assert getattr(meta, field) == getattr(whole, field)
    assert (meta.deletion_timestamp is None) is (whole.deletion_timestamp is None)
    assert (meta.labels or {}, meta.finalizers or []) == (whole.labels, whole.finalizers)
    owners = [(o.api_version, o.kind, o.name, o.uid, o.controller) for o in meta.owner_references or ()]
    assert owners == [(o.api_version, o.kind, o.name, o.uid, o.controller) for o in whole.owner_references]


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"metadata": 1}', b'{"metadata": {"labels": {"a": 1}}}', b"\xff"])
def test_invalid_metadata_raises_decode_error(data: bytes) -> None:
    """Invalid metadata raises a decode error that names the object."""
    with pytest.raises(DecodeError, match="unreadable metadata"):
        decode_head(data)
