"""Reading bodies of built-in types."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envtest.kinds.plan import Plans
from envtest.kinds.reading import Reading
from envtest.tables.load import types
from opsdk.errors import DecodeError

READ, _ = Plans(types()).of({"type": "string", "format": "byte"})


@given(data=st.binary(max_size=40), cut=st.integers(0, 60))
def test_bytes_are_kept_as_they_were_sent(data: bytes, cut: int) -> None:
    """Line ends between the letters do not matter, and stay."""
    text = base64.b64encode(data).decode()
    text = f"{text[:cut]}\n{text[cut:]}"
    assert READ(text, Reading()) == text


@pytest.mark.parametrize(
    ("text", "place"),
    [("ZZ", 0), ("ZZZZZ", 4), ("ZZ=", 3), ("Z=", 1), ("ZZ==Z", 4), ("Z!ZZ", 1), ("ZZ=Z", 2), ("=", 0)],
)
def test_bytes_that_are_none_are_refused(text: str, place: int) -> None:
    """With the place where Go's decoder gives up."""
    with pytest.raises(DecodeError, match=f"illegal base64 data at input byte {place}$"):
        READ(text, Reading())


@pytest.mark.parametrize(
    ("kind", "body", "read"),
    [
        ("ConfigMap", {"data": {"a": None}, "binaryData": {"b": None}}, {"data": {"a": ""}, "binaryData": {"b": None}}),
        ("ResourceQuota", {"spec": {"hard": {"pods": None}}}, {"spec": {"hard": {"pods": "0"}}}),
        ("Pod", {"spec": {"securityContext": {"supplementalGroups": [None]}}}, None),
    ],
)
def test_nulls_inside_of_lists_and_maps_are_nothing_of_their_type(kind: str, body: Any, read: Any) -> None:
    """As Go's decoder leaves them."""
    made = Plans(types()).struct(f"io.k8s.api.core.v1.{kind}")(body, Reading())
    if read is None:
        read = {"spec": {"securityContext": {"supplementalGroups": [0]}}}
    for key, value in read.items():
        assert {k: made[key][k] for k in value} == value
