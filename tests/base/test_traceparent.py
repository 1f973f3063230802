"""Trace contexts in annotations are untrusted text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.base.traceparent import is_traceparent

VALID = "00-4bf92f3577b34da6a3ce929d0e0e4737-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    "text",
    [
        "",
        VALID.upper(),
        VALID + "-more",
        VALID[:-1],
        VALID + "\n",
        "ff" + VALID[2:],
        VALID.replace("4bf92f3577b34da6a3ce929d0e0e4737", "0" * 32),
        VALID.replace("00f067aa0ba902b7", "0" * 16),
        VALID.replace("-", "_"),
        VALID.replace("4b", "٤b"),
        "0" * 1_000_000,
        7,
        None,
        {"a": VALID},
    ],
)
def test_anything_else_is_no_trace_context(text: object) -> None:
    """Another length, alphabet, version or type, and ids of zeros, are refused."""
    assert not is_traceparent(text)


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.integers(0, 255))
def test_each_span_context_is_one(trace_id: int, span_id: int, flags: int) -> None:
    """Every valid pair of ids is accepted."""
    assert is_traceparent(f"00-{trace_id:032x}-{span_id:016x}-{flags:02x}")
