"""Laws of merged tolerations."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from envtest.admission.tolerations import merged, tolerates_all_of

TOLERATIONS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "key": st.sampled_from(("", "a", "b")),
            "operator": st.sampled_from(("Exists", "Equal")),
            "value": st.sampled_from(("", "x")),
            "effect": st.sampled_from(("", "NoSchedule", "NoExecute")),
            "tolerationSeconds": st.sampled_from((1, 2)),
        },
    ),
    max_size=4,
)


@given(TOLERATIONS, TOLERATIONS)
def test_merging_loses_nothing_and_invents_nothing(first: list[Any], second: list[Any]) -> None:
    """A merge covers each given toleration, and keeps only given ones."""
    result = merged(first, second)
    assert all(t in [*first, *second] for t in result)
    assert all(any(tolerates_all_of(expected, t) for expected in result) for t in [*first, *second])


@given(TOLERATIONS)
def test_merging_with_itself_changes_nothing(tolerations: list[Any]) -> None:
    """Merging is idempotent."""
    once = merged(tolerations, [])
    assert merged(once, once) == once
