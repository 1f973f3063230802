"""Order keys and digests."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from opsdk.norman.collections.field_path import cell_at, order_text
from opsdk.norman.collections.filter import FilterCondition, FilterOperator
from opsdk.norman.stores.sql_values import NULL_KEY, digest_of, field_values, order_key

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3)
)
values = scalars | st.lists(scalars, max_size=3) | st.dictionaries(st.text(max_size=1), scalars, max_size=1)


@given(first=values, second=values)
@example(first=1 << 62, second=(1 << 62) + 1)
@example(first=-0.0, second=0)
@example(first=1, second=1.0)
@example(first="\x00", second="")
@example(first="\ud7ff", second="\U00010000")
def test_order_keys_are_ordered_as_in_memory(first: Any, second: Any) -> None:
    """Less, equal and greater are the same for the bytes and for the values."""
    a, b = order_text(first), order_text(second)
    assert (order_key(first) < order_key(second), order_key(first) == order_key(second)) == (a < b, a == b)


@given(value=values, texts=st.lists(st.sampled_from(["", "a", "1", "true", "0"]), min_size=1, max_size=2))
def test_values_decide_conditions(value: Any, texts: list[str]) -> None:
    """IN matches by digest, NULL by order key; nested fields too."""
    item = {"a": {"b": value}}
    stored = field_values(item, "a.b")
    is_in = FilterCondition(("a", "b"), FilterOperator.IN, tuple(texts)).test()(cell_at(item, ("a", "b")))
    assert (not stored.digests.isdisjoint(map(digest_of, texts))) == is_in
    assert (stored.key == NULL_KEY) == (cell_at(item, ("a", "b")) is None)


@given(first=st.text(max_size=600), second=st.text(max_size=600))
@example(first="a" * 511 + "b", second="a" * 511 + "c")
@example(first="a" * 510 + "ä", second="a" * 510 + "ö")
def test_order_keys_of_long_texts_are_short_and_never_wrong(first: str, second: str) -> None:
    """Order keys have a bounded length, and a smaller string never has a greater key."""
    smaller, greater = order_key(min(first, second)), order_key(max(first, second))
    assert smaller <= greater
    assert max(len(smaller), len(greater)) <= 512
