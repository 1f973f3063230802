"""Strategies for JSON trees."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from opsdk.structured_merge.value import JsonObject

NAMES = st.sampled_from(["a", "b", "c", "d/e", "f~g", ""])

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4)
)


def trees(scalars: st.SearchStrategy[Any] = SCALARS) -> st.SearchStrategy[Any]:
    """Any tree of these scalars."""
    return st.recursive(
        scalars, lambda below: st.lists(below, max_size=3) | st.dictionaries(NAMES, below, max_size=4), max_leaves=12
    )


NULL_FREE = st.booleans() | st.integers(-3, 3) | st.text(max_size=3)


def objects(scalars: st.SearchStrategy[Any] = NULL_FREE) -> st.SearchStrategy[JsonObject]:
    """Objects without nulls."""
    return st.dictionaries(NAMES, trees(scalars), max_size=4)
