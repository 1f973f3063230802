"""What a reconcile reads and sends, bounded, and at no cost beyond the bound."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.client.activity import Activity, current_activity


@given(st.lists(st.integers(0, 200), max_size=300))
def test_an_object_is_encoded_only_if_it_is_kept(numbers: list[int]) -> None:
    """The first 64 different objects are encoded once each; the others are counted."""
    activity, encoded = Activity(), list[int]()

    def encode(number: int) -> bytes:
        encoded.append(number)
        return b"%d" % number

    for number in numbers:
        key = ObjectKey("default", str(number))
        activity.record_read("v1, Kind=Pod", key, "7", cached=False, data=lambda number=number: encode(number))
    recorded = list(dict.fromkeys(numbers))[:64]
    assert encoded == recorded
    assert [(read.key, read.data) for read in activity.reads] == [(f"default/{n}", b"%d" % n) for n in recorded]
    assert activity.more_reads == sum(number not in recorded for number in numbers)


def test_a_disabled_activity_is_not_the_current_one() -> None:
    """A disabled activity is never current, even inside an enabled one."""
    with Activity():
        with Activity(enabled=False) as activity:
            assert current_activity() is None
        assert current_activity() is not None
    assert not activity.reads
