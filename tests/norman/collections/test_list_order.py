"""Orders: inserting changes gives the same result as sorting everything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.cache.entry import StoreEntry
from opsdk.norman.collections import list_order
from opsdk.norman.collections.column import Column
from opsdk.norman.collections.list_order import ListOrder
from opsdk.norman.collections.query import SortKey
from tests.norman.collections.kit import entry

KEY = SortKey(("spec", "size"), descending=True)


@given(
    st.lists(st.tuples(st.integers(0, 7), st.one_of(st.none(), st.integers(0, 3))), max_size=20),
    st.integers(0, 3),
    st.sampled_from((0, 8)),
    st.sampled_from((1, 3, 100)),
)
def test_putting_changes_into_place_is_sorting(
    changes: list[tuple[int, int | None]], many: int, few: int, size_of_slice: int
) -> None:
    """Inserting changes gives the same order as sorting everything."""
    entries: list[StoreEntry | None] = [None] * 8
    sizes: dict[str, int] = {}
    keys = [f"k{number}" for number in range(8)]
    column = Column(entries, lambda item: sizes[item.key.name])
    base = ListOrder(entries, keys)
    order = ListOrder(entries, keys, [(KEY, column)], base)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(list_order, "_MANY_CHANGES", many)
        patch.setattr(list_order, "_LARGE_SHARE", 1)
        patch.setattr(list_order, "_FEW_CHANGES", few)
        patch.setattr(list_order, "_SLICE", size_of_slice)
        for slot, size in changes:
            entries[slot] = None if size is None else entry(keys[slot])
            if size is not None:
                sizes[keys[slot]] = size
            for part in (column, base, order):
                part.touch(slot)
            for _ in order.refresh():
                pass
            alive = [number for number, item in enumerate(entries) if item is not None]
            assert order.slots == sorted(alive, key=lambda number: (-sizes[keys[number]], number))
    assert order.uses({KEY.path: column})
    assert not order.uses({KEY.path: Column(entries, lambda _: None)})
