"""The registration of imported schemas."""

from __future__ import annotations

import pytest

from opsdk.errors import UsageError
from opsdk.norman.importing.registration import finish, internal_copy, set_filters
from opsdk.norman.mappers.embeds import Embed
from opsdk.norman.mappers.moves import Drop, Move
from opsdk.norman.model import Schema
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.schema_parts import Filter, Modifier
from tests.norman.mappers.kit import V3, schema, types


def test_the_order_of_the_mappers() -> None:
    """Default mappers run first (for listed schemas only), then the added ones, then the post mappers."""
    for methods, expected in ((("GET",), "d"), ((), "b")):
        registry = SchemaRegistry()
        registry.default_mappers = lambda: (Move(source="a", to="b"),)
        registry.default_post_mappers = lambda: (Drop(field="x"),)
        registry.add_mapper(V3, "site", *([Move(source="b", to="c"), Move(source="c", to="d")] if methods else []))
        site = schema(methods=methods, x="int", **({"a": "int"} if methods else {"b": "int"}))
        assert types(finish(registry, site)) == {expected: "int"}


def test_one_mapper_serves_several_schemas() -> None:
    """Each schema gets its own copy of a mapper."""
    registry = SchemaRegistry()
    registry.add(schema("spec", image="string"))
    registry.add(schema("other", color="string"))
    embed = Embed(field="spec")
    for name, kind in (("a", "spec"), ("b", "other")):
        registry.add_mapper(V3, name, embed)
        finish(registry, schema(name, spec=kind))
    for name, key in (("a", "image"), ("b", "color")):
        mapped = registry.schema(V3, name)
        assert mapped is not None
        assert mapped.mapper is not None
        data = {"spec": {key: "x"}}
        mapped.mapper.from_internal(data)
        assert data[key] == "x"
    assert embed.embedded_fields == ()


def test_a_taken_id_is_an_error() -> None:
    """If an id is taken, the existing schema stays."""
    registry = SchemaRegistry()
    first = finish(registry, schema(a="int"))
    with pytest.raises(UsageError, match="/v3/schemas/site already exists"):
        finish(registry, schema(b="int"))
    assert registry.schema(V3, "site") is first


def test_filters_that_are_set_stay() -> None:
    """Only fields without filters get those of their type."""
    site = schema(a="int", b="reference[site]", c="json", d="float")
    site.collection_filters["a"] = Filter(modifiers=(Modifier.NULL,))
    set_filters(site)
    assert site.collection_filters == {"a": Filter(modifiers=(Modifier.NULL,)), "b": Filter()}


def test_customize_can_add_references() -> None:
    """`customize` runs before the registration, so the registry knows the references that it adds."""
    registry = SchemaRegistry()
    cluster = registry.add(schema("cluster"))

    def customize(each: Schema) -> None:
        each.resource_fields.update(schema(clusterId="reference[cluster]").resource_fields)

    site = finish(registry, schema(), customize)
    assert [each.schema for each in registry.references(cluster)] == [site]


def test_an_internal_copy_shares_no_fields() -> None:
    """Changing one schema does not change the other."""
    site = schema(a="int")
    copy = internal_copy(site)
    del site.resource_fields["a"]
    assert types(copy) == {"a": "int"}
