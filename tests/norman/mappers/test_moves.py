"""Mappers that move, copy and drop."""

from __future__ import annotations

import pytest

from opsdk.errors import UsageError
from opsdk.norman.errors import NormanError
from opsdk.norman.mappers.moves import (
    BatchMove,
    Copy,
    DisplayName,
    Drop,
    Move,
    RenameReference,
    SliceMerge,
    UntypedMove,
)
from tests.norman.mappers.kit import NO_SCHEMAS, inward, outward, registry, round_trip, schema, types


def test_a_move_changes_data_and_schema_both_ways() -> None:
    """The field goes from one path to the other, with its declaration and a code name."""
    site, spec = schema(name="string", spec="spec"), schema("spec", image="string", size="int")
    move = Move(source="spec/image", to="picture")
    move.modify_schema(site, registry(spec))
    assert types(site) == {"name": "string", "spec": "spec", "picture": "string"}
    assert types(spec) == {"size": "int"}
    assert site.resource_fields["picture"].code_name == "Picture"
    assert outward(move, {"spec": {"image": "a", "size": 1}}) == {"spec": {"size": 1}, "picture": "a"}
    assert inward(move, {"spec": {"size": 1}, "picture": "a"}) == {"spec": {"size": 1, "image": "a"}}


def test_a_move_needs_its_source_and_a_free_destination() -> None:
    """The errors name the field; `dest_defined` and `no_delete_from_field` change the declarations."""
    with pytest.raises(UsageError, match="field a missing on schema site"):
        Move(source="a", to="b").modify_schema(schema(), NO_SCHEMAS)
    with pytest.raises(UsageError, match="field b already exists on schema site"):
        Move(source="a", to="b").modify_schema(schema(a="int", b="int"), NO_SCHEMAS)
    with pytest.raises(UsageError, match="field b missing on schema site"):
        Move(source="a", to="b", dest_defined=True).modify_schema(schema(a="int"), NO_SCHEMAS)
    site = schema(a="int", b="string")
    Move(source="a", to="b", dest_defined=True, no_delete_from_field=True).modify_schema(site, NO_SCHEMAS)
    assert types(site) == {"a": "int", "b": "string"}
    Move(source="a", to=".a", dest_defined=True).modify_schema(site, NO_SCHEMAS)
    assert types(site) == {"b": "string"}


def test_a_move_does_not_overwrite_what_is_no_object() -> None:
    """Outward the value stays; inward the client gets InvalidFormat. An empty parent is lost inward."""
    move = Move(source="a", to="spec/a")
    assert outward(move, {"a": 1, "spec": "text"}) == {"a": 1, "spec": "text"}
    with pytest.raises(NormanError) as raised:
        inward(Move(source="spec/a", to="a"), {"a": 1, "spec": "text"})
    assert (raised.value.code, raised.value.field_name) == ("InvalidFormat", "a")
    assert round_trip(move, {"a": 1, "spec": {}}) == {"a": 1}


def test_a_batch_moves_all_fields_below_one_path() -> None:
    """Each field keeps its name below the destination."""
    site, spec = schema(a="int", b="string", spec="spec"), schema("spec")
    mapper = BatchMove(source=("a", "b"), to="spec")
    mapper.modify_schema(site, registry(spec))
    assert (types(site), types(spec)) == ({"spec": "spec"}, {"a": "int", "b": "string"})
    assert outward(mapper, {"a": 1, "b": "x"}) == {"spec": {"a": 1, "b": "x"}}


def test_an_untyped_move_leaves_the_schema() -> None:
    """Only the data changes, with any separator."""
    site = schema(a="json")
    mapper = UntypedMove(source="a.b/c", to="d", separator=".")
    mapper.modify_schema(site, NO_SCHEMAS)
    assert types(site) == {"a": "json"}
    assert outward(mapper, {"a": {"b/c": 1}}) == {"a": {}, "d": 1}


def test_a_copy_restores_the_source() -> None:
    """A client that sends only the copy sets the source; the source wins over the copy."""
    site = schema(a="int")
    mapper = Copy(source="a", to="b")
    mapper.modify_schema(site, NO_SCHEMAS)
    assert types(site) == {"a": "int", "b": "int"}
    assert outward(mapper, {"a": {"x": 1}}) == {"a": {"x": 1}, "b": {"x": 1}}
    assert inward(mapper, {"b": 2}) == {"a": 2}
    assert inward(mapper, {"a": 1, "b": 2}) == {"a": 1}
    with pytest.raises(UsageError, match="already exists"):
        mapper.modify_schema(site, NO_SCHEMAS)
    Copy(source="a", to="b", dest_defined=True).modify_schema(site, NO_SCHEMAS)


def test_a_dropped_field_is_lost() -> None:
    """A dropped field is removed outward and from the schema, and is not restored inward."""
    site = schema(a="int", b="int")
    mapper = Drop(field="a")
    mapper.modify_schema(site, NO_SCHEMAS)
    assert types(site) == {"b": "int"}
    assert round_trip(mapper, {"a": 1, "b": 2}) == {"b": 2}
    with pytest.raises(UsageError, match="field a missing"):
        mapper.modify_schema(site, NO_SCHEMAS)
    Drop(field="a", ignore_definition=True).modify_schema(site, NO_SCHEMAS)


def test_display_name_shows_the_name_as_id() -> None:
    """The name is the id, displayName is the name, and the id cannot be written."""
    site = schema(name="string", displayName="string")
    mapper = DisplayName()
    mapper.modify_schema(site, NO_SCHEMAS)
    assert types(site) == {"id": "string", "name": "string"}
    assert not site.resource_fields["id"].create
    assert site.resource_fields["name"].update
    assert outward(mapper, {"name": "s-1", "displayName": "Shop"}) == {"id": "s-1", "name": "Shop"}


def test_references_are_renamed() -> None:
    """A name xName becomes xId and xNames xIds, if the type is a reference; other names stay."""
    site = schema(
        nodeName="reference[node]", userNames="array[reference[user]]", hostName="string", node="reference[a]"
    )
    mapper = RenameReference()
    mapper.modify_schema(site, NO_SCHEMAS)
    assert set(site.resource_fields) == {"hostName", "node", "nodeId", "userIds"}
    assert site.resource_fields["nodeId"].code_name == "NodeID"
    assert site.resource_fields["userIds"].code_name == "UserIDs"
    assert outward(mapper, {"nodeName": "n", "hostName": "h"}) == {"nodeId": "n", "hostName": "h"}


def test_merged_lists_stay_one_list() -> None:
    """Outward the lists are joined in the order of the sources; inward they are not split again."""
    site = schema(a="array[string]", b="array[string]", all="array[string]")
    mapper = SliceMerge(source=("a", "b"), to="all")
    mapper.modify_schema(site, NO_SCHEMAS)
    assert types(site) == {"all": "array[string]"}
    assert round_trip(mapper, {"a": ["1"], "b": ["2", "3"]}) == {"all": ["1", "2", "3"]}
    assert outward(mapper, {"b": None}) == {}
    same = SliceMerge(source=("a", "b"), to="a")
    assert outward(same, {"a": [1], "b": [2]}) == {"a": [1, 2]}
    with pytest.raises(UsageError, match="a on site is not an array"):
        same.modify_schema(schema(a="int", b="int"), NO_SCHEMAS)
    with pytest.raises(UsageError, match="field all missing"):
        mapper.modify_schema(schema(a="array[int]", b="array[int]"), NO_SCHEMAS)
    SliceMerge(source=("a",), to="b", ignore_definition=True).modify_schema(schema(), NO_SCHEMAS)
