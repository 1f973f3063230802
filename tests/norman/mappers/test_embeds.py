"""Mappers that inline nested objects."""

from __future__ import annotations

import pytest

from opsdk.errors import UsageError
from opsdk.norman.errors import NormanError
from opsdk.norman.mappers.embeds import Embed, SliceToMap, UnionEmbed, UnionMapping
from tests.norman.mappers.kit import NO_SCHEMAS, inward, outward, registry, round_trip, schema, types


def test_an_embed_inlines_the_fields() -> None:
    """Nested fields move to the top, in data and schema; inward they are collected again."""
    site = schema(name="string", spec="spec")
    embed = Embed(field="spec", ignore=("internal",), read_only=True)
    embed.modify_schema(site, registry(schema("spec", image="string", internal="string")))
    assert types(site) == {"name": "string", "image": "string"}
    assert not site.resource_fields["image"].update
    assert outward(embed, {"name": "a", "spec": {"image": "b", "internal": "c"}}) == {"name": "a", "image": "b"}
    assert inward(embed, {"name": "a", "image": "b"}) == {"name": "a", "spec": {"image": "b"}}


def test_what_an_embed_loses() -> None:
    """Ignored and undeclared fields are lost, and so is an empty object; `empty_value_ok` makes it null."""
    schemas = registry(schema("spec", image="string"))
    embed, empty = Embed(field="spec"), Embed(field="spec", empty_value_ok=True)
    for each in (embed, empty):
        each.modify_schema(schema(spec="spec"), schemas)
    assert round_trip(embed, {"spec": {"image": "a", "unknown": 1}}) == {"spec": {"image": "a"}}
    assert round_trip(embed, {"spec": {}}) == {}
    assert round_trip(empty, {"spec": {}}) == {"spec": None}


def test_an_embed_must_not_overwrite_a_field() -> None:
    """The error names both; a field with the name of the object is not a conflict."""
    schemas = registry(schema("spec", name="string"), schema("same", same="string"))
    with pytest.raises(UsageError, match="embedding field spec on site will overwrite the field name"):
        Embed(field="spec").modify_schema(schema(name="string", spec="spec"), schemas)
    embed = Embed(field="same")
    embed.modify_schema(schema(same="same"), schemas)
    assert outward(embed, {"same": {"same": "x"}}) == {"same": "x"}


def test_an_optional_embed_needs_no_schema() -> None:
    """Without field or schema it does nothing; without `optional` both are errors."""
    for site in (schema(name="string"), schema(spec="json"), schema(spec="array[spec]")):
        embed = Embed(field="spec", optional=True)
        embed.modify_schema(site, NO_SCHEMAS)
        assert round_trip(embed, {"spec": {"a": 1}}) == outward(embed, {"spec": {"a": 1}}) == {"spec": {"a": 1}}
        with pytest.raises(UsageError, match=r"field spec missing|failed to find schema"):
            Embed(field="spec").modify_schema(site, NO_SCHEMAS)


def test_a_union_takes_the_first_mapping_that_fits() -> None:
    """Outward all objects are inlined; inward the first one whose check fields have values gets its fields."""
    schemas = registry(schema("s3", bucket="string", zone="string"), schema("nfs", path="string", zone="string"))
    mapper = UnionEmbed(
        fields=[
            UnionMapping(field_name="s3", check_fields=("bucket", "zone")),
            UnionMapping(field_name="nfs", check_fields=("path",)),
        ]
    )
    backup = schema("backup", s3="s3", nfs="nfs")
    mapper.modify_schema(backup, schemas)
    assert types(backup) == {"bucket": "string", "zone": "string", "path": "string"}
    assert outward(mapper, {"nfs": {"path": "/a"}}) == {"path": "/a"}
    assert inward(mapper, {"bucket": "b", "zone": "z", "path": "/a"}) == {
        "s3": {"bucket": "b", "zone": "z"},
        "path": "/a",
    }
    assert inward(mapper, {"bucket": "b", "zone": "", "path": "/a"}) == {
        "bucket": "b",
        "nfs": {"zone": "", "path": "/a"},
    }
    assert inward(mapper, {"bucket": "b"}) == {"bucket": "b"}


def test_a_union_needs_its_check_fields() -> None:
    """A missing check field, and a field outside the union with the same name, are errors."""
    schemas = registry(schema("s3", bucket="string"))
    mapper = UnionEmbed(fields=[UnionMapping(field_name="s3", check_fields=("zone",))])
    with pytest.raises(UsageError, match="field zone missing"):
        mapper.modify_schema(schema(s3="s3"), schemas)
    with pytest.raises(UsageError, match="will overwrite the field bucket"):
        mapper.modify_schema(schema(s3="s3", bucket="string"), schemas)


def test_a_list_becomes_a_map_by_key() -> None:
    """The order is kept, empty lists too; the key is not a field of the elements any more."""
    port = schema("port", name="string", number="int")
    site = schema(ports="array[port]")
    mapper = SliceToMap(field="ports", key="name")
    mapper.modify_schema(site, registry(port))
    assert (types(site), types(port)) == ({"ports": "map[port]"}, {"number": "int"})
    ports = [{"name": "b", "number": 1}, {"name": "a", "number": 2}]
    assert outward(mapper, {"ports": ports}) == {"ports": {"b": {"number": 1}, "a": {"number": 2}}}
    assert round_trip(mapper, {"ports": ports}) == {"ports": ports}
    assert outward(mapper, {"ports": []}) == {"ports": {}}
    assert outward(mapper, {"ports": None}) == {"ports": None}


def test_what_a_map_by_key_loses() -> None:
    """Of two elements with one key the last stays; elements that are not objects are lost, or rejected inward."""
    mapper = SliceToMap(field="ports", key="name")
    assert outward(mapper, {"ports": [{"name": "a", "n": 1}, {"name": "a", "n": 2}, 3]}) == {"ports": {"a": {"n": 2}}}
    with pytest.raises(NormanError) as raised:
        inward(mapper, {"ports": {"a": 1}})
    assert (raised.value.code, raised.value.field_name) == ("InvalidFormat", "ports.a")


def test_only_lists_of_objects_become_maps() -> None:
    """Anything else is an error at the schema."""
    mapper = SliceToMap(field="ports", key="name")
    schemas = registry(schema("port", number="int"))
    for kind, text in (
        ("string", "is not an array"),
        ("array[json]", "schema for the elements"),
        ("array[port]", "name"),
    ):
        with pytest.raises(UsageError, match=text):
            mapper.modify_schema(schema(ports=kind), schemas)
