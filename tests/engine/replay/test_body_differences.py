"""A replay shows the fields that differ, with both values, and nothing that is hidden."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from opsdk.engine.replay.body_differences import body_differences

TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(), below, max_size=3),
    max_leaves=8,
)


@given(TREES, TREES)
def test_bodies_differ_exactly_where_their_values_do(recorded: object, replayed: object) -> None:
    """Equal bodies have no difference; null counts as absent."""
    one, other = json.dumps(recorded).encode(), json.dumps(replayed).encode()
    assert body_differences(one, one) == ()
    if body_differences(one, other):
        assert one != other


def test_a_field_has_both_values() -> None:
    """With its path, also in a list of patches."""
    one = {"kind": "Thing", "status": {"at": "9:00", "size": 1}}
    other = {"kind": "Thing", "status": {"at": "9:05", "text": "new"}}
    assert body_differences(json.dumps(one).encode(), json.dumps(other).encode()) == (
        "status.at: recorded '9:00', replayed '9:05'",
        "status.size: recorded 1, replayed nothing",
        "status.text: recorded nothing, replayed 'new'",
    )


def test_values_of_secrets_are_not_shown() -> None:
    """Neither those with a digest in the recording, nor others."""
    digest = "digest:" + 64 * "0"
    one = {"kind": "Secret", "data": {"a": digest}, "type": "Opaque"}
    other = {"kind": "Secret", "data": {"a": "cGFzcw==", "b": "cGFzcw=="}, "type": "tls"}
    assert body_differences(json.dumps(one).encode(), json.dumps(other).encode()) == (
        "data.b: another value, which is not shown",
        "type: recorded 'Opaque', replayed 'tls'",
    )
