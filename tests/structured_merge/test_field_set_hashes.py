"""The hashes of field sets."""

from __future__ import annotations

import itertools

from opsdk.structured_merge.fieldpath import FieldSet


def _owned(uid: str) -> FieldSet:
    return FieldSet.from_fields_v1(
        {
            "f:metadata": {"f:ownerReferences": {f'k:{{"uid":"{uid}"}}': {}}},
            "f:spec": {"f:replicas": {}},
        }
    )


def test_sets_that_differ_deep_below_have_different_hashes() -> None:
    """Objects that are alike differ in the uid of their owner: a look-up among thousands compares with few of them."""
    sets = [_owned(f"uid-{number}") for number in range(1_000)]
    assert len({hash(fields) for fields in sets}) > 990
    assert all(hash(fields) == hash(_owned(f"uid-{number}")) for number, fields in enumerate(sets))


def test_sharing_sets_of_many_objects_compares_each_with_few() -> None:
    """The work grows with the number of sets, not with its square."""
    counter = itertools.count()
    equal = FieldSet.__eq__

    class Counting(FieldSet):
        __slots__ = ()
        __hash__ = FieldSet.__hash__

        def __eq__(self, other: object) -> bool:
            next(counter)
            return equal(self, other)

    table: dict[FieldSet, FieldSet] = {}
    for number in range(1_000):
        fields = _owned(f"uid-{number}")
        counting = Counting(fields.members, fields.children)
        table.setdefault(counting, counting)
    assert next(counter) < 100
