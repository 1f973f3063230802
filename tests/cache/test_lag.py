"""The lag of an informer, from polls: only a change that is missing counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.cache.lag import InformerLag, LagState, compare_resource_versions


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**128 - 1))
def test_resource_versions_are_compared_as_numbers(first: int, second: int) -> None:
    """Strings of any length have the order of their numbers."""
    order = compare_resource_versions(str(first), str(second))
    assert order is not None
    assert (order > 0, order < 0) == (first > second, first < second)


@pytest.mark.parametrize(
    "version", ["", "0", "07", "-7", "7.0", "\u0667", "\u00b2", "a", "7a", "1" * 40, "1" * 100_000]
)
def test_other_versions_are_not_comparable(version: str) -> None:
    """An aggregated API server may send anything."""
    assert compare_resource_versions(version, "7") is None
    assert compare_resource_versions("7", version) is None


def test_the_lag_is_unknown_before_the_first_poll() -> None:
    """And after a list of the informer, and with versions that are not comparable."""
    lag = InformerLag()
    assert lag.seconds("7", 1.0) is None
    assert not lag.listed("7", before="7", shown="7", now=1.0)
    assert lag.seconds("7", 2.0) == 0
    assert not lag.listed("x", before="7", shown="7", now=3.0)
    assert lag.seconds("7", 4.0) is None
    lag.listed("7", before="7", shown="7", now=5.0)
    lag.reset()
    assert (lag.state, lag.seconds("7", 6.0)) == (LagState.UNKNOWN, None)


def test_a_newer_list_alone_is_no_lag() -> None:
    """The second watch decides: other kinds change the resource version of the storage, too."""
    lag = InformerLag()
    assert lag.listed("9", before="7", shown="7", now=10.0)
    lag.compared(missing=False)
    assert lag.seconds("7", 60.0) == 0
    assert lag.listed("12", before="7", shown="7", now=40.0)
    lag.compared(missing=True)
    assert lag.seconds("7", 60.0) == 20


def test_the_lag_begins_at_the_oldest_poll_that_is_not_shown() -> None:
    """Each poll that the watch passes shortens the lag, and the last one ends it."""
    lag = InformerLag()
    for now, version in ((10.0, "9"), (20.0, "12"), (30.0, "15")):
        assert lag.listed(version, before="7", shown="7", now=now)
        lag.compared(missing=True)
    assert lag.seconds("7", 31.0) == 21
    assert lag.seconds("9", 32.0) == 12
    assert lag.seconds("14", 33.0) == 3
    assert lag.seconds("15", 34.0) == 0
    assert not lag.listed("15", before="15", shown="15", now=40.0)
    assert lag.state is LagState.CURRENT


def test_a_watch_that_passes_the_list_during_the_poll_is_current() -> None:
    """The response is compared with what the watch has shown when it arrives."""
    lag = InformerLag()
    assert not lag.listed("9", before="7", shown="11", now=1.0)
    assert lag.seconds("11", 2.0) == 0


def test_a_list_from_the_past_is_a_lag() -> None:
    """After a restore, the watch waits in the future, and shows nothing."""
    lag = InformerLag()
    assert not lag.listed("5", before="7", shown="7", now=10.0)
    assert not lag.listed("6", before="7", shown="7", now=20.0)
    assert lag.seconds("7", 25.0) == 15
    assert not lag.listed("9", before="9", shown="9", now=30.0)
    assert lag.seconds("9", 31.0) == 0


def test_a_failed_poll_ends_no_lag() -> None:
    """A lag grows while the server does not answer; no lag becomes unknown."""
    lag = InformerLag()
    lag.listed("9", before="7", shown="7", now=10.0)
    lag.compared(missing=True)
    lag.failed()
    assert lag.seconds("7", 30.0) == 20
    current = InformerLag()
    current.listed("7", before="7", shown="7", now=10.0)
    current.failed()
    assert current.seconds("7", 30.0) is None


def test_memory_is_bounded() -> None:
    """However long a watch is silent, the oldest poll is known."""
    lag = InformerLag()
    for poll in range(10_000):
        lag.listed(str(100 + poll), before="7", shown="7", now=float(poll))
        lag.compared(missing=True)
    assert "64 polls" in repr(lag)
    assert lag.seconds("7", 10_000.0) == 10_000
