"""Values and fields at a path."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.errors import UsageError
from opsdk.norman.mappers.moves import Move
from opsdk.norman.mappers.paths import ABSENT, find_field, get_value, put_value, remove_value
from opsdk.structured_merge.value import JsonObject
from tests.norman.mappers.kit import registry, schema

NAMES = st.sampled_from("abc")
TREES = st.recursive(st.integers() | st.none(), lambda inner: st.dictionaries(NAMES, inner, max_size=3), max_leaves=8)


@given(st.dictionaries(NAMES, TREES), st.lists(NAMES, min_size=1, max_size=4), st.integers())
def test_a_value_that_was_put_is_there(data: JsonObject, path: list[str], value: int) -> None:
    """`put_value` either sets exactly the value at the path, or changes nothing."""
    before = copy.deepcopy(data)
    if put_value(data, path, value):
        assert get_value(data, path) == value
        assert remove_value(data, path) == value
        assert get_value(data, path) is ABSENT
    else:
        assert data == before


@given(st.dictionaries(NAMES, TREES), st.lists(NAMES, min_size=1, max_size=4))
def test_removing_is_the_inverse_of_putting(data: JsonObject, path: list[str]) -> None:
    """A pruned removal of a value that was absent restores the object, if no parent was null or empty."""
    if get_value(data, path) is not ABSENT:
        return
    if any(get_value(data, path[:length]) in (None, {}) for length in range(1, len(path))):
        return
    before = copy.deepcopy(data)
    if put_value(data, path, 1):
        assert remove_value(data, path, prune=True) == 1
    assert data == before


def test_a_path_needs_schemas_of_objects() -> None:
    """A missing parent, a parent without schema and a parent in a list are errors that say what to do."""
    site = schema(spec="spec", ports="array[port]", extra="json", owner="reference[site]")
    schemas = registry(schema("spec", image="string"), schema("port", number="int"))
    assert find_field(site, schemas, ["spec", "image"]).field is not None
    assert find_field(site, schemas, ["spec", "other"]).field is None
    for path, text in (
        ("missing/name", "field missing missing on schema site: it has extra, owner, ports, spec"),
        ("ports/number", "add the mapper to the schema of its elements"),
        ("extra/name", "use UntypedMove"),
        ("owner/name", "leads through owner"),
    ):
        with pytest.raises(UsageError, match=text):
            find_field(site, schemas, path.split("/"))


def test_a_nested_schema_of_several_users_is_not_changed() -> None:
    """A mapper of one schema may not change the fields that another schema shows."""
    spec = schema("spec", image="string")
    site, other = schema(spec="spec"), schema("other", specs="array[spec]")
    with pytest.raises(UsageError, match="because other uses it too: add a mapper to spec itself"):
        Move(source="spec/image", to="image").modify_schema(site, registry(spec, other))
    assert set(spec.resource_fields) == {"image"}
